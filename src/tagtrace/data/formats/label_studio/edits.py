"""The JSON of a result that changes, and of a new one."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any

from tagtrace._checks import DataError
from tagtrace.data.formats.label_studio.offsets import Offsets
from tagtrace.data.formats.label_studio.regions import Placed
from tagtrace.data.marked.json_lines import as_json
from tagtrace.data.marked.marks import Mark, MarkEdit
from tagtrace.data.spans.json_layout import dump_like
from tagtrace.data.spans.json_spans import Span, edited_list, element_spans, member_spans, replace_spans, span_at

_KEPT = ("from_name", "to_name", "type")
Place = tuple[Placed, int]
"""A task and the number of one of its results."""


class Siblings:
    """Results to take the names, the keys and the layout of a new one from."""

    def __init__(self, text: str, tasks: Sequence[Placed]) -> None:
        self._text = text
        self._found: dict[tuple[str, str], Place] = {}
        for task in tasks:
            for mark in task.marks:
                for asked in _asked(task.to_name, mark.label):
                    self._found.setdefault(asked, (task, mark.key))

    def of(self, task: Placed, label: str) -> str:
        """A result of the same label about the same text if there is one, or else another; those of the task first."""
        own: list[Place] = [(task, mark.key) for mark in task.marks if mark.label == label]
        rest: list[Place] = [(task, mark.key) for mark in task.marks[:1]]
        others = [self._found.get((name, kind)) for name, kind in _asked(task.to_name, label)]
        found = next((one for one in (*own, others[0], *rest, *others[1:]) if one is not None), None)
        if found is None:
            raise DataError(
                f"{task.task.where}: no result tells the 'from_name' of a new one; label one in Label Studio first"
            )
        path = ("annotations", found[0].task.annotation, "result", found[1])
        return self._text[slice(*span_at(self._text, found[0].task.span[0], path))]


def _asked(to_name: str, label: str) -> tuple[tuple[str, str], ...]:
    return (to_name, label), (to_name, ""), ("", label), ("", "")


def edit_task(text: str, task: Placed, edits: Sequence[MarkEdit], siblings: Siblings) -> tuple[Span, str]:
    """The results of a task with some edited: where they are in the text of the file, and what to write there."""
    annotation = span_at(text, task.task.span[0], ("annotations", task.task.annotation))
    at_result = member_spans(text, annotation[0]).get("result")
    taken = {str(result.get("id")) for result in task.task.results}
    added, changed = list[str](), dict[int, str | None]()
    spans = element_spans(text, at_result[0]) if at_result is not None and text[at_result[0]] == "[" else []
    for edit in edits:
        if edit.old is None:
            assert edit.new is not None
            added.append(_new_result(task, edit.new, siblings.of(task, edit.new.label), taken, text))
        elif edit.new is None:
            changed[edit.old.key] = None
        else:
            written = text[slice(*spans[edit.old.key])]
            changed[edit.old.key] = _changed_result(written, edit.old, edit.new, task.offsets)
    if at_result is None:  # an annotation that nothing was marked in
        end = annotation[1] - 1
        comma = "," if member_spans(text, annotation[0]) else ""
        return (end, end), f'{comma}"result": [{", ".join(added)}]'
    if text[at_result[0]] != "[":
        return at_result, f"[{', '.join(added)}]"
    return edited_list(text, at_result[0], changed, added)


def _values(mark: Mark, offsets: Offsets) -> dict[str, Any]:
    """What a result's value has under the keys that place and label decide."""
    return {
        "start": offsets.to_file(mark.start),
        "end": offsets.to_file(mark.stop),
        "text": offsets.text[mark.start : mark.stop],
        "labels": [mark.label],
    }


def _changed_result(written: str, old: Mark, new: Mark, offsets: Offsets) -> str:
    """A result with only what differs replaced."""
    start, _ = member_spans(written)["value"]
    places = member_spans(written, start)
    changes, was = list[tuple[Span, str]](), _values(old, offsets)
    for key, now in _values(new, offsets).items():
        if key not in places or now == was[key]:
            continue
        if key == "labels":
            changes.append((element_spans(written, places[key][0])[0], as_json(new.label, written)))
        elif key != "text":
            changes.append((places[key], as_json(now, written)))
        elif written[places[key][0]] == '"':
            changes.append((places[key], as_json(_as_said(now, json.loads(written[slice(*places[key])])), written)))
    return replace_spans(written, sorted(changes))


def _as_said(text: str, said: str) -> str:
    r"""A text with its line ends as ``\n`` if the one before had them so."""
    is_escaped = "\\n" in said and "\n" not in said
    return text.replace("\r", "\\n").replace("\n", "\\n") if is_escaped else text


def _new_result(task: Placed, mark: Mark, sibling: str, taken: set[str], text: str) -> str:
    like: Mapping[str, Any] = json.loads(sibling)
    wanted = _values(mark, task.offsets)
    value = {key: wanted[key] for key in like["value"] if key in wanted}
    name = _fresh_id(f"{task.task.record.get('id')} {mark.start} {mark.stop} {mark.label}", taken)
    taken.add(name)
    known = {"value": value, "id": name, "origin": "manual", **{key: like[key] for key in _KEPT if key in like}}
    made = {key: known[key] for key in like if key in known}
    return dump_like({**made, "id": name} if "id" not in made else made, sibling, ascii_only=text.isascii())


def _fresh_id(about: str, taken: Collection[str]) -> str:
    """Ten letters, digits, ``-`` and ``_``, as Label Studio names results; the same for the same place and label."""
    number = 0
    while True:
        found = urlsafe_b64encode(sha256(f"{about} {number}".encode()).digest()).decode()[:10]
        if found not in taken:
            return found
        number += 1
