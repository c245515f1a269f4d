"""The folder of an audit.

findings.jsonl   one finding per line
findings.csv     the same for a spreadsheet
patterns.jsonl   one pattern per line
documents.csv    documents by the mean score of their tokens, if the data names documents
report.html      everything, to read in a browser
audit.json       options, summary and notes; written last
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError, at
from tagtrace._files import file_moved_when_whole, write_json
from tagtrace.findings.finding import Finding, read_findings, write_findings, write_findings_table
from tagtrace.findings.judges.folds import MARKER as FOLDS_MARKER
from tagtrace.findings.patterns.pattern import Pattern
from tagtrace.findings.ranking.truth import Measured
from tagtrace.findings.report.page import Report, write_report

MARKER = "audit.json"
FOLDS = f"folds/{FOLDS_MARKER}"
TITLE = "Training labels that are probably wrong"


@dataclass(frozen=True)
class AuditFiles:
    """The contents of the files of an audit."""

    findings: list[Finding]
    patterns: list[Pattern]
    record: dict[str, Any]
    """The contents of ``audit.json``."""
    documents: list[tuple[str, float]]
    fingerprint: str = ""
    """sha256 of ``findings.jsonl``."""


def check_audit_folder(folder: Path) -> None:
    """Create the folder if it does not exist; raises if it has something other than an audit in it."""
    is_audit = any((folder / name).is_file() for name in (MARKER, FOLDS, "findings.jsonl"))
    if folder.exists() and not is_audit and (not folder.is_dir() or any(folder.iterdir())):
        raise OptionError(f"{folder}: contains something other than an audit; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)


def write_audit_files(
    folder: Path, files: AuditFiles, scores: Tensor, truth: Sequence[Measured], evidence: Mapping[int, Sequence[str]]
) -> None:
    """Write all files; ``scores`` (N,), ``truth`` and ``evidence`` are shown in the report."""
    for name in (MARKER, "patterns.jsonl", "documents.csv"):  # so that no other audit's files stay beside new findings
        (folder / name).unlink(missing_ok=True)
    write_findings(files.findings, folder / "findings.jsonl")
    write_findings_table(files.findings, folder / "findings.csv")
    with file_moved_when_whole(folder / "patterns.jsonl") as stream:
        stream.writelines(f"{pattern.to_line()}\n".encode() for pattern in files.patterns)
    if files.documents:
        _write_documents(folder / "documents.csv", files.documents)
    report = Report(
        title=TITLE,
        index=files.record["index"],
        summary=files.record["summary"],
        scores=scores[scores > -torch.inf],
        findings=files.findings,
        patterns=files.patterns,
        truth=truth,
        evidence=evidence,
    )
    write_report(folder / "report.html", report)
    write_json(folder / MARKER, files.record)


def read_audit_files(folder: Path) -> AuditFiles:
    """Read the files of an audit; all but the findings may be missing."""
    path = folder / "findings.jsonl"
    findings = read_findings(path)
    fingerprint = hashlib.sha256(path.read_bytes()).hexdigest()
    return AuditFiles(
        findings, _read_patterns(folder / "patterns.jsonl"), _read_record(folder / MARKER),
        _read_documents(folder / "documents.csv"), fingerprint,
    )  # fmt: skip


def _read_record(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{at(path)}: cannot be read as JSON ({error}); run the audit again") from None


def _read_patterns(path: Path) -> list[Pattern]:
    if not path.exists():
        return []
    found: list[Pattern] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        try:
            if line.strip():
                found.append(Pattern.from_json(json.loads(line)))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(f"{at(path, number)}: not a pattern ({error}); run the audit again") from None
    return found


def _write_documents(path: Path, documents: Sequence[tuple[str, float]]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(("document", "mean_score"))
    writer.writerows((name, repr(score)) for name, score in documents)
    with file_moved_when_whole(path) as stream:
        stream.write(text.getvalue().encode())


def _read_documents(path: Path) -> list[tuple[str, float]]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))[1:]
    try:
        return [(name, float(score)) for name, score in rows]
    except ValueError as error:
        raise DataError(f"{at(path)}: not a list of documents and scores ({error}); run the audit again") from None
