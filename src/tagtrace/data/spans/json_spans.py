"""The positions of the values in the text of a JSON object, so that one can be changed and the rest kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

Span = tuple[int, int]

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


def _skip_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


def member_spans(text: str, start: int = 0) -> dict[str, Span]:
    """The span of each value of the JSON object at ``start``; for a repeated key the last one, as ``json`` reads it.

    >>> member_spans('{"id": 7, "tokens": ["a"]}')
    {'id': (7, 8), 'tokens': (20, 25)}
    """
    return {key: value for key, _, value in _members(text, start)}


def _members(text: str, start: int) -> Iterator[tuple[str, int, Span]]:
    """Each key of an object, where it begins, and the span of its value."""
    position = _skip_space(text, _skip_space(text, start) + 1)
    while text[position] != "}":
        begin = position
        key, position = _DECODER.raw_decode(text, position)
        first = _skip_space(text, _skip_space(text, position) + 1)
        _, stop = _DECODER.raw_decode(text, first)
        yield key, begin, (first, stop)
        position = _skip_space(text, stop)
        if text[position] == ",":
            position = _skip_space(text, position + 1)


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


def value_span(text: str, path: Sequence[str | int]) -> Span:
    """The span of the value at a path of keys and numbers; KeyError or IndexError if there is none.

    Every value on the way is parsed once for each step, so ask for a list once and then for its ``element_spans``.

    >>> text = '{"a": [1, {"b": "c"}]}'
    >>> text[slice(*value_span(text, ["a", 1, "b"]))]
    '"c"'
    """
    return span_at(text, _skip_space(text, 0), path)


def span_at(text: str, start: int, path: Iterable[str | int]) -> Span:
    """The same from the value that starts at ``start``."""
    span = start, _DECODER.raw_decode(text, start)[1]
    for step in path:
        opened = text[span[0]]
        if opened == "{" and isinstance(step, str):
            span = member_spans(text, span[0])[step]
        elif opened == "[" and isinstance(step, int):
            span = element_spans(text, span[0])[step]
        else:
            raise KeyError(step)
    return span


def edited_list(text: str, start: int, changed: Mapping[int, str | None], added: Sequence[str]) -> tuple[Span, str]:
    """The list that starts at ``start``, with some elements replaced (None: removed) and others added at its end.

    Returns its span and its new text; what is not changed stays as it is.

    >>> edited_list('{"a": [1, 2,3]}', 6, {0: None, 1: "5"}, ["7"])
    ((6, 14), '[5,3, 7]')
    """
    return _edited(text, start, element_spans(text, start), changed, added)


def edited_object(text: str, start: int, changed: Mapping[str, str | None], added: Sequence[str]) -> tuple[Span, str]:
    """The object that starts at ``start``, with some values replaced (None: removed) and members added at its end.

    Of a repeated key the last is replaced, but all are removed.

    >>> edited_object('{"a": 1, "b":2}', 0, {"a": None, "b": "5"}, ['"c": 7'])
    ((0, 15), '{"b":5, "c": 7}')
    """
    members = list(_members(text, start))
    last = {key: number for number, (key, _, _) in enumerate(members)}
    by_number: dict[int, str | None] = {}
    for number, (key, begin, (first, _)) in enumerate(members):
        new = changed.get(key, "")
        if new is None or (new and last[key] == number):
            by_number[number] = None if new is None else text[begin:first] + new
    return _edited(text, start, [(begin, stop) for _, begin, (_, stop) in members], by_number, added)


def _edited(
    text: str, start: int, spans: Sequence[Span], changed: Mapping[int, str | None], added: Sequence[str]
) -> tuple[Span, str]:
    """A list or an object that starts at ``start`` and has its items at ``spans``, changed."""
    _, stop = _DECODER.raw_decode(text, start)
    begin, end = (spans[0][0], spans[-1][1]) if spans else (stop - 1, stop - 1)
    between = [text[left:right] for (_, left), (right, _) in pairwise(spans)]
    kept: list[tuple[str, str]] = []  # with what stands before each
    for number, (first, last) in enumerate(spans):
        new = changed.get(number, text[first:last])
        if new is not None:
            kept.append((between[number - 1] if number else "", new))
    before_first = text[start + 1 : begin]
    separator = between[0] if between else f",{before_first}" if spans and "\n" in before_first else ", "
    kept += [(separator, one) for one in added]
    made = "".join([one if place == 0 else before + one for place, (before, one) in enumerate(kept)])
    return (start, stop), f"{text[start:begin]}{made}{text[end:stop]}"


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


def added_member(text: str, start: int, key: str, value: str) -> tuple[Span, str]:
    """A new member at the end of the object that starts at ``start``, as the replacement of an empty span.

    >>> added_member('{"a":1 }', 0, "b", "[2]")
    ((6, 6), ', "b": [2]')
    """
    spans = member_spans(text, start)
    end = max((stop for _, stop in spans.values()), default=_skip_space(text, start) + 1)
    return (end, end), f"{', ' if spans else ''}{json.dumps(key)}: {value}"


def set_member(text: str, key: str, value: str) -> str:
    """The object with the JSON ``value`` under ``key``: replaced if it exists, otherwise added at the end.

    >>> set_member('{"a":1 }', "b", "[2]")
    '{"a":1, "b": [2] }'
    """
    spans = member_spans(text)
    return replace_spans(text, [(spans[key], value) if key in spans else added_member(text, 0, key, value)])
