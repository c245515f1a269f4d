"""Checks of options that several questions share."""

from __future__ import annotations

from typing import Any, get_args

from tagtrace._checks import OptionError


def check_choice(name: str, value: object, choices: Any) -> None:
    """Raise OptionError unless ``value`` is one of the values of a ``Literal``."""
    if value not in get_args(choices):
        raise OptionError(f"{name} {value!r}: expected one of {', '.join(get_args(choices))}")


def check_at_least(least: int, **values: int) -> None:
    """Raise OptionError for the first of the named values that is too small."""
    for name, value in values.items():
        if value < least:
            raise OptionError(f"{name} {value}: must be at least {least}")
