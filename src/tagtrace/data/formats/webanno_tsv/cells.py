r"""The cells of WebAnno TSV: values with escapes, stacked by ``|``, each with a number in brackets if it needs one.

A ``|`` after a backslash separates nothing, even if that backslash is itself escaped: so INCEpTION reads it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tagtrace._checks import DataError
from tagtrace.data.source import shown

NOTHING, NO_VALUE = "_", "*"
"""A cell without an annotation, and an annotation without a value."""

_SEPARATOR, _SLOT_SEPARATOR = re.compile(r"(?<!\\)\|"), re.compile(r"(?<!\\);")
_NUMBERED = re.compile(r"(.*)\[([0-9]{1,10})\]", re.DOTALL)
_RESERVED = re.compile(r"->|[\\\[\]|_;\t\n*]")
_ESCAPED = re.compile(r"\\(->|[\\\[\]|_;tn*])")
_TEXT = re.compile(r"\\([\\tnfrb\x00-\x07\x0e-\x1f])")
_JAVA = re.compile(r"\\(?:u+\+?([0-9a-fA-F]{4})|([0-3]?[0-7]{1,2})|(.?))", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "f": "\f", "r": "\r", "b": "\b"}


def escaped(value: str) -> str:
    r"""A value as a cell has it.

    >>> escaped("a_b->c")
    'a\\_b\\->c'
    """
    return _RESERVED.sub(lambda found: "\\" + {"\t": "t", "\n": "n"}.get(found[0], found[0]), value)


def unescaped(value: str) -> str:
    """What a cell means; a backslash before anything else is itself.

    >>> unescaped("a\\\\_b\\\\x")
    'a_b\\\\x'
    """
    return _ESCAPED.sub(lambda found: {"t": "\t", "n": "\n"}.get(found[1], found[1]), value)


def unescaped_text(text: str, minor: int) -> str:
    """What a line ``#Text=`` means in version 3.``minor``; up to 3.1 it has all escapes of Java."""
    if minor > 1:
        return _TEXT.sub(lambda found: _LETTERS.get(found[1], found[1]), text)
    units = _JAVA.sub(_java, text)
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _java(found: re.Match[str]) -> str:
    if found[1] is not None:
        return chr(int(found[1], 16))
    return chr(int(found[2], 8)) if found[2] is not None else _LETTERS.get(found[3], found[3])


def stacked(cell: str) -> list[str]:
    """The annotations in a cell.

    >>> stacked("PER[1]|a\\\\|b[2]"), stacked("_")
    (['PER[1]', 'a\\\\|b[2]'], [])
    """
    return [] if cell == NOTHING else _SEPARATOR.split(cell)


def slots(item: str) -> list[str]:
    """The slots of one annotation."""
    return [] if item == NOTHING else _SLOT_SEPARATOR.split(item)


def stack_of(cells: Sequence[str]) -> list[list[str | None]]:
    """The annotations of a layer on a row, each with what its columns say; None where one says nothing.

    >>> stack_of(["Q1[1]|*[2]", "PER[1]|ORG[2]"])
    [['Q1[1]', 'PER[1]'], ['*[2]', 'ORG[2]']]
    """
    columns = [stacked(cell) for cell in cells]
    return [
        [one[place] if place < len(one) else None for one in columns]
        for place in range(max(map(len, columns), default=0))
    ]


def apart(item: str, where: str) -> tuple[str, int | None]:
    """A value as it is written, and its number.

    >>> apart("PER[12]", ""), apart("a\\\\[1\\\\]", "")
    (('PER', 12), ('a\\\\[1\\\\]', None))
    """
    if not item.endswith("]") or item.endswith("\\]"):
        return item, None
    found = _NUMBERED.fullmatch(item)
    if found is None:
        raise DataError(f"{where}: found {shown(item)}, expected a value with or without a number in brackets")
    return found[1], int(found[2])
