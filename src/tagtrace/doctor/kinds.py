"""Checking each kind of folder."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tagtrace._checks import TagtraceError
from tagtrace._markup import counted
from tagtrace._run_folder import RunFolder, run_damage
from tagtrace.data import read_corpus
from tagtrace.doctor.health import Symptom
from tagtrace.findings import Audit
from tagtrace.findings.audit_folder import FOLDS
from tagtrace.findings.audit_folder import MARKER as AUDIT
from tagtrace.index import Index, open_index
from tagtrace.index.manifest import MARKER as INDEX
from tagtrace.index.unfinished import PROGRESS
from tagtrace.influence.curvature.inverse_file import MARKER as CURVATURE
from tagtrace.influence.whole.stored import MARKER as WHOLE
from tagtrace.review import read_decided, read_project_file
from tagtrace.review.decisions.database import Store
from tagtrace.review.project import MARKER as PROJECT
from tagtrace.tagger import load_tagger
from tagtrace.tagger.checkpoint import MARKER as CHECKPOINT
from tagtrace.tagger.folder import MARKER as TAGGER

FINDINGS = "findings.jsonl"

_WHEN_NEEDED = "it is made again when it is needed"
DERIVED = {
    "whole": (WHOLE, "index the same tagger and data again to make it again"),
    "curvature": (CURVATURE, _WHEN_NEEDED),
    "curvature-damped": (CURVATURE, _WHEN_NEEDED),
}
"""Folders in an index that only save time and may be deleted at any time: their markers, and how they come back."""

UNFINISHED = {PROGRESS: "index", CHECKPOINT: "training"}
"""Markers of runs that have not ended, with what they make."""

Check = Callable[[Path, bool], Iterator[Symptom]]


def _tagger(folder: Path, repair: bool) -> Iterator[Symptom]:  # noqa: ARG001
    try:
        tagger = load_tagger(folder)
    except (TagtraceError, OSError) as error:
        yield Symptom(folder, "tagger", "broken", str(error))
        return
    yield Symptom(folder, "tagger", "sound", f"weights are whole; {tagger.encoder.kind}, {len(tagger.labels)} labels")


def _index(folder: Path, repair: bool) -> Iterator[Symptom]:
    try:
        index = open_index(folder)
        index.verify()
    except (TagtraceError, OSError) as error:
        yield Symptom(folder, "index", "broken", str(error))
        return
    tokens = counted(index.num_tokens, "token")
    yield Symptom(folder, "index", "sound", f"all checksums are those that were recorded; {tokens}")
    yield from _sources(index)
    for name in DERIVED:
        if os.path.lexists(folder / name):
            yield from _derived(folder / name, repair)


def _sources(index: Index) -> Iterator[Symptom]:
    """The data and the tagger that an index was built from."""
    try:
        index.check_corpus(read_corpus(index.data_path(), index.manifest.data.options))
    except (TagtraceError, OSError) as error:
        yield Symptom(index.folder, "data of the index", "broken", str(error))
    try:
        index.trained_tagger()
    except (TagtraceError, OSError) as error:
        yield Symptom(index.folder, "tagger of the index", "broken", str(error))


def _derived(folder: Path, repair: bool) -> Iterator[Symptom]:
    """A folder that may be deleted, as far as it is known for tagtrace's own."""
    marker, again = DERIVED[folder.name]
    run = RunFolder(folder, marker, {}, "derived")
    if folder.is_symlink() or not folder.is_dir():
        yield Symptom(folder, "derived", "broken", "not a folder of the index itself; move it elsewhere")
    elif not run.has_begun and not any(run.not_begun()):
        return  # a run was killed before it wrote anything
    elif (problem := run_damage(folder, marker)) is None:
        yield Symptom(folder, "derived", "sound", "all checksums are those that were recorded")
    elif not run.is_own:
        message = f"{problem}; contains files that are not tagtrace's, so it is not deleted: move it elsewhere"
        yield Symptom(folder, "derived", "broken", message)
    elif repair:
        run.remove()
        yield Symptom(folder, "derived", "repaired", f"{problem}; deleted: {again}")
    else:
        yield Symptom(folder, "derived", "repairable", f"{problem}; {again}")


def _audit(folder: Path, repair: bool) -> Iterator[Symptom]:  # noqa: ARG001
    if not (folder / FINDINGS).is_file():
        message = "audit that was interrupted: give the same command again to finish it"
        yield Symptom(folder, "audit", "unfinished", message)
        return
    try:
        audit = Audit.load(folder)
    except (TagtraceError, OSError) as error:
        yield Symptom(folder, "audit", "broken", str(error))
        return
    yield Symptom(folder, "audit", "sound", counted(len(audit.findings), "finding"))


def _project(folder: Path, repair: bool) -> Iterator[Symptom]:  # noqa: ARG001
    try:
        file = read_project_file(folder)
        if file.decisions.exists() and (problem := _problem_of_database(file.decisions)):
            yield Symptom(file.decisions, "decisions", "broken", problem)
            return
        decided = read_decided(folder)
        if file.dev is not None:
            read_corpus(file.dev, file.reading, require_labels=False)
    except (TagtraceError, OSError) as error:
        yield Symptom(folder, "project", "broken", str(error))
        return
    message = f"index, data, audit and decisions fit together; {counted(len(decided.labels), 'token')} decided"
    yield Symptom(folder, "project", "sound", message)


def _problem_of_database(path: Path) -> str | None:
    try:
        Store(path, read_only=True).close()
    except (sqlite3.Error, TagtraceError) as error:
        return str(error)
    return None


KINDS: Mapping[str, Check] = {
    INDEX: _index,
    TAGGER: _tagger,
    PROJECT: _project,
    AUDIT: _audit,
    FINDINGS: _audit,
    FOLDS: _audit,
}
"""By the file that identifies a folder of this kind."""
