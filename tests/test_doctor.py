"""The doctor finds whatever is damaged, says what to do, and repairs only what can be made again."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tagtrace.doctor import Health, examine
from tagtrace.index import open_index
from tagtrace.influence import Explainer
from tests.cli.command import refused, succeed, tagtrace
from tests.review.made import make_project

FILES = (".fixed.conll.abcd1234.tagtrace-part", ".out.json.abcd1234.tagtrace-part", ".config.original")
ERRORS, FINDINGS = "errors-00000.safetensors", "findings.jsonl"


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with data, tagger, index (with its curvature) and audit."""
    folder = make_project(tmp_path_factory.mktemp("doctor") / "project").folder
    assert Explainer(open_index(folder / "index")).exact
    assert (folder / "index" / "curvature").is_dir()
    return folder.rename(folder.with_name("moved"))


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "project"))


def found(health: Health) -> dict[str, str]:
    """The state of each thing, by its kind."""
    return {one.kind: one.state for one in health.symptoms}


def message(health: Health, state: str) -> str:
    (one,) = (one for one in health.symptoms if one.state == state)
    return f"{one.path}: {one.message}"


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


SOUND = {"project": "sound", "tagger": "sound", "index": "sound", "derived": "sound", "audit": "sound"}


def test_a_project_that_is_sound_is_not_changed(project: Path) -> None:
    examine(project)  # remembers which checksums were right
    before = snapshot(project)
    health = examine(project, repair=True)
    assert (found(health), health.is_sound) == (SOUND, True)
    assert snapshot(project) == before
    shown = succeed("doctor", project).stdout
    assert f"{project}: sound" in shown.replace("\n", "")
    assert json.loads(succeed("doctor", project, "--json").stdout)["is_sound"] is True


Damage = Callable[[Path], object]
CASES: dict[str, tuple[Damage, str, tuple[str, ...]]] = {
    "weights": (
        lambda at: flip_a_byte(at / "tagger" / "head.safetensors"), "tagger", ("head.safetensors", "checksum")
    ),
    "description": (lambda at: (at / "tagger" / "tagger.json").write_text("{"), "tagger", ("tagger.json",)),
    "errors": (lambda at: flip_a_byte(at / "index" / ERRORS), "index", (ERRORS, "checksum")),
    "no errors": (lambda at: (at / "index" / ERRORS).unlink(), "index", (ERRORS, "missing")),
    "data": (lambda at: flip_a_byte(at / "data" / "train.conll"), "data of the index", ("train.conll",)),
    "no tagger": (lambda at: shutil.rmtree(at / "tagger"), "tagger of the index", ("tagger",)),
    "findings": (lambda at: (at / "audit" / FINDINGS).write_text("{}\n"), "audit", (FINDINGS, "line 1")),
    "project": (lambda at: (at / "project.json").write_text('{"index": "x"}'), "project", ("project.json", "data")),
    "decisions": (lambda at: (at / "decisions.sqlite").write_bytes(b"rubbish" * 99), "decisions", ("not a database",)),
    "a pipe for decisions": (lambda at: os.mkfifo(at / "decisions.sqlite"), "decisions", ("is not a file",)),
    "a link for decisions": (
        lambda at: (at / "decisions.sqlite").symlink_to("absent"), "project", ("decisions.sqlite", "link")
    ),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "kind", "words"), CASES.values(), ids=CASES)
def test_damage_is_found_and_left_as_it_is(project: Path, damage: Damage, kind: str, words: tuple[str, ...]) -> None:
    damage(project)
    before = snapshot(project)
    health = examine(project, repair=True)
    assert not health.is_sound
    assert found(health)[kind] == "broken"
    (said,) = (f"{one.path} {one.message}" for one in health.symptoms if one.kind == kind)
    for word in words:
        assert word in said, said
    assert ";" in said or ":" in said
    assert snapshot(project) == before
    assert tagtrace("doctor", project).exit_code == 1


def test_what_only_saves_time_is_repaired_by_deleting_it(project: Path) -> None:
    flip_a_byte(project / "index" / "curvature" / "inverse.safetensors")
    assert found(examine(project))["derived"] == "repairable"
    assert tagtrace("doctor", project).exit_code == 1
    assert found(examine(project, repair=True))["derived"] == "repaired"
    assert not (project / "index" / "curvature").exists()
    health = examine(project)
    assert health.is_sound
    assert "derived" not in found(health)


def no_marker(folder: Path) -> None:
    (folder / "curvature.json").unlink()


def own_file(folder: Path) -> None:
    flip_a_byte(folder / "inverse.safetensors")
    (folder / "notes.txt").write_text("precious")


def own_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "notes.txt").write_text("precious")


def own_marker(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "curvature.json").write_text("precious")


def link(folder: Path) -> None:
    folder.rename(folder.parent.parent / "elsewhere")
    folder.symlink_to(folder.parent.parent / "elsewhere")


def file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("precious")


@pytest.mark.parametrize("change", [no_marker, own_file, own_folder, own_marker, link, file])
def test_what_may_be_somebodys_own_is_not_deleted(project: Path, change: Callable[[Path], None]) -> None:
    examine(project)
    change(project / "index" / "curvature")
    before = snapshot(project)
    health = examine(project, repair=True)
    assert found(health)["derived"] == "broken"
    assert message(health, "broken").endswith("move it elsewhere")
    assert snapshot(project) == before


def test_a_run_that_was_killed_before_it_wrote_anything(project: Path) -> None:
    shutil.rmtree(project / "index" / "curvature")
    (project / "index" / "curvature").mkdir()
    (project / "index" / "curvature" / ".curvature.json.abcd1234.tagtrace-part").write_text("{")
    assert examine(project).is_sound


def test_only_folders_are_those_of_killed_runs(project: Path) -> None:
    (project / ".x.0123abcd.tagtrace-new").write_text("precious")
    (project / ".y.0123abcd.tagtrace-new").symlink_to(project / "index")
    before = snapshot(project)
    assert examine(project, repair=True).is_sound
    assert {path: text for path, (_, text) in snapshot(project).items() if "verified" not in path} == {
        path: text for path, (_, text) in before.items() if "verified" not in path
    }


def test_files_of_killed_runs_are_deleted_once_they_are_old(project: Path) -> None:
    old, young, mine = (project / name for name in FILES)
    for path in (old, young, mine):
        path.write_text("x")
    os.utime(mine, (0, 0))
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    assert message(examine(project), "repairable").startswith(str(old))
    assert tagtrace("doctor", project, "--repair").exit_code == 0
    assert (old.exists(), young.exists(), mine.exists()) == (False, True, True)


def test_folders_of_killed_runs_beside_what_was_named(project: Path) -> None:
    left, other = (project.parent / f".{name}.0123abcd.tagtrace-new" for name in ("project", "another"))
    for path in (left, other):
        path.mkdir()
    assert message(examine(project), "repairable").startswith(str(left))
    assert examine(project, repair=True).is_sound
    assert (left.exists(), other.exists()) == (False, True)


def test_an_older_folder_gets_its_name_back(project: Path) -> None:
    project.rename(project.parent / ".project.0123abcd.tagtrace-old")
    refused(tagtrace("doctor", project), str(project), "not a folder")
    assert examine(project, repair=True).is_sound
    assert found(examine(project)) == SOUND


def test_interrupted_runs_are_named(project: Path) -> None:
    for name, marker in (("index.building", "progress.json"), ("tagger.checkpoint", "state.json")):
        (project / name).mkdir()
        (project / name / marker).write_text("{}")
    health = examine(project)
    assert health.is_sound
    assert [one.path.name for one in health.symptoms if one.state == "unfinished"] == [
        "index.building", "tagger.checkpoint"
    ]  # fmt: skip


def test_a_folder_without_anything(tmp_path: Path) -> None:
    refused(tagtrace("doctor", tmp_path), str(tmp_path), "no tagger, index, audit or project")
