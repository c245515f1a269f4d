"""Error types for bad input. Each message says what was wrong, where, and what to try, in one line."""

from __future__ import annotations

from pathlib import Path


class TagtraceError(Exception):
    """Anything the user can mend: the command line prints its message as one line and exits with 1."""


class DataError(TagtraceError):
    """A data file does not hold what it should."""


class NoLabelsError(DataError):
    """A data file has tokens but no place for labels."""


class OptionError(TagtraceError):
    """An option has a value that cannot work."""


class EncoderError(TagtraceError):
    """An encoder cannot be built, or gave features that cannot be used."""


class TaggerError(TagtraceError):
    """A folder is not a tagger, or a tagger does not fit the data."""


class TrainingError(TagtraceError):
    """Training or refitting failed, or a checkpoint belongs to another run."""


def at(path: str | Path, line: int | None = None) -> str:
    """The place an error points to.

    >>> at("train.conll", 12)
    'train.conll, line 12'
    """
    return f"{path}" if line is None else f"{path}, line {line}"
