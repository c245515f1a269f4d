"""Findings: records of training labels that are probably wrong, and the files for them."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tagtrace._checks import DataError, at
from tagtrace._files import file_moved_when_whole
from tagtrace.data.schemes import spelled

COLUMNS = ("rank", "sentence", "start", "stop", "line", "document", "text", "given", "proposed", "score", "confidence",
           "pattern", "before", "after")  # fmt: skip
"""Columns of the CSV file."""

LIKELY = 0.5
"""Proposed labels with a higher confidence are likelier than not."""

_LISTS = ("tokens", "before", "after", "given", "proposed")


@dataclass(frozen=True, slots=True)
class Finding:
    """Tokens ``start:stop`` of a training sentence whose labels are probably wrong."""

    rank: int
    """From 1, the most suspicious first; also identifies the finding."""
    sentence: str
    """Id of the sentence."""
    document: str
    sentence_number: int
    """Number of the sentence in the index."""
    start: int
    stop: int
    line: int
    """Line of the first token in the data file, from 1."""
    tokens: tuple[str, ...]
    before: tuple[str, ...]
    """A few tokens before it in the sentence."""
    after: tuple[str, ...]
    """A few tokens after it in the sentence."""
    given: tuple[str, ...]
    """The labels in the data, normalised, one for each token."""
    proposed: tuple[str, ...]
    score: float
    """Findings are ranked by it; higher = more suspicious."""
    confidence: float
    """Estimated probability of the least likely of the proposed labels."""
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """Further scores by name, for the reader."""
    pattern: int | None = None
    """Number of the pattern that it belongs to."""

    @property
    def text(self) -> str:
        return " ".join(self.tokens)

    @property
    def is_likely(self) -> bool:
        """Whether the proposed labels are likelier than not."""
        return self.confidence > LIKELY

    @property
    def num_changed(self) -> int:
        """The number of labels that the proposal would change."""
        return sum(given != proposed for given, proposed in zip(self.given, self.proposed, strict=True))

    @property
    def change(self) -> str:
        """The given and the proposed types: ``LOC -> ORG``, ``MISC -> O``, ``ORG -> ORG`` if only boundaries differ."""
        return f"{spelled(self.given)} -> {spelled(self.proposed)}"

    def to_record(self) -> dict[str, Any]:
        """A flat record: tokens and labels as text, without ``scores``."""
        lists = {key: " ".join(getattr(self, key)) for key in ("given", "proposed", "before", "after")}
        return {column: lists.get(column, getattr(self, column)) for column in COLUMNS}

    def to_line(self) -> str:
        """One line of ``findings.jsonl``."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Finding:
        """Read what ``to_line`` wrote; raises ValueError if the record is not a finding."""
        if isinstance(record, dict) and "chain" in record:  # its name in development versions
            record = {"sentence_number" if key == "chain" else key: value for key, value in record.items()}
        _check(record)
        tuples = {key: tuple(record[key]) for key in _LISTS}
        found = cls(**{**record, **tuples})
        if not 0 <= found.start < found.stop or any(
            len(labels) != found.stop - found.start for labels in (found.tokens, found.given, found.proposed)
        ):
            raise ValueError(f"tokens {found.start}:{found.stop}: each needs a given and a proposed label")
        return found


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    """Whether it is a number that a float can hold."""
    return isinstance(value, float) or (_is_int(value) and abs(value) <= sys.float_info.max)


def _is_finite(value: Any) -> bool:
    return _is_number(value) and math.isfinite(value)


def _check(record: Any) -> None:
    """Raise ValueError unless the record has the keys of a finding, and values of the right types."""
    if not isinstance(record, dict):
        raise ValueError("expected a JSON object")
    for name in dict.fromkeys((*record, *(name for name in _KINDS if name not in ("scores", "pattern")))):
        if name not in record or name not in _KINDS:
            raise ValueError(f"the key {name} is {'unknown' if name in record else 'missing'}")
        if not _KINDS[name](record[name]):
            raise ValueError(f"{name} cannot be {json.dumps(record[name])[:40]}")


_KINDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("sentence", "document"), lambda value: isinstance(value, str)),
    **dict.fromkeys(("rank", "sentence_number", "start", "stop", "line"), _is_int),
    "score": _is_number,
    "confidence": _is_finite,
    **dict.fromkeys(_LISTS, lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value)),
    "scores": lambda value: isinstance(value, dict) and all(map(_is_finite, value.values())),
    "pattern": lambda value: value is None or _is_int(value),
}
"""By field, whether a value that was read from JSON has the right type."""


def write_findings(findings: Sequence[Finding], path: str | Path) -> None:
    """Write findings as JSON lines, one finding per line."""
    with file_moved_when_whole(path) as stream:
        stream.writelines(_encoded(f"{finding.to_line()}\n") for finding in findings)


def write_findings_table(findings: Sequence[Finding], path: str | Path) -> None:
    """Write findings as CSV, for a spreadsheet."""
    with file_moved_when_whole(path) as stream:
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(COLUMNS)
        writer.writerows(one.to_record().values() for one in findings)
        stream.write(_encoded(text.getvalue()))


def _encoded(text: str) -> bytes:
    """UTF-8, with half a surrogate pair as its JSON escape."""
    return text.encode("utf-8", "backslashreplace")


def read_findings(path: str | Path) -> list[Finding]:
    """Read what ``write_findings`` wrote; an error names the line."""
    path, found = Path(path), list[Finding]()
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # a token may contain other line separators
    except OSError as error:
        raise DataError(f"{at(path)}: cannot be read: {error.strerror}; give the findings.jsonl of an audit") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{at(path)}: is not UTF-8; give the findings.jsonl of an audit") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found.append(Finding.from_json(json.loads(line)))
        except (ValueError, RecursionError) as error:
            problem = f"{at(path, number)}: not a finding ({error})"
            raise DataError(f"{problem}; give the findings.jsonl of an audit") from None
    return found
