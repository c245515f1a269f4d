"""Prodigy's JSON lines: a text with ``spans``, mostly with ``tokens``, and the ``answer`` of an annotator.

Offsets count characters; ``token_start`` and ``token_end`` of a span are the ids of its first and its last token. Lines
whose answer is not ``accept`` are left out, and so are those that ask about something else than spans. Of several lines
with one ``_input_hash`` only the last is read. All that is left out stays as it is, and so do all other keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tagtrace._checks import DataError, at
from tagtrace.data.marked.json_lines import (
    Record,
    as_json,
    edited_lines,
    label_of,
    name_of,
    range_of,
    records,
    shown_value,
    text_of,
)
from tagtrace.data.marked.marks import Edits, Mark, MarkEdit, MarkedText
from tagtrace.data.options import ReadOptions
from tagtrace.data.source import SourceFile
from tagtrace.data.spans.json_layout import dump_like
from tagtrace.data.spans.json_spans import edited_list, element_spans, member_spans, replace_spans, set_member

ANSWERS = ("accept", "reject", "ignore")


def texts(source: SourceFile, data: bytes, options: ReadOptions) -> Iterator[MarkedText]:  # noqa: ARG001
    lines = list(records(source, data))
    used = _used(source, [(line, record) for line, _, record in lines])
    for line, _, record in lines:
        if line in used:
            yield _marked(record, line, at(source.path, line), used[line])


def edited(source: SourceFile, data: bytes, options: ReadOptions, edits: Edits) -> bytes:  # noqa: ARG001
    lines = [(line, record) for line, _, record in records(source, data)]
    used = _used(source, lines)
    is_used = iter([line in used for line, _ in lines])
    return edited_lines(data, edits, _edit_line, is_read=lambda _: next(is_used))


def _used(source: SourceFile, lines: Sequence[tuple[int, Record]]) -> dict[int, list[int]]:
    """The lines that are read, each with the accepted ones before it that ask about the same text."""
    by_input: dict[str | int, list[int]] = {}
    for line, record in lines:
        if _is_accepted(record, at(source.path, line)) and _has_spans(record):
            name = name_of(record, "_input_hash", at(source.path, line)) or line
            by_input.setdefault(name, []).append(line)
    return {found[-1]: found[:-1] for found in by_input.values()}


def _is_accepted(record: Record, where: str) -> bool:
    answer = record.get("answer")
    if answer is not None and answer not in ANSWERS:
        raise DataError(f"{where}: found the answer {shown_value(answer)}, expected one of {', '.join(ANSWERS)}")
    return answer in (None, "accept")


def _has_spans(record: Record) -> bool:
    return record.get("spans") is not None or record.get("tokens") is not None


def _marked(record: Record, line: int, where: str, others: Sequence[int]) -> MarkedText:
    text = text_of(record, where)
    odd = list(_odd(record, others))
    marks = list[Mark]()
    for number, span in enumerate(_objects(record, "spans", where)):
        mark = _mark(span, text, number, where)
        if span.get("answer") in ("reject", "ignore"):
            odd.append(f"the {mark.label} {text[mark.start : mark.stop][:40]!r} was not accepted; it is kept as it is")
        else:
            marks.append(mark)
    tokens = _token_ranges(record, text, where)
    return MarkedText(text, tuple(marks), line, tokens=tokens, odd=tuple(odd))


def _odd(record: Record, others: Sequence[int]) -> Iterator[str]:
    if others:
        shown = ", ".join(map(str, others[:5])) + (", ..." if len(others) > 5 else "")
        yield f"earlier lines with the same _input_hash, kept and not learned from: {len(others)} (lines {shown})"
    if record.get("relations"):
        yield "its relations are kept and not looked at"
    if record.get("_view_id") == "ner":
        yield "was asked about some spans only (view 'ner'); what is not marked may be an entity all the same"


def _objects(record: Record, key: str, where: str) -> list[dict[str, Any]]:
    found = record.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise DataError(f"{where}: expected a list of objects under {key!r}; check that this is the right format")
    return found


def _mark(span: Mapping[str, Any], text: str, number: int, where: str) -> Mark:
    start, stop = range_of(span.get("start"), span.get("end"), text, where)
    return Mark(start, stop, label_of(span.get("label"), where), number)


def _token_ranges(record: Record, text: str, where: str) -> tuple[tuple[int, int], ...] | None:
    """Start and stop of the tokens that are not blank; None if the line has no tokens."""
    if not record.get("tokens"):
        return None
    ranges, last = list[tuple[int, int]](), 0
    for number, token in enumerate(_objects(record, "tokens", where)):
        start, stop = token.get("start"), token.get("end")
        if start == stop and type(start) is int and 0 <= start <= len(text):
            continue  # one that a tokenizer adds, such as [CLS]
        start, stop = range_of(start, stop, text, where)
        if start < last:
            raise DataError(f"{where}: token {number} begins at {start}, before the end of the one before ({last})")
        last = stop
        if text[start:stop].strip():
            ranges.append((start, stop))
    return tuple(ranges)


def _edit_line(text: str, edits: Sequence[MarkEdit]) -> str:
    record = json.loads(text)
    ids = _TokenIds(record)
    if not isinstance(record.get("spans"), list):
        added = [_new_span(edit.new, record, ids, text) for edit in edits if edit.new is not None]
        return set_member(text, "spans", f"[{', '.join(added)}]")
    start = member_spans(text)["spans"][0]
    written = [text[slice(*span)] for span in element_spans(text, start)]
    changed: dict[int, str | None] = {}
    added = list[str]()
    for edit in edits:
        if edit.old is None:
            assert edit.new is not None
            added.append(_new_span(edit.new, record, ids, written[0] if written else text))
        else:
            was = written[edit.old.key]
            changed[edit.old.key] = None if edit.new is None else _changed_span(was, edit.old, edit.new, record, ids)
    return replace_spans(text, [edited_list(text, start, changed, added)])


class _TokenIds:
    """The ids of the tokens that begin and end at a character."""

    def __init__(self, record: Record) -> None:
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        for number, token in enumerate(record.get("tokens") or []):
            if token["start"] < token["end"]:
                found = token.get("id")
                self.first[token["start"]] = self.last[token["end"]] = found if type(found) is int else number

    def __bool__(self) -> bool:
        return bool(self.first)


def _values(mark: Mark, text: str, ids: _TokenIds) -> dict[str, Any]:
    """What a span has under the keys that its place and its label decide."""
    place: dict[str, Any] = {"start": mark.start, "end": mark.stop}
    if ids:
        place |= {"token_start": ids.first[mark.start], "token_end": ids.last[mark.stop]}
    return {**place, "label": mark.label, "text": text[mark.start : mark.stop]}


def _changed_span(written: str, old: Mark, new: Mark, record: Record, ids: _TokenIds) -> str:
    """A span with only what differs replaced."""
    places, was = member_spans(written), _values(old, record["text"], ids)
    differing = [(key, now) for key, now in _values(new, record["text"], ids).items() if now != was[key]]
    return replace_spans(
        written, sorted((places[key], as_json(now, written)) for key, now in differing if key in places)
    )


def _new_span(mark: Mark, record: Record, ids: _TokenIds, beside: str) -> str:
    """A span with the keys of those beside it, and in their layout."""
    values, siblings = _values(mark, record["text"], ids), record.get("spans")
    keys = siblings[0] if siblings else ("start", "end", "token_start", "token_end", "label")
    return dump_like({key: values[key] for key in keys if key in values}, beside, ascii_only=beside.isascii())
