"""The folder an audit writes.

findings.jsonl   one finding a line, for ``tagtrace fix`` and programs
findings.csv     the same for a spreadsheet
patterns.jsonl   one pattern a line
documents.csv    documents by the mean score of their tokens, where the data names documents
report.html      all of it to read
audit.json       what was asked, and the summary; written last
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tagtrace._checks import OptionError
from tagtrace._files import file_moved_when_whole
from tagtrace.data.sentence import Sentence
from tagtrace.findings.audit import Audit
from tagtrace.findings.finding import write_findings, write_findings_table
from tagtrace.findings.judges.folds import MARKER as FOLDS_MARKER
from tagtrace.findings.ranking.levels import at_level
from tagtrace.findings.ranking.truth import Measured
from tagtrace.findings.report.page import Report, write_report
from tagtrace.index import Index
from tagtrace.influence.scoring.candidates import sentence_documents

MARKER = "audit.json"
FOLDS = f"folds/{FOLDS_MARKER}"


def check_audit_folder(folder: Path) -> None:
    """Raise where a folder holds something else than an audit; make it otherwise."""
    is_audit = any((folder / name).is_file() for name in (MARKER, FOLDS, "findings.jsonl"))
    if folder.exists() and not is_audit and (not folder.is_dir() or any(folder.iterdir())):
        raise OptionError(f"{folder}: holds something else than an audit; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)


def write_audit(
    folder: Path,
    index: Index,
    found: Audit,
    summary: Mapping[str, str | int | float],
    trusted: Sequence[Sentence] = (),
    truth: Sequence[Measured] = (),
    options: Mapping[str, Any] | None = None,
) -> None:
    """Write all files. ``trusted`` are the sentences that ``found.hurt`` counts."""
    (folder / MARKER).unlink(missing_ok=True)  # it says that the others belong together
    write_findings(found.findings, folder / "findings.jsonl")
    write_findings_table(found.findings, folder / "findings.csv")
    with file_moved_when_whole(folder / "patterns.jsonl") as stream:
        stream.writelines(f"{pattern.to_json()}\n".encode() for pattern in found.patterns)
    if any(sentence_documents(index)):
        _write_documents(folder / "documents.csv", index, found)
    report = Report(
        title="Training labels that are probably wrong",
        index=str(index.folder),
        summary=summary,
        scores=found.scores[found.scores > -torch.inf],
        findings=found.findings,
        patterns=found.patterns,
        truth=truth,
        evidence=hurt_lines(index, found, trusted),
    )
    write_report(folder / "report.html", report)
    record = {"options": dict(options or {}), "summary": dict(summary), "notes": found.notes,
              "truth": [_measured(one) for one in truth]}  # fmt: skip
    with file_moved_when_whole(folder / MARKER) as stream:
        stream.write(json.dumps(record, ensure_ascii=False, indent=1).encode())


def hurt_lines(index: Index, found: Audit, trusted: Sequence[Sentence]) -> dict[int, list[str]]:
    """For each finding the trusted labels that it hurts, in words."""
    names = index.labels.labels
    return {
        rank: [
            f'hurts "{trusted[one.sentence_number].tokens[one.place]}" ({names[one.gold]}, predicted '
            f"{names[one.predicted]}) in {trusted[one.sentence_number].id}:{one.place}, cosine {one.cosine:+.2f}"
            for one in hurt
        ]
        for rank, hurt in found.hurt.items()
        if hurt
    }


def _write_documents(path: Path, index: Index, found: Audit) -> None:
    """Documents by the mean score of their tokens; tokens that were left out count as the lowest score."""
    finite = found.scores[found.scores > -torch.inf]
    scores = found.scores.clamp(min=float(finite.min()) if len(finite) else 0.0)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(("document", "mean_score"))
    writer.writerows((name, f"{score:.6g}") for name, score in at_level(index, scores, "document").ranked())
    with file_moved_when_whole(path) as stream:
        stream.write(text.getvalue().encode())


def _measured(one: Measured) -> dict[str, Any]:
    """For JSON, which has no NaN."""
    recall = {str(k): None if math.isnan(value) else value for k, value in one.recall.items()}
    precision = None if math.isnan(one.average_precision) else one.average_precision
    return {"score": one.name, "num_wrong": one.num_wrong, "average_precision": precision, "recall_at": recall}
