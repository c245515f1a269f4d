"""The positions of the values in the text of a JSON object, so that one can be changed and the rest kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

Span = tuple[int, int]

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


def _skip_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


def member_spans(text: str) -> dict[str, Span]:
    """The span of each value of the JSON object ``text``; for a repeated key the last one, as ``json`` reads it.

    >>> member_spans('{"id": 7, "tokens": ["a"]}')
    {'id': (7, 8), 'tokens': (20, 25)}
    """
    spans: dict[str, Span] = {}
    position = _skip_space(text, _skip_space(text, 0) + 1)
    while text[position] != "}":
        key, position = _DECODER.raw_decode(text, position)
        start = _skip_space(text, _skip_space(text, position) + 1)
        _, stop = _DECODER.raw_decode(text, start)
        spans[key] = (start, stop)
        position = _skip_space(text, stop)
        if text[position] == ",":
            position = _skip_space(text, position + 1)
    return spans


def element_spans(text: str, start: int) -> list[Span]:
    """The span of each element of the list that starts at ``start``.

    >>> element_spans('["a", 10]', 0)
    [(1, 4), (6, 8)]
    """
    spans: list[Span] = []
    position = _skip_space(text, start + 1)
    while text[position] != "]":
        _, stop = _DECODER.raw_decode(text, position)
        spans.append((position, stop))
        position = _skip_space(text, stop)
        if text[position] == ",":
            position = _skip_space(text, position + 1)
    return spans


def replace_spans(text: str, replacements: Iterable[tuple[Span, str]]) -> str:
    """The text with these spans replaced; they are in order and do not overlap.

    >>> replace_spans("a b c", [((0, 1), "x"), ((4, 5), "yz")])
    'x b yz'
    """
    pieces: list[str] = []
    position = 0
    for (start, stop), written in replacements:
        pieces += [text[position:start], written]
        position = stop
    return "".join([*pieces, text[position:]])


def set_member(text: str, key: str, value: str) -> str:
    """The object with the JSON ``value`` under ``key``: replaced if it exists, otherwise added at the end.

    >>> set_member('{"a":1 }', "b", "[2]")
    '{"a":1, "b": [2] }'
    """
    spans = member_spans(text)
    if key in spans:
        return replace_spans(text, [(spans[key], value)])
    end = max((stop for _, stop in spans.values()), default=_skip_space(text, 0) + 1)
    comma = ", " if spans else ""
    return replace_spans(text, [((end, end), f"{comma}{json.dumps(key)}: {value}")])
