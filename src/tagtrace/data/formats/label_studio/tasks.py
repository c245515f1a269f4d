"""The tasks of a file, and the annotation of each that counts."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from typing import Any

from tagtrace._checks import DataError, at
from tagtrace.data.source import SourceFile, shown
from tagtrace.data.spans.json_spans import Span

_DECODER = json.JSONDecoder()
_SPACE = " \t\r\n"


@dataclass(frozen=True)
class LabelStudioTask:
    """One task that has an annotation to learn from."""

    record: Mapping[str, Any]
    span: Span
    """Where it is in the text of the file."""
    line: int
    where: str
    """For messages."""
    annotation: int
    """The number of the annotation that counts."""
    num_others: int

    @property
    def data(self) -> Mapping[str, Any]:
        return self.record["data"]

    @property
    def results(self) -> list[dict[str, Any]]:
        return self.record["annotations"][self.annotation].get("result") or []


def decoded(source: SourceFile, data: bytes) -> str:
    """The text of a file without a byte-order mark."""
    return "".join(text for _, text in source.texts(iter(io.BytesIO(data))))


def read_tasks(source: SourceFile, text: str) -> Iterator[LabelStudioTask]:
    """The tasks with an annotation that counts, in the order of the file."""
    for record, span, line in _elements(source, text):
        where = at(source.path, line)
        annotations = _annotations(record, where)
        chosen = _chosen(annotations)
        if chosen is not None:
            _check_results(annotations[chosen], where)
            yield LabelStudioTask(record, span, line, where, chosen, len(annotations) - 1)


def _elements(source: SourceFile, text: str) -> Iterator[tuple[Any, Span, int]]:
    """The elements of the list that a file is: value, place and line of each."""
    place = _skip(text, 0)
    if text[place : place + 1] != "[":
        line = 1 + text.count("\n", 0, place)
        raise DataError(f"{at(source.path, line)}: found {shown(text[place : place + 80])}, expected a list of tasks")
    place, counted, line, is_first = _skip(text, place + 1), 0, 1, True
    while text[place : place + 1] != "]" or not is_first:
        line, counted = line + text.count("\n", counted, place), place
        try:
            value, stop = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            raise _not_json(source, text, place, error) from None
        yield value, (place, stop), line
        is_first, place = False, _skip(text, stop)
        if text[place : place + 1] == "]":
            break
        if text[place : place + 1] != ",":
            raise _not_json(source, text, place, json.JSONDecodeError("Expecting ',' delimiter", text, place))
        place = _skip(text, place + 1)
    place = _skip(text, place + 1)
    if place < len(text):
        raise _not_json(source, text, place, json.JSONDecodeError("Extra data", text, place))


def _skip(text: str, place: int) -> int:
    while place < len(text) and text[place] in _SPACE:
        place += 1
    return place


def _not_json(source: SourceFile, text: str, place: int, error: Exception) -> DataError:
    place, reason = (
        (error.pos, error.msg)
        if isinstance(error, json.JSONDecodeError)
        else (place, "a value is too deep or too long")
    )
    where = at(source.path, 1 + text.count("\n", 0, place))
    return DataError(f"{where}: {shown(text[place : place + 80])} is not valid JSON ({reason}); export the file again")


def _annotations(record: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(record, dict):
        raise DataError(f"{where}: expected a task, an object with data and annotations")
    if not isinstance(record.get("data"), dict):
        raise DataError(
            f"{where}: has no 'data'; JSON-MIN and other lists cannot be read, export as JSON from Label Studio"
        )
    found = record.get("annotations")
    if found is None and "completions" in record:
        raise DataError(f"{where}: has 'completions' of an old Label Studio; export it from version 1.0 or later")
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise DataError(f"{where}: expected a list of objects under 'annotations'; export as JSON from Label Studio")
    return found


def _chosen(annotations: list[dict[str, Any]]) -> int | None:
    """The last updated of those that are the ground truth, or else of all; cancelled ones do not count."""
    counting = [number for number, one in enumerate(annotations) if not one.get("was_cancelled")]
    return max(
        counting,
        key=lambda number: (bool(annotations[number].get("ground_truth")), _updated(annotations[number]), number),
        default=None,
    )


def _updated(annotation: Mapping[str, Any]) -> float:
    """When an annotation was last updated."""
    found = annotation.get("updated_at") or annotation.get("created_at")
    try:
        moment = datetime.fromisoformat(found)  # pyright: ignore[reportArgumentType]
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        return -inf


def _check_results(annotation: Mapping[str, Any], where: str) -> None:
    results = annotation.get("result")
    if results is not None and (not isinstance(results, list) or not all(isinstance(one, dict) for one in results)):
        raise DataError(f"{where}: expected a list of objects under 'result'; export as JSON from Label Studio")
