"""``tagtrace audit``."""

from __future__ import annotations

import csv
import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from click.testing import Result

from tagtrace.data import LabelSet, read_corpus
from tagtrace.data.invented import generate, write_invented
from tagtrace.findings import Finding, read_findings
from tagtrace.index import IndexOptions, build_index
from tagtrace.tagger import Lexical, LexicalOptions, TrainOptions, load_tagger, new_tagger, save_tagger, train_tagger
from tests.cli.command import refused, succeed, tagtrace


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    write_invented(generate(num_documents=30), folder)
    corpus = read_corpus(folder / "train.conll")
    labels = LabelSet.from_sentences(read_corpus(folder / "train_true.conll").sentences, "iob2")
    torch.manual_seed(0)
    tagger = new_tagger(Lexical(LexicalOptions(buckets=512, width=8, hidden=8)), labels)
    train_tagger(tagger, corpus.sentences, (), TrainOptions(epochs=2, batch_size=16, learning_rate=2e-2))
    save_tagger(tagger, folder / "tagger")
    build_index(
        tagger, corpus, folder / "index", IndexOptions(dtype="float32", l2=3.0, tolerance=1e-4),
        tagger_path=folder / "tagger",
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def audited(made: Path) -> tuple[Path, Result]:
    """The audit of heads, with all the data it can have."""
    target = made / "audited"
    result = audit(made, target, "--trusted", made / "dev.conll", "--truth", made / "train_true.conll", "--effects", 1)
    assert result.exit_code == 0, result.output
    return target, result


def audit(made: Path, target: Path, *options: object, judges: str = "head") -> Result:
    arguments = (made / "index", "--out", target, "--judges", judges, "--folds", 2, "--device", "cpu")
    return tagtrace("audit", *arguments, *options)


def test_what_the_folder_contains(audited: tuple[Path, Result], made: Path) -> None:
    target, _ = audited
    findings = read_findings(target / "findings.jsonl")
    assert [one.rank for one in findings] == list(range(1, len(findings) + 1))
    assert all(a.score >= b.score for a, b in pairwise(findings))
    with (target / "findings.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [int(row["rank"]) for row in rows] == [one.rank for one in findings]
    patterns = [json.loads(line) for line in (target / "patterns.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {one.pattern for one in findings} - {None} == {pattern["number"] for pattern in patterns}
    assert patterns[0]["effect"]["verified"] is not None
    assert all(pattern["effect"] is None for pattern in patterns[1:])
    assert "<!DOCTYPE html>" in (target / "report.html").read_text(encoding="utf-8")
    record = json.loads((target / "audit.json").read_text(encoding="utf-8"))
    assert record["summary"]["findings"] == len(findings)
    assert 0 < record["truth"][0]["average_precision"] <= 1
    with (target / "documents.csv").open(newline="", encoding="utf-8") as stream:
        scores = [float(row["mean_score"]) for row in csv.DictReader(stream)]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == len({sentence.document for sentence in read_corpus(made / "train.conll").sentences})


def test_what_is_printed(audited: tuple[Path, Result], made: Path) -> None:
    target, result = audited
    num_planted = sum(
        a != b
        for old, new in zip(
            read_corpus(made / "train.conll").sentences, read_corpus(made / "train_true.conll").sentences, strict=True
        )
        for a, b in zip(old.labels, new.labels, strict=True)
    )
    printed = " ".join(result.stdout.split())
    assert f"{num_planted} labels are really wrong: average precision 0." in printed
    assert "patterns, the most systematic first" in printed
    assert f"The report is {target / 'report.html'} (" in result.stdout


def test_findings_can_be_fixed(audited: tuple[Path, Result], made: Path, tmp_path: Path) -> None:
    """Audit writes what fix reads, and every proposal leaves data that can be read."""
    fixed = tmp_path / "fixed.conll"
    succeed("fix", made / "train.conll", audited[0] / "findings.jsonl", fixed, "--all")
    before, after = read_corpus(made / "train.conll").sentences, read_corpus(fixed).sentences
    labels = {one.id.split("-", 1)[1]: one.labels for one in after}
    for one in read_findings(audited[0] / "findings.jsonl")[:50]:
        assert labels[one.sentence.split("-", 1)[1]][one.start : one.stop] == one.proposed
    assert [one.tokens for one in before] == [one.tokens for one in after]


def test_an_audit_replaces_an_earlier_one(audited: tuple[Path, Result], made: Path, tmp_path: Path) -> None:
    target = tmp_path / "again"
    shutil.copytree(audited[0], target)
    result = audit(made, target, "--trusted", made / "dev.conll", "--effects", 0, "--most", 7)
    assert result.exit_code == 0, result.output
    assert len(read_findings(target / "findings.jsonl")) == 7


def test_a_folder_of_something_else(made: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    refused(audit(made, tmp_path), f"{tmp_path}: ", "other than an audit")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_without_trusted_data(made: Path, tmp_path: Path) -> None:
    result = audit(made, tmp_path / "out")
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "out" / "audit.json").read_text(encoding="utf-8"))
    (note,) = (note for note in record["notes"] if "trusted" in note)
    assert f"note: {note}" in result.stdout
    refused(audit(made, tmp_path / "out", "--score", "influence"), "score 'influence'", "trusted data")


def test_a_query_ranks_one_kind_of_error(made: Path, tmp_path: Path) -> None:
    result = audit(made, tmp_path / "out", "--trusted", made / "dev.conll", "--query", "ORG:LOC", "--effects", 0)
    assert result.exit_code == 0, result.output
    findings = read_findings(tmp_path / "out" / "findings.jsonl")
    assert findings
    assert all(is_answer(one) for one in findings)
    assert [one.rank for one in findings] == list(range(1, len(findings) + 1))


def is_answer(finding: Finding) -> bool:
    return any(a.endswith("LOC") and b.endswith("ORG") for a, b in zip(finding.given, finding.proposed, strict=True))


@pytest.mark.parametrize(
    ("query", "message"), [("ORG", "expected GOLD:PREDICTED"), ("ORG:CITY", "CITY"), ("ORG:ORG", "ORG:ORG")]
)
def test_a_query_that_cannot_be_asked(made: Path, tmp_path: Path, query: str, message: str) -> None:
    refused(audit(made, tmp_path / "out", "--query", query), message)
    assert not (tmp_path / "out" / "findings.jsonl").exists()


def test_trusted_labels_that_the_tagger_does_not_know(made: Path, tmp_path: Path) -> None:
    trusted = tmp_path / "trusted.conll"
    trusted.write_text("Varnholt B-CITY\nwon O\n\n", encoding="utf-8")
    refused(audit(made, tmp_path / "out", "--trusted", trusted), "CITY")


def test_trusted_data_of_one_class(made: Path, tmp_path: Path) -> None:
    trusted = tmp_path / "trusted.jsonl"
    trusted.write_text('{"tokens": ["it", "rained"], "labels": ["O", "O"]}\n', encoding="utf-8")
    refused(audit(made, tmp_path / "out", "--trusted", trusted, "--scheme", "iob2"), "trusted", "class")


def test_trusted_sentences_that_are_training_sentences(made: Path, tmp_path: Path) -> None:
    refused(audit(made, tmp_path / "out", "--trusted", made / "train_true.conll"), "all trusted sentences")
    both = tmp_path / "both.conll"
    both.write_text((made / "dev.conll").read_text(encoding="utf-8") + (made / "train_true.conll").read_text("utf-8"))
    result = audit(made, tmp_path / "out", "--trusted", both, "--effects", 0, "--most", 5)
    assert result.exit_code == 0, result.output
    assert "training sentences are also in the trusted data" in result.stdout


def test_data_without_documents(made: Path, tmp_path: Path) -> None:
    plain = tmp_path / "train.conll"
    lines = (made / "train.conll").read_text(encoding="utf-8").splitlines()
    plain.write_text("\n".join(line for line in lines if not line.startswith("-DOCSTART-")) + "\n", encoding="utf-8")
    corpus = read_corpus(plain)
    assert not any(sentence.document for sentence in corpus.sentences)
    options = IndexOptions(dtype="float32", l2=3.0, tolerance=1e-4)
    build_index(load_tagger(made / "tagger"), corpus, tmp_path / "index", options, tagger_path=made / "tagger")
    result = audit(tmp_path, tmp_path / "out", "--trusted", made / "dev.conll", "--effects", 0)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "audit.json").exists()
    assert not (tmp_path / "out" / "documents.csv").exists()


def test_data_is_found_from_any_working_folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.conll").write_bytes((made / "train.conll").read_bytes())
    options = IndexOptions(dtype="float32", l2=3.0, tolerance=1e-4)
    build_index(load_tagger(made / "tagger"), read_corpus("train.conll"), "index", options, tagger_path=made / "tagger")
    Path("away").mkdir()
    monkeypatch.chdir(tmp_path / "away")
    asked = ("--trusted", made / "dev.conll", "--effects", 0, "--most", 5)
    assert audit(tmp_path, Path("out"), *asked, judges="encoder").exit_code == 0
    (tmp_path / "train.conll").rename("train.conll")
    wanted = f"its data is no longer at {tmp_path / 'train.conll'}; give the file of the data with --data"
    refused(audit(tmp_path, Path("new"), *asked, judges="encoder"), wanted)
    assert audit(tmp_path, Path("new"), *asked, "--data", "train.conll", judges="encoder").exit_code == 0


def test_folds_that_were_trained_are_not_trained_again(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--trusted", made / "dev.conll", "--effects", 0, "--most", 5)
    result = audit(made, tmp_path / "out", *options, judges="auto")  # lexical: taggers are trained
    assert result.exit_code == 0, result.output
    runs = [line for line in result.stderr.splitlines() if line.startswith("training: ")]
    assert runs[:2] == ["training: fold 1 of 2", "training: fold 2 of 2"]
    assert len(runs) == 3
    assert "trusted data" in runs[2]
    first = read_findings(tmp_path / "out" / "findings.jsonl")

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a fold is trained again")

    monkeypatch.setattr("tagtrace.findings.judges.folds.train_tagger", fail)
    assert audit(made, tmp_path / "out", *options, judges="encoder").exit_code == 0
    assert read_findings(tmp_path / "out" / "findings.jsonl") == first
    refused(audit(made, tmp_path / "out", "--effects", 0, judges="encoder"), "trusted")


def test_other_training_data_is_refused(made: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.conll").write_bytes((made / "train.conll").read_bytes())
    for name in (made / "dev.conll", made / "train_true.conll"):
        refused(audit(made, tmp_path / "out", "--data", name, judges="encoder"), f"{name}", "index")
    moved = audit(made, tmp_path / "out", "--data", tmp_path / "absent.conll", judges="encoder")
    refused(moved, "absent.conll", "No such file")
