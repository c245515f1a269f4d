"""``tagtrace demo`` with few documents; ``tests/test_readme.py`` runs it in its full size."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tagtrace import ReadOptions, load_tagger, read_corpus
from tagtrace.data.invented import generate
from tests.cli.command import refused, succeed, tagtrace


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the demo of few documents."""
    monkeypatch.setattr("tagtrace.demo.generate", lambda seed: generate(seed, num_documents=20))


@pytest.mark.usefixtures("small")
def test_a_demo_replaces_an_earlier_one(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    succeed("demo", "--out", folder)
    (folder / "decisions.sqlite").write_text("precious")
    refused(tagtrace("demo", "--out", folder), "decisions.sqlite: was not written by tagtrace")
    assert (folder / "decisions.sqlite").read_text() == "precious"
    (folder / "decisions.sqlite").unlink()
    (folder / "data" / "train.conll").write_text("old")
    result = succeed("demo", "--out", folder)
    for part in (
        "Planted in train",
        "test (true labels)",
        "supporters are planted errors",
        f"Everything is in {folder}",
    ):
        assert part in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]
    load_tagger(folder / "tagger")
    assert read_corpus(folder / "data" / "train.conll", ReadOptions(scheme="iob2")).sentences
    assert (folder / "project.json").is_file()


@pytest.mark.usefixtures("small")
def test_the_commands_that_are_named_can_be_run(tmp_path: Path) -> None:
    printed = succeed("demo", "--out", tmp_path / "demo").stdout
    commands = [shlex.split(line)[1:] for line in printed.splitlines() if line.startswith("  tagtrace ")]
    assert [command[0] for command in commands] == ["review", "explain", "audit"]
    for command in commands[1:]:  # the first one waits for a browser
        succeed(*command)
    assert tmp_path / "demo" == Path(commands[0][1])


@pytest.mark.usefixtures("small")
def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").write_text("years")
    assert tagtrace("demo", "--out", tmp_path / "mine").exit_code == 1
    assert (tmp_path / "mine" / "thesis").read_text() == "years"
