"""Label Studio's JSON: a list of tasks with ``data``, and ``annotations`` with a list ``result`` each.

A result of type ``labels`` with one label and whole numbers as ``start`` and ``end`` is a mark; all others are kept and
not looked at. Of several annotations the ground truth counts, or else the one that was updated last; cancelled ones
never do, and tasks without one that counts are left out.

The text is the string under ``data`` that the results fit. Offsets count characters or UTF-16 code units: each task's
results tell which by the ``text`` that they repeat.
"""

from __future__ import annotations

from collections.abc import Iterator

from tagtrace.data.formats.label_studio.edits import Siblings, edit_task
from tagtrace.data.formats.label_studio.regions import Placed, labelled, place_all
from tagtrace.data.formats.label_studio.tasks import decoded, read_tasks
from tagtrace.data.marked.marks import Edits, MarkedText
from tagtrace.data.options import ReadOptions
from tagtrace.data.source import SourceFile
from tagtrace.data.spans.json_spans import replace_spans

_BOM = b"\xef\xbb\xbf"


def texts(source: SourceFile, data: bytes, options: ReadOptions) -> Iterator[MarkedText]:  # noqa: ARG001
    for task in _placed(source, decoded(source, data)):
        yield task.marked()


def edited(source: SourceFile, data: bytes, options: ReadOptions, edits: Edits) -> bytes:  # noqa: ARG001
    text = decoded(source, data)
    tasks = _placed(source, text)
    siblings = Siblings(text, tasks)
    changes = [edit_task(text, tasks[number], edits[number], siblings) for number in sorted(edits)]
    return (_BOM if data.startswith(_BOM) else b"") + replace_spans(text, changes).encode()


def _placed(source: SourceFile, text: str) -> list[Placed]:
    return place_all([labelled(task) for task in read_tasks(source, text)])
