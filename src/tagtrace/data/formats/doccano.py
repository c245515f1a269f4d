"""doccano's JSON lines: a text with ``label`` or ``labels``, a list of ``[start, stop, name]``, or with ``entities``.

Offsets count characters. Relations, comments and all other keys are kept and not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tagtrace._checks import DataError, at
from tagtrace.data.formats.fresh import FreshText
from tagtrace.data.marked.json_lines import (
    as_json,
    edited_lines,
    label_of,
    name_of,
    range_of,
    records,
    text_of,
)
from tagtrace.data.marked.marks import Edits, Mark, MarkEdit, MarkedText
from tagtrace.data.options import ReadOptions
from tagtrace.data.source import SourceFile
from tagtrace.data.spans.json_spans import edited_list, element_spans, member_spans, replace_spans

KEYS = ("entities", "label", "labels")
"""The keys that marks are looked for under, in this order."""


def texts(source: SourceFile, data: bytes, options: ReadOptions) -> Iterator[MarkedText]:  # noqa: ARG001
    for line, _, record in records(source, data):
        where = at(source.path, line)
        text = text_of(record, where)
        entries = _entries(record, where)
        marks = tuple(_mark(entry, text, number, where) for number, entry in enumerate(entries))
        odd = ("its relations are kept and not looked at",) if record.get("relations") else ()
        yield MarkedText(text, marks, line, name_of(record, "id", where), odd=odd)


def edited(source: SourceFile, data: bytes, options: ReadOptions, edits: Edits) -> bytes:  # noqa: ARG001
    return edited_lines(data, edits, _edit_line)


def fresh(texts: Sequence[FreshText]) -> bytes:
    """A new file: ``id`` (the name of the document), ``text`` and ``label``."""
    rows = (
        {"id": one.name, "text": one.text, "label": [[mark.start, mark.stop, mark.label] for mark in one.marks]}
        for one in texts
    )
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()


def _key(record: dict[str, Any]) -> str | None:
    return next((key for key in KEYS if isinstance(record.get(key), list)), None)


def _entries(record: dict[str, Any], where: str) -> list[Any]:
    key = _key(record)
    if key is None:
        raise DataError(f"{where}: has no list of labels under {', '.join(KEYS)}; check that this is the right format")
    return record[key]


def _mark(entry: Any, text: str, number: int, where: str) -> Mark:
    if isinstance(entry, dict):
        entry = [entry.get("start_offset"), entry.get("end_offset"), entry.get("label")]
    if not isinstance(entry, list) or len(entry) != 3:
        raise DataError(f"{where}: a label should be [start, stop, name], or have start_offset, end_offset and label")
    start, stop = range_of(entry[0], entry[1], text, where)
    return Mark(start, stop, label_of(entry[2], where), number)


def _edit_line(text: str, edits: Sequence[MarkEdit]) -> str:
    record = json.loads(text)
    key = _key(record)
    assert key is not None
    start = member_spans(text)[key][0]
    spans = element_spans(text, start)
    changed: dict[int, str | None] = {}
    added = list[str]()
    for edit in edits:
        if edit.old is None:
            assert edit.new is not None
            added.append(_new_entry(record, key, edit.new, text, len(added)))
        else:
            entry = text[slice(*spans[edit.old.key])]
            changed[edit.old.key] = None if edit.new is None else _changed_entry(entry, edit.old, edit.new)
    return replace_spans(text, [edited_list(text, start, changed, added)])


def _changed_entry(entry: str, old: Mark, new: Mark) -> str:
    """An entry with only what differs replaced."""
    if entry.startswith("["):
        places = dict(enumerate(element_spans(entry, 0)))
        keys: tuple[Any, ...] = (0, 1, 2)
    else:
        places, keys = member_spans(entry), ("start_offset", "end_offset", "label")
    values = zip(keys, (old.start, old.stop, old.label), (new.start, new.stop, new.label), strict=True)
    return replace_spans(entry, sorted((places[key], as_json(now, entry)) for key, was, now in values if was != now))


def _new_entry(record: dict[str, Any], key: str, mark: Mark, beside: str, number: int) -> str:
    if key != "entities":
        return as_json([mark.start, mark.stop, mark.label], beside)
    taken = [entry["id"] for entry in record[key] if isinstance(entry.get("id"), int)]
    entry = {"id": max(taken, default=0) + 1 + number, "label": mark.label}
    return as_json({**entry, "start_offset": mark.start, "end_offset": mark.stop}, beside)
