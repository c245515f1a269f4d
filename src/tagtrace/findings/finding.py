"""Findings: records of training labels that are probably wrong, and the files for them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tagtrace._checks import DataError, check_numbers
from tagtrace._documents import Document, read_documents
from tagtrace._files import file_moved_when_whole
from tagtrace.data.schemes import spelled
from tagtrace.findings.spreadsheet import write_csv

COLUMNS = ("rank", "sentence", "start", "stop", "line", "document", "text", "given", "proposed", "score", "confidence",
           "pattern", "before", "after")  # fmt: skip
"""Columns of the CSV file."""

LIKELY = 0.5
"""Proposed labels with a higher confidence are likelier than not."""


@dataclass(frozen=True, slots=True)
class Finding(Document):
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

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop or any(
            len(labels) != self.stop - self.start for labels in (self.tokens, self.given, self.proposed)
        ):
            raise DataError(f"tokens {self.start}:{self.stop}: each needs a given and a proposed label")
        check_numbers(rank=self.rank, sentence_number=self.sentence_number, stop=self.stop, line=self.line,
                      pattern=self.pattern)  # fmt: skip

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


def write_findings(findings: Sequence[Finding], path: str | Path) -> None:
    """Write findings as JSON lines, one finding per line."""
    with file_moved_when_whole(path) as stream:
        stream.writelines(f"{finding.to_line()}\n".encode("utf-8", "replace") for finding in findings)


def write_findings_table(findings: Sequence[Finding], path: str | Path) -> None:
    """Write findings as CSV, for a spreadsheet (see ``spreadsheet``: no text becomes a formula)."""
    write_csv(path, [COLUMNS, *(one.to_record().values() for one in findings)])


def read_findings(path: str | Path) -> list[Finding]:
    """Read what ``write_findings`` wrote; an error names the line."""
    remedy = "give the findings.jsonl of an audit"
    return [finding for _, finding in read_documents(path, Finding, remedy=remedy)]
