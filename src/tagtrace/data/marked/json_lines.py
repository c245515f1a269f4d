"""JSON lines with a text and its marks in each: what the formats of annotation tools have in common."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tagtrace._checks import DataError, at
from tagtrace.data.marked.marks import Edits, MarkEdit
from tagtrace.data.source import SourceFile, shown

_BOM, _SPACE = b"\xef\xbb\xbf", " \t\r\n"
Record = Mapping[str, Any]


def records(source: SourceFile, data: bytes) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Each line that is not blank: its number, its text and its object."""
    for number, text in source.texts(iter(_lines(data))):
        if text.strip(_SPACE):
            yield number, text, parsed(text, at(source.path, number))


def parsed(text: str, where: str) -> dict[str, Any]:
    """The object in a line; DataError if there is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "a value is too deep or too long"
        raise DataError(f"{where}: {shown(text)} is not valid JSON ({reason}); write one object per line") from None
    if not isinstance(found, dict):
        raise DataError(f"{where}: found {shown(text.strip())}, expected an object")
    return found


def shown_value(value: Any) -> str:
    """A value for a message; of lists and objects, which may be deep, only what they are."""
    return {list: "a list", dict: "an object"}.get(type(value)) or shown(json.dumps(value))


def text_of(record: Record, where: str) -> str:
    """The text of a record."""
    text = record.get("text")
    if not isinstance(text, str):
        raise DataError(f"{where}: has no text under the key 'text'; check that this is the right format")
    check_encodable(text, where)
    return text


def check_encodable(text: str, where: str) -> None:
    """Raise for an escaped lone surrogate, which JSON allows but UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError(f"{where}: found half a surrogate pair in {shown(text)}; fix the escape") from None


def range_of(start: Any, stop: Any, text: str, where: str) -> tuple[int, int]:
    """Start and stop of a mark; DataError unless they are characters of the text."""
    for value in (start, stop):
        if not isinstance(value, int) or isinstance(value, bool):
            raise DataError(f"{where}: found the offset {shown_value(value)}, expected a whole number")
    if not 0 <= start < stop <= len(text):
        raise DataError(f"{where}: found a span from {start} to {stop}, but the text has {len(text)} characters")
    return start, stop


def label_of(value: Any, where: str) -> str:
    """The label of a mark."""
    if not isinstance(value, str) or not value:
        raise DataError(f"{where}: found the label {shown_value(value)}, expected a name")
    check_encodable(value, where)
    return value


def name_of(record: Record, key: str, where: str) -> str:
    """What a record has under a key, as text; empty if it has nothing."""
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int | float | None):
        raise DataError(f"{where}: found {shown_value(value)} under {key!r}, expected a string or a number")
    name = "" if value is None else str(value)
    check_encodable(name, where)
    return name


def edited_lines(
    data: bytes, edits: Edits, edit_line: Callable[[str, Sequence[MarkEdit]], str],
    is_read: Callable[[dict[str, Any]], bool] = lambda _: True,
) -> bytes:  # fmt: skip
    """The file with some lines changed.

    ``edits`` are by the number of the line among those whose record ``is_read``.
    """
    made, number = list[bytes](), 0
    for place, line in enumerate(_lines(data)):
        mark = _BOM if place == 0 and line.startswith(_BOM) else b""
        text = line.removeprefix(mark).decode()
        if text.strip(_SPACE) and is_read(json.loads(text)):
            made.append(mark + edit_line(text, edits[number]).encode() if number in edits else line)
            number += 1
        else:
            made.append(line)
    return b"".join(made)


def _lines(data: bytes) -> list[bytes]:
    """The lines with their ends; only ``\\n`` ends a line."""
    return re.findall(rb"[^\n]*\n|[^\n]+", data)


def as_json(value: Any, beside: str) -> str:
    """A value as JSON, with escapes where the text beside it has only ASCII."""
    return json.dumps(value, ensure_ascii=beside.isascii())
