"""Opening a project whose parts do not fit together."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tagtrace._checks import DataError
from tagtrace.review import Decision, ProjectFile, Store, open_review, write_project_file
from tagtrace.tagger import load_tagger
from tests.review.made import Client


def project_with(folder: Path, project_folder: Path, **places: Path) -> ProjectFile:
    data = project_folder / "data" / "train.conll"
    return write_project_file(folder, None, index=project_folder / "index", data=data, **places)


@pytest.mark.parametrize(
    ("content", "note"),
    [("Delft\tB-CITY\n", "unknown label 'B-CITY'"), ("", "dev.conll")],
)
def test_held_out_data_that_cannot_be_used_is_noted(
    project_folder: Path, tmp_path: Path, content: str, note: str
) -> None:
    dev = tmp_path / "dev.conll"
    dev.write_text(content)
    review = open_review(project_with(tmp_path, project_folder, dev=dev), "ada")
    found = Client(review).get("project")
    assert note in found["note"]
    assert not found["has"]["errors"]
    assert Client(review).get("errors") == {"total": 0, "items": [], "pairs": [], "preparing": None}
    review.close()


def test_held_out_data_without_labels_is_noted(project_folder: Path, tmp_path: Path) -> None:
    dev = tmp_path / "dev.jsonl"
    dev.write_text('{"id": "a", "tokens": ["Delft", "won"]}\n')
    review = open_review(project_with(tmp_path, project_folder, dev=dev), "ada")
    assert review.note == "dev.jsonl has no labels, so there are no mispredictions to show"
    review.close()


def test_findings_of_other_data_are_refused(project_folder: Path, tmp_path: Path) -> None:
    audit = tmp_path / "audit"
    audit.mkdir()
    record = json.loads((project_folder / "audit" / "findings.jsonl").read_text().splitlines()[0])
    moved = {**record, "sentence_number": record["sentence_number"] + 1}
    (audit / "findings.jsonl").write_text(json.dumps(moved))
    with pytest.raises(DataError, match=r"finding 1 .* does not match .*train\.conll; audit this data again"):
        open_review(project_with(tmp_path, project_folder, audit=audit), "ada")
    assert not (tmp_path / "decisions.sqlite").exists()


def test_decisions_that_cannot_be_read_are_refused(
    project_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, asked = project_with(tmp_path, project_folder), list[Store]()

    def fail(store: Store, _: int) -> list[Decision]:
        asked.append(store)
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr(Store, "after", fail)
    with pytest.raises(DataError, match=r"decisions\.sqlite: the decisions cannot be read \(database disk image"):
        open_review(file, "ada")
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        asked[0].setting("name", "value")


def test_a_tagger_in_memory_is_used(project_folder: Path, tmp_path: Path) -> None:
    """The tagger's folder is then not needed."""
    tagger = load_tagger(project_folder / "tagger")
    steps = list[str]()
    file = project_with(tmp_path, project_folder, tagger=tmp_path / "nowhere")
    review = open_review(file, "ada", tagger, steps.append)
    assert review.the_model().tagger.predict([review.data.sentences[0]])
    assert steps == ["opening the index", "reading the data"]
    review.close()
