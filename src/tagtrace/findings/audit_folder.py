"""The folder of an audit.

findings.jsonl   one finding per line
findings.csv     the same for a spreadsheet
patterns.jsonl   one pattern per line
documents.csv    documents by the mean score of their tokens, if the data names documents
report.html      everything, to read in a browser
audit.json       options, summary and notes

They change together: a new audit of the same folder replaces all of them at once, or none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError, at
from tagtrace._documents import Document, read_document, read_documents, real_path
from tagtrace._files import file_moved_when_whole, write_json
from tagtrace._folders import Product, check_movable, files_replaced_together, restore_folder
from tagtrace.findings.finding import Finding, read_findings, write_findings, write_findings_table
from tagtrace.findings.judges.folds import MARKER as FOLDS_MARKER
from tagtrace.findings.options import AuditOptions
from tagtrace.findings.patterns.pattern import Pattern
from tagtrace.findings.ranking.truth import Measured, MeasuredRecord
from tagtrace.findings.report.page import Report, write_report
from tagtrace.findings.spreadsheet import read_csv, write_csv

MARKER = "audit.json"
FOLDS = f"folds/{FOLDS_MARKER}"
PRODUCT = Product(MARKER, ("findings.jsonl", "findings.csv", "patterns.jsonl", "documents.csv", "report.html", MARKER))
_REMEDY = "run the audit again"
TITLE = "Training labels that are probably wrong"


@dataclass(frozen=True)
class AuditRecord(Document):
    """``audit.json``: everything about an audit that has no file of its own."""

    options: AuditOptions = field(default_factory=AuditOptions)
    summary: dict[str, str | int | float] = field(default_factory=dict[str, "str | int | float"])
    notes: list[str] = field(default_factory=list[str])
    truth: list[MeasuredRecord] = field(default_factory=list[MeasuredRecord])
    num_right: int | None = None
    index: str = ""


@dataclass(frozen=True)
class AuditFiles:
    """The contents of the files of an audit."""

    findings: list[Finding]
    patterns: list[Pattern]
    record: AuditRecord
    """The contents of ``audit.json``."""
    documents: list[tuple[str, float]]
    fingerprint: str = ""
    """sha256 of ``findings.jsonl``."""


def check_audit_folder(folder: Path) -> None:
    """Raise if an audit cannot be saved here, or the folder has something other than an audit in it."""
    check_movable(folder)
    is_audit = any((folder / name).is_file() for name in (MARKER, FOLDS, "findings.jsonl"))
    if folder.exists() and not is_audit and (not folder.is_dir() or any(_others(folder))):
        raise OptionError(f"{folder}: contains something other than an audit; choose another folder")


def _others(folder: Path) -> Iterator[str]:
    """What is neither of an audit nor left by one that was killed while it began its folds."""
    return (path for path in PRODUCT.others(folder) if not path.startswith(f"folds/.{FOLDS_MARKER}."))


def write_audit_files(
    folder: Path, files: AuditFiles, scores: Tensor, truth: Sequence[Measured], evidence: Mapping[int, Sequence[str]]
) -> None:
    """Replace all files together; ``scores`` (N,), ``truth`` and ``evidence`` are shown in the report."""
    with files_replaced_together(real_path(folder), PRODUCT) as aside:
        _write_files(aside, files, scores, truth, evidence)


def _write_files(
    folder: Path, files: AuditFiles, scores: Tensor, truth: Sequence[Measured], evidence: Mapping[int, Sequence[str]]
) -> None:
    write_findings(files.findings, folder / "findings.jsonl")
    write_findings_table(files.findings, folder / "findings.csv")
    with file_moved_when_whole(folder / "patterns.jsonl") as stream:
        stream.writelines(f"{pattern.to_line()}\n".encode() for pattern in files.patterns)
    if files.documents:
        write_csv(folder / "documents.csv", [("document", "mean_score"), *files.documents])
    report = Report(
        title=TITLE,
        index=files.record.index,
        summary=files.record.summary,
        scores=scores[scores > -torch.inf],
        findings=files.findings,
        patterns=files.patterns,
        truth=truth,
        evidence=evidence,
    )
    write_report(folder / "report.html", report)
    write_json(folder / MARKER, asdict(files.record))


def read_audit_files(folder: Path) -> AuditFiles:
    """Read the files of one audit; all but the findings may be missing."""
    restore_folder(folder)
    before = _identity(folder)
    try:
        found = _read_files(folder)
    except (OSError, DataError):
        if _identity(folder) == before:
            raise
        found = None
    if found is None or _identity(folder) != before:  # another audit took its place meanwhile
        return read_audit_files(folder)
    return found


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _read_files(folder: Path) -> AuditFiles:
    path = folder / "findings.jsonl"
    findings = read_findings(path)
    fingerprint = hashlib.sha256(path.read_bytes()).hexdigest()
    return AuditFiles(
        findings, _read_patterns(folder / "patterns.jsonl"), _read_record(folder / MARKER),
        _read_documents(folder / "documents.csv"), fingerprint,
    )  # fmt: skip


def _read_record(path: Path) -> AuditRecord:
    if not path.exists():
        return AuditRecord(notes=[f"{MARKER} is missing; the options of the audit are not known"])
    return read_document(path, AuditRecord, remedy=_REMEDY)


def _read_patterns(path: Path) -> list[Pattern]:
    if not path.exists():
        return []
    return [pattern for _, pattern in read_documents(path, Pattern, remedy=_REMEDY)]


def _read_documents(path: Path) -> list[tuple[str, float]]:
    if not path.exists():
        return []
    try:
        return [(name, float(score)) for name, score in read_csv(path)[1:]]
    except (OSError, ValueError) as error:
        raise DataError(f"{at(path)}: not a list of documents and scores ({error}); run the audit again") from None
