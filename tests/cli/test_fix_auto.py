"""``tagtrace fix --auto``: what is sure enough is applied, with and without the decisions of a review."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tagtrace import Audit, load_tagger, open_index, read_corpus
from tagtrace.data.invented import generate
from tagtrace.findings.finding import Finding
from tagtrace.review import read_decided
from tagtrace.review.decisions.database import Store
from tagtrace.review.decisions.decide import DecisionRequest, Decisions
from tagtrace.review.project import write_project_file
from tagtrace.review.training_data import TrainingData
from tests.cli.command import refused, succeed, tagtrace


@pytest.fixture(scope="module")
def project(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A review of invented data: findings that are its planted errors, and as many that are none; half are decided."""
    folder = tmp_path_factory.mktemp("auto")
    corpus = read_corpus(indexed / "train.conll")
    number_of = {one.id: number for number, one in enumerate(corpus.sentences)}
    errors = {(number_of[one.sentence], one.start): one for one in generate(num_documents=20).errors}
    findings = list[Finding]()
    for number, sentence in enumerate(corpus.sentences):
        for t, label in enumerate(sentence.labels):
            error = errors.get((number, t))
            is_false = label == "B-PER" and number % 2 == 0
            if error is not None or is_false:
                stop = t + 1 if error is None else error.stop
                given = sentence.labels[t:stop]
                if error is None and stop < len(sentence) and sentence.labels[stop].startswith("I-"):
                    continue
                findings.append(Finding(
                    len(findings) + 1, sentence.id, sentence.document, number, t, stop, sentence.lines[t],
                    sentence.tokens[t:stop], sentence.tokens[:t], sentence.tokens[stop:], given,
                    ("B-ORG",) if error is None else error.true_labels, 1.0, 0.7, {"doubt": 0.8},
                ))  # fmt: skip
                break
    Audit(findings, [], {}, index=str(indexed / "index")).save(folder / "audit")
    places = {"index": indexed / "index", "data": indexed / "train.conll", "audit": folder / "audit"}
    file = write_project_file(folder / "project", None, **places)
    audit = Audit.load(folder / "audit")
    data = TrainingData(
        corpus, open_index(indexed / "index").labels, "sentence", audit.findings, audit.patterns, audit.fingerprint
    )
    store = Store(file.decisions)
    is_error = {one.rank: (one.sentence_number, one.start) in errors for one in findings}
    chosen = [one for one in findings if one.rank % 2]
    asked = [
        DecisionRequest(
            "accept" if is_error[one.rank] else "reject", one.sentence_number, one.start, one.stop, one.rank
        )
        for one in chosen
    ]
    Decisions(data, store).decide("ann", asked)
    killed = {path: path.read_bytes() for path in file.decisions.parent.glob("decisions.sqlite*")}
    store.close()
    for path, content in killed.items():  # as a killed server leaves them: rows are in the write-ahead log only
        path.write_bytes(content)
    (folder / "true.json").write_text(json.dumps([rank for rank, value in is_error.items() if value]))
    return folder


def kept_files(folder: Path) -> dict[str, bytes]:
    """All files but the memory that SQLite shares between processes."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".sqlite-shm"}


def test_decisions_are_made_and_teach_what_else_is_sure(project: Path, indexed: Path, tmp_path: Path) -> None:
    target, findings = tmp_path / "fixed.conll", project / "audit" / "findings.jsonl"
    before = kept_files(project / "project")
    result = tagtrace("fix", indexed / "train.conll", findings, target, "--auto", "--decisions", project / "project")
    assert result.exit_code == 0, result.output
    assert kept_files(project / "project") == before
    assert "should become right" in " ".join(result.stdout.split())
    true = set(json.loads((project / "true.json").read_text()))
    log = [json.loads(line) for line in Path(f"{target}.changes.jsonl").read_text().splitlines()]
    changed = {change["rank"] for change in log}
    decided = {rank for rank in true if rank % 2}
    assert decided <= changed
    more = changed - decided
    assert more, "nothing was learned from the decisions"
    assert len(more & true) > 0.8 * len(more)
    assert len(read_decided(project / "project")) > 0


def test_training_and_gain_end_with_decisions(project: Path, indexed: Path, tmp_path: Path) -> None:
    decisions = ("--decisions", project / "project")
    result = succeed("train", indexed / "train.conll", tmp_path / "tagger", "--epochs", 1, *decisions)
    assert "training ends with" in result.stderr
    record = load_tagger(tmp_path / "tagger").record
    assert record["further"]["num_sentences"] == len({number for number, _ in read_decided(project / "project").labels})
    assert record["training"]["options"]["epochs"] == 1
    files = [indexed / "train.conll", indexed / "train_true.conll", "--test", indexed / "test.conll"]
    both = [*decisions, "--trusted", indexed / "dev.conll", "--retrain", "everything", "--json", tmp_path / "gain.json"]
    succeed("gain", tmp_path / "tagger", *files, *both)
    found = json.loads((tmp_path / "gain.json").read_text())
    assert found["num_trusted"] > record["further"]["num_sentences"]
    refused(
        tagtrace("gain", tmp_path / "tagger", *files, *decisions), "trusted is only used if everything is retrained"
    )
    undecided = write_project_file(tmp_path / "undecided", None, index=indexed / "index", data=indexed / "train.conll",
                                   audit=project / "audit")  # fmt: skip
    nothing = tagtrace("train", indexed / "train.conll", tmp_path / "other", "--decisions", undecided.folder)
    refused(nothing, "nothing was decided in this review")
    other = tagtrace("train", indexed / "dev.conll", tmp_path / "other", *decisions)
    refused(other, "its tokens are not those of the training data")


def test_without_decisions_little_is_sure(project: Path, indexed: Path, tmp_path: Path) -> None:
    target, findings = tmp_path / "fixed.conll", project / "audit" / "findings.jsonl"
    result = tagtrace("fix", indexed / "train.conll", findings, target, "--auto", "--risk", "0.01")
    assert result.exit_code == 0, result.output
    assert "no finding is sure enough" in " ".join(result.stdout.split())
    assert target.read_bytes() == (indexed / "train.conll").read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--auto", "--top", "3"], "--auto chooses by itself"),
        (["--auto", "--replay"], "--auto chooses by itself"),
        (["--risk", "0.1", "--all"], "--risk and --decisions are about --auto"),
        (["--auto", "--risk", "1.5"], "risk 1.5: must be at least 0 and below 1"),
        (["--auto", "--decisions", "nowhere"], "nowhere: has no project.json"),
    ],
)
def test_wrong_combinations_are_refused(
    options: list[str], message: str, project: Path, indexed: Path, tmp_path: Path
) -> None:
    target = tmp_path / "fixed.conll"
    findings = project / "audit" / "findings.jsonl"
    refused(tagtrace("fix", indexed / "train.conll", findings, target, *options), message)
    assert not target.exists()


@pytest.mark.parametrize("name", ["decisions.sqlite", "project.json"])
def test_files_of_the_review_are_never_overwritten(name: str, project: Path, indexed: Path) -> None:
    target, findings = project / "project" / name, project / "audit" / "findings.jsonl"
    before = target.read_bytes()
    options = ("--auto", "--decisions", project / "project", "--overwrite")
    refused(tagtrace("fix", indexed / "train.conll", findings, target, *options), "which is never overwritten")
    assert target.read_bytes() == before


@pytest.mark.parametrize(
    "damage",
    [
        "sentence_number = 999999", "sentence_number = -1", "given = 'notjson'", "labels = '[\"B-XYZ\"]'",
        "start = 500, stop = 501",
    ],
)  # fmt: skip
def test_damaged_decisions_are_refused(damage: str, project: Path, indexed: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "project", tmp_path / "project")
    with closing(sqlite3.connect(tmp_path / "project" / "decisions.sqlite")) as database:
        for (name,) in database.execute("select name from sqlite_master where type = 'trigger'").fetchall():
            database.execute(f"drop trigger {name}")
        database.execute(f"update decision set {damage}")
        database.commit()
    target, findings = tmp_path / "fixed.conll", project / "audit" / "findings.jsonl"
    asked = ("fix", indexed / "train.conll", findings, target, "--auto", "--decisions", tmp_path / "project")
    refused(tagtrace(*asked), "decisions")
    assert not target.exists()


@pytest.mark.parametrize("value", ["NaN", "1e999", "1" + "0" * 400])
def test_findings_with_impossible_numbers_are_refused(value: str, project: Path, indexed: Path, tmp_path: Path) -> None:
    lines = (project / "audit" / "findings.jsonl").read_text().splitlines()
    lines[0] = lines[0].replace('"doubt": 0.8', f'"doubt": {value}')
    bad = tmp_path / "bad.jsonl"
    bad.write_text("\n".join(lines))
    refused(
        tagtrace("fix", indexed / "train.conll", bad, tmp_path / "o.conll", "--auto"),
        "bad.jsonl",
        "give the findings.jsonl",
    )


def test_findings_of_the_same_rank_are_refused(project: Path, indexed: Path, tmp_path: Path) -> None:
    twice, lines = tmp_path / "twice.jsonl", (project / "audit" / "findings.jsonl").read_text()
    twice.write_text(lines + lines)
    refused(tagtrace("fix", indexed / "train.conll", twice, tmp_path / "o.conll", "--auto"), "have the rank 1")
