"""The whole way with a folder as data: convert, check, train, index, audit, fix and its log, by the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tagtrace import read_corpus
from tagtrace.data.invented import generate, write_invented
from tests.cli.command import refused, succeed, tagtrace
from tests.data.formats.brat_standoff import files_of, parse

CPU = ("--device", "cpu")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("brat")
    write_invented(generate(num_documents=20, random_share=0.1), folder)
    for name in ("train", "dev"):
        succeed("data", "convert", folder / f"{name}.conll", folder / name, "--to", "brat")
    (folder / "train" / "guide.pdf").write_bytes(b"\0guide")
    return folder


def test_from_training_to_fixed_data(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)
    assert json.loads(succeed("data", "check", "train", "--json").stdout)[0]["format"] == "brat"
    succeed("train", "train", "tagger", "--dev", "dev", "--epochs", 3, *CPU)
    succeed("index", "tagger", "train", "index", "--seeds", 0, *CPU)
    heads = ("--judges", "head", "--folds", 2, "--most", 20, "--effects", 0, *CPU)
    succeed("audit", "index", "--out", "audit", *heads)
    finding = json.loads((here / "audit" / "findings.jsonl").read_text().splitlines()[0])
    assert finding["document"] in read_corpus("train").documents
    before = files_of(here / "train")
    result = succeed("fix", "train", "audit/findings.jsonl", "fixed", "--top", 5)
    assert "wrote fixed.changes.jsonl" in result.stdout
    after = files_of(here / "fixed")
    changed = {name for name in before if before[name] != after[name]}
    assert changed
    assert all(name.endswith(".ann") for name in changed)
    for name in changed:
        parse(after[name], after[f"{name[:-4]}.txt"])
    succeed("fix", "train", "fixed.changes.jsonl", "again", "--replay")
    assert files_of(here / "again") == after
    refused(tagtrace("fix", "train", "audit/findings.jsonl", "fixed", "--all"), "exists already")
    succeed("fix", "train", "audit/findings.jsonl", "fixed", "--all", "--overwrite")
    assert len((here / "fixed.changes.jsonl").read_text().splitlines()) > 5
    assert files_of(here / "train") == before
    refused(tagtrace("fix", "fixed", "fixed.changes.jsonl", "more", "--replay"), "it is already fixed")
    refused(tagtrace("fix", "train", "audit/findings.jsonl", "train/new", "--all"), "never changed")
    refused(tagtrace("fix", "train", "audit/findings.jsonl", "out", "--all", "--log", "train/log"), "never changed")
    refused(tagtrace("fix", "train", "audit/findings.jsonl", "tagger", "--all", "--overwrite"), "not replaced")
    assert (here / "tagger" / "tagger.json").exists() or any((here / "tagger").iterdir())


def test_what_is_made_of_private_files_is_private(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    succeed("data", "convert", here / "dev.conll", "data", "--to", "brat")
    os.chmod(next(Path("data").glob("*.txt")), 0o600)
    succeed("train", "data", "tagger", "--epochs", 1, *CPU)
    assert {path.stat().st_mode & 0o077 for path in Path("tagger").rglob("*")} == {0}
