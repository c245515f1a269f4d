"""Error types for bad input. Each message says what was wrong, where, and what to try, in one line."""

from __future__ import annotations

import errno
from pathlib import Path

from tagtrace._visible import visible_message


class TagtraceError(Exception):
    """An error that the user can fix: the command line prints its message as one line and exits with status 1.

    The message is one line of a readable length, whatever tokens, labels and file names are in it.
    """

    def __str__(self) -> str:
        return visible_message(super().__str__())


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


def describe_failure(error: OSError) -> str:
    """What the system refused, in one line: which file, why, and what to do about a full disk."""
    what = error.strerror or str(error)
    path = error.filename2 or error.filename  # the second is the one that the user named
    where = f"{path}: " if path else ""
    hint = "; free some space and run again" if error.errno == errno.ENOSPC else ""
    return f"{where}{what}{hint}"


def check_type(name: str, value: object, kind: type, remedy: str) -> None:
    """Raise OptionError unless the argument ``name`` has the right type; ``remedy`` says what to give instead."""
    if not isinstance(value, kind):
        raise OptionError(f"{name} is of type {type(value).__name__}, not {kind.__name__}; {remedy}")


MAX_NUMBER = 2**53
"""The largest integer that a browser holds exactly; databases hold larger ones, up to 2**63."""


def check_numbers(**numbers: int | None) -> None:
    """Raise DataError unless the numbers that a file gives can be shown on a page and kept in a database."""
    for name, number in numbers.items():
        if number is not None and not 0 <= number <= MAX_NUMBER:
            raise DataError(f"{name} must be from 0 to 2**53")


def check_seed(seed: int) -> None:
    """Raise OptionError unless every random generator takes the seed."""
    if not 0 <= seed < 2**63:
        raise OptionError(f"seed {seed}: must be from 0 to 2**63 - 1")


MOST_SEEDS = 100
"""More trainings of the same tell nothing new."""


def check_num_seeds(num_seeds: int) -> None:
    """Raise OptionError for a number of seeds that would never end."""
    if not 1 <= num_seeds <= MOST_SEEDS:
        raise OptionError(f"num_seeds {num_seeds}: must be from 1 to {MOST_SEEDS}")


def at(path: str | Path, line: int | None = None) -> str:
    """The place an error points to.

    >>> at("train.conll", 12)
    'train.conll, line 12'
    """
    return f"{path}" if line is None else f"{path}, line {line}"
