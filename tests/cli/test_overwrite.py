"""Folders that a command replaces: never one that an input is in, and nothing that tagtrace did not write."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.command import refused, succeed, tagtrace

CPU = ("--device", "cpu")


@pytest.fixture
def here(indexed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a tagger, its index and data."""
    for name in ("tagger", "index"):
        shutil.copytree(indexed / name, tmp_path / name)
    for name in ("train.conll", "dev.conll"):
        shutil.copy(indexed / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


COMMANDS = {
    "train": ("train", "train.conll", "tagger"),
    "refit": ("refit", "other", "train.conll", "tagger"),
    "index": ("index", "tagger", "train.conll", "index", "--seeds", "0"),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("place", ["notes.txt", "encoder/notes.txt", "whole/notes.txt", "link"])
def test_a_file_of_the_user_in_out_is_named_and_kept(here: Path, name: str, place: str) -> None:
    out = Path(COMMANDS[name][3 if name != "train" else 2])
    shutil.copytree("tagger", "other")
    (out / place).parent.mkdir(exist_ok=True)
    if place == "link":
        (out / place).symlink_to(here / "dev.conll")
    else:
        (out / place).write_text("precious")
    before = contents(here)
    refused(tagtrace(*COMMANDS[name], "--overwrite", *CPU), str(out / place), "not written by tagtrace", "move it")
    assert contents(here) == before


@pytest.mark.parametrize("link", [False, True])
def test_an_input_in_out_is_refused_and_kept(here: Path, link: bool) -> None:
    for name in ("tagger", "index"):
        shutil.copy("train.conll", Path(name) / "train.conll")
    Path("linked.conll").symlink_to("tagger/train.conll")
    Path("linked").symlink_to("tagger")
    inside = "linked.conll" if link else "tagger/train.conll"
    tagger = "linked" if link else "tagger"
    before = contents(here)
    for command, out, what in (
        (("train", inside, "tagger"), "tagger", "TRAIN"),
        (("train", "train.conll", "tagger", "--dev", inside), "tagger", "--dev"),
        (("train", "train.conll", "tagger", "--trusted", inside), "tagger", "--trusted"),
        (("train", "train.conll", "tagger", "--encoder", f"vectors:{inside}"), "tagger", "--encoder"),
        (("refit", tagger, "train.conll", "tagger"), "tagger", "TAGGER"),
        (("refit", "index", inside, "tagger"), "tagger", "TRAIN"),
        (("index", "tagger", "index/train.conll", "index"), "index", "TRAIN"),
        (("index", tagger, "train.conll", "tagger"), "tagger", "TAGGER"),
    ):
        refused(tagtrace(*command, "--overwrite", *CPU), f"{out}: ", f"({what}) is in this folder")
    assert contents(here) == before


@pytest.mark.parametrize("restart", [(), ("--restart",)])
def test_a_checkpoint_of_somebody_else_is_kept(here: Path, restart: tuple[str, ...]) -> None:
    theirs = here / "out.checkpoint"
    (theirs / "step-3").mkdir(parents=True)
    for name, text in (("state.json", '{"country": "Bavaria"}'), ("step-3/weights.txt", "precious")):
        (theirs / name).write_text(text)
    before = contents(here)
    refused(
        tagtrace("train", "train.conll", "out", "--epochs", 1, *restart, *CPU),
        "state.json: the key owner is missing; move",
    )
    assert contents(here) == before
    (theirs / "state.json").unlink()
    refused(tagtrace("train", "train.conll", "out", "--epochs", 1, *restart, *CPU), "out.checkpoint: exists and has no")
    assert (theirs / "step-3" / "weights.txt").read_text() == "precious"


@pytest.mark.parametrize("restart", [(), ("--restart",)])
def test_a_building_of_somebody_else_is_kept(here: Path, restart: tuple[str, ...]) -> None:
    theirs = here / "out.building"
    theirs.mkdir()
    (theirs / "progress.json").write_text('{"floors": 3}')
    before = contents(here)
    refused(
        tagtrace("index", "tagger", "train.conll", "out", *restart, *CPU),
        "progress.json: the key owner is missing; move",
    )
    (theirs / "plan.dwg").write_text("precious")
    refused(tagtrace("index", "tagger", "train.conll", "out", *restart, *CPU), "plan.dwg: was not written by tagtrace")
    (theirs / "plan.dwg").unlink()
    assert contents(here) == before


def test_nothing_is_lost_where_no_checkpoint_is_needed(here: Path, data: Path) -> None:
    (here / "out.checkpoint").mkdir()
    (here / "out.checkpoint" / "state.json").write_text("{}")
    succeed("train", data / "train.conll", "out", "--encoder", f"precomputed:{data}/arrays", *CPU)
    assert (here / "out.checkpoint" / "state.json").read_text() == "{}"
