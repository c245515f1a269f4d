"""Offsets that count characters, or the UTF-16 code units of JavaScript, in which those beyond U+FFFF are two."""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import cached_property
from itertools import accumulate

_SPACE = re.compile(r"(?:\\[nr]|\s)+")


class Offsets:
    """How the offsets of a text in a file are counted.

    >>> Offsets("\\U0001f30a sea", in_units=True).to_file(2), Offsets("\\U0001f30a sea", in_units=True).from_file(3)
    (3, 2)
    """

    def __init__(self, text: str, *, in_units: bool) -> None:
        self.text = text
        self.in_units = in_units

    @cached_property
    def _starts(self) -> list[int] | None:
        """The offset of each character and of the end; None if each is its number."""
        if not self.in_units or not has_wide(self.text):
            return None
        return list(accumulate((1 + (character > "\uffff") for character in self.text), initial=0))

    def to_file(self, place: int) -> int:
        return place if self._starts is None else self._starts[place]

    def from_file(self, offset: int) -> int | None:
        """The place of a character; None if no character begins or ends there."""
        if self._starts is None:
            return offset if 0 <= offset <= len(self.text) else None
        place = bisect_left(self._starts, offset)
        return place if place < len(self._starts) and self._starts[place] == offset else None

    def range_from_file(self, start: int, end: int) -> tuple[int, int] | None:
        """Start and stop of the characters, if there are any."""
        first, last = self.from_file(start), self.from_file(end)
        return None if first is None or last is None or first >= last else (first, last)


def has_wide(text: str) -> bool:
    """Whether a text has characters beyond U+FFFF."""
    return max(text, default="") > "\uffff"


def is_alike(one: str, said: str) -> bool:
    """Whether a text is as the file says but for spaces, which Label Studio trims, and line ends, which it escapes."""
    if one == said:
        return True
    if len(one) > 20 * len(said) + 1000:  # not looked at in full, a thousand times
        return False
    return _SPACE.sub(" ", one).strip() == _SPACE.sub(" ", said).strip()
