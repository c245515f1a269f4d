"""Random samples."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

_Item = TypeVar("_Item")


def at_most(items: Sequence[_Item], most: int, draw: Random) -> list[_Item]:
    """At most ``most`` of the items, drawn at random and kept in order; 0 means all.

    >>> at_most("abcdef", 3, Random(1))
    ['a', 'b', 'e']
    """
    if not 0 < most < len(items):
        return list(items)
    return [items[number] for number in sorted(draw.sample(range(len(items)), most))]
