"""Error types for bad input. Each message says what was wrong, where, and what to try, in one line."""

from __future__ import annotations

from pathlib import Path


class TagtraceError(Exception):
    """An error that the user can fix: the command line prints its message as one line and exits with status 1."""


class DataError(TagtraceError):
    """A data file has invalid content."""


class NoLabelsError(DataError):
    """A data file has tokens but no labels."""


class OptionError(TagtraceError):
    """An option has an invalid value."""


class EncoderError(TagtraceError):
    """An encoder cannot be built, or its features cannot be used."""


class TaggerError(TagtraceError):
    """A folder is not a tagger, or a tagger does not fit the data."""


class TrainingError(TagtraceError):
    """Training or refitting failed, or a checkpoint belongs to another run."""


def check_type(name: str, value: object, kind: type, remedy: str) -> None:
    """Raise OptionError unless the argument ``name`` has the right type; ``remedy`` says what to give instead."""
    if not isinstance(value, kind):
        raise OptionError(f"{name} is of type {type(value).__name__}, not {kind.__name__}; {remedy}")


def at(path: str | Path, line: int | None = None) -> str:
    """The place an error points to.

    >>> at("train.conll", 12)
    'train.conll, line 12'
    """
    return f"{path}" if line is None else f"{path}, line {line}"
