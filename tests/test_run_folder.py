"""A folder belongs to one run: it resumes, any other run is refused, and damaged files are not used."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tagtrace._checks import OptionError, TrainingError
from tagtrace._folders import Product
from tagtrace._run_folder import RunFolder
from tests.on_disk import fail_after

MARKER = "run.json"
PRODUCT = Product(MARKER, (MARKER, "a", "b", "sub/a", "sub/b", "sub/c"))
OWNER: dict[str, Any] = {"data": "abc", "options": {"l2": 1.0, "places": (1, 2)}}
ONES, TWOS = {"x": torch.ones(3)}, {"x": torch.full((3,), 2.0)}


def run_folder(folder: Path, owner: dict[str, Any] | None = None, **options: Any) -> RunFolder:
    return RunFolder(folder, MARKER, owner or OWNER, "results", **{"product": PRODUCT, **options})


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_new_run_begins_and_the_same_run_resumes(tmp_path: Path) -> None:
    first = run_folder(tmp_path / "deep" / "run")
    assert not first.has_begun
    assert first.open() is first
    assert first.has_begun
    assert not first.has("a")
    first.add({"a": ONES, "sub/b": TWOS}, step=3)
    again = run_folder(tmp_path / "deep" / "run").open()
    assert again.has("a", "sub/b")
    assert not again.has("a", "c")
    assert again.notes == {"step": 3}
    assert again.files == first.files
    for name, expected in (("a", ONES), ("sub/b", TWOS)):
        tensors = again.read(name)
        assert tensors is not None
        assert torch.equal(tensors["x"], expected["x"])
    again.add({}, step=4, loss=0.5)
    assert run_folder(tmp_path / "deep" / "run").open().notes == {"step": 4, "loss": 0.5}


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    run_folder(tmp_path).open()
    assert names(tmp_path) == [MARKER]


@pytest.mark.parametrize(
    ("owner", "changed"),
    [
        (OWNER | {"data": "xyz"}, "data"),
        (OWNER | {"options": {"l2": 2.0, "places": (1, 2)}}, "options"),
        (OWNER | {"data": "xyz", "seed": 1}, "data, seed"),
        ({"data": "abc"}, "version"),
    ],
)
def test_another_run_is_refused_and_changes_nothing(tmp_path: Path, owner: dict[str, Any], changed: str) -> None:
    run_folder(tmp_path / "run").open().add({"a": ONES})
    before = (tmp_path / "run" / MARKER).read_bytes()
    other = run_folder(tmp_path / "run", owner, error=TrainingError, remedy="try something else")
    with pytest.raises(TrainingError) as caught:
        other.open()
    message = f"{tmp_path / 'run'}: results of another run (different {changed}); try something else"
    assert str(caught.value) == message
    assert (tmp_path / "run" / MARKER).read_bytes() == before
    assert names(tmp_path / "run") == ["a", MARKER]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        "3",
        "{}",
        '{"owner": {}, "notes": {}}',
        "[" * 100_000,
        '{"owner": {}, "notes": {}, "files": [{"name": "../x", "num_bytes": 1, "sha256": ""}]}',
        '{"owner": {}, "notes": {}, "files": [{"name": 3}]}',
    ],
)
def test_a_damaged_marker_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    run_folder(tmp_path / "run").open()
    (tmp_path / "run" / MARKER).write_text(content)
    with pytest.raises(OptionError, match=r"run\.json: .*; move the folder elsewhere, or choose") as caught:
        run_folder(tmp_path / "run").open()
    assert "\n" not in str(caught.value)


def test_a_marker_that_is_not_text_is_refused(tmp_path: Path) -> None:
    run_folder(tmp_path / "run").open()
    (tmp_path / "run" / MARKER).write_bytes(b"\xff\xfe")
    with pytest.raises(OptionError, match="not valid JSON"):
        run_folder(tmp_path / "run").open()


@pytest.mark.parametrize("damage", ["missing", "shorter", "changed"])
def test_a_damaged_or_missing_file_is_not_read(tmp_path: Path, damage: str) -> None:
    run_folder(tmp_path / "run").open().add({"a": ONES, "b": TWOS})
    path = tmp_path / "run" / "a"
    if damage == "missing":
        path.unlink()
    elif damage == "shorter":
        os.truncate(path, path.stat().st_size - 1)
    else:
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    run = run_folder(tmp_path / "run").open()
    assert run.read("a") is None
    assert run.read("b") is not None
    assert run.read("never written") is None
    assert run.has("a") == (damage == "changed"), "sizes are compared when a run resumes, contents when a file is read"


def test_a_file_is_used_only_once_the_marker_lists_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_folder(tmp_path / "run").open()
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run.add({"a": ONES})
    assert (tmp_path / "run" / "a").is_file()
    again = run_folder(tmp_path / "run").open()
    assert not again.has("a")
    assert again.read("a") is None


KILLED = """
import os, signal
from pathlib import Path
from tests.test_run_folder import ONES, TWOS, run_folder
from tagtrace import _tensor_files
run = run_folder(Path({folder!r})).open()
run.add({{"a": ONES}}, step=1)
def killed(tensors, path, *_):
    path.write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
_tensor_files.save_file = killed
run.add({{"b": TWOS}}, step=2)
"""


def test_a_run_that_was_killed_resumes_with_its_complete_files(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    program = [sys.executable, "-c", KILLED.format(folder=str(folder))]
    killed = subprocess.run(program, env=environment, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    left, *others = names(folder)  # and what is in it
    assert re.fullmatch(r"\.b\.[0-9a-f]{8}\.tagtrace-new", left)
    assert others == [f"{left}/b", "a", MARKER]
    run = run_folder(folder).open()
    assert run.has("a")
    assert not run.has("b")
    assert run.notes == {"step": 1}
    run.add({"b": TWOS}, step=2)
    assert names(folder) == ["a", "b", MARKER]


def test_a_run_has_begun_before_its_first_file_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that adds files without having been opened, as training does, is known for this run's when it is killed."""
    run = run_folder(tmp_path / "run")
    monkeypatch.setattr("tagtrace._run_folder.write_tensors", lambda *_: fail_after(None, KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run.add({"a": ONES})
    monkeypatch.undo()
    again = run_folder(tmp_path / "run").open()
    again.add({"a": ONES})
    assert again.has("a")


@pytest.mark.parametrize("name", ["link/precious", "notes.txt", "sub/deeper/x.safetensors"])
def test_a_marker_that_came_from_somebody_else_names_no_other_files(tmp_path: Path, name: str) -> None:
    """Files in it are deleted once they are not needed any more."""
    run = run_folder(tmp_path / "run", product=Product(MARKER, (MARKER, "*/*", "*.safetensors"))).open()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run" / "link").symlink_to("../elsewhere")
    (tmp_path / "elsewhere" / "precious").write_text("mine")
    marker = tmp_path / "run" / MARKER
    saved = json.loads(marker.read_text())
    marker.write_text(json.dumps({**saved, "files": [{"name": name, "num_bytes": 4, "sha256": "0"}]}))
    with pytest.raises(OptionError, match="is not a file that tagtrace wrote here"):
        run_folder(tmp_path / "run", product=run.product).open()
    with pytest.raises(OptionError, match="is not a file that tagtrace wrote here"):
        run.add({"link/precious": ONES})
    assert (tmp_path / "elsewhere" / "precious").read_text() == "mine"


def test_forgotten_files_are_deleted_with_their_empty_folders(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run").open()
    run.add({"a": ONES, "sub/b": ONES, "sub/c": ONES})
    run.forget(["a", "sub/b", "never written"])
    run.save()
    assert names(tmp_path / "run") == [MARKER, "sub", "sub/c"]
    again = run_folder(tmp_path / "run").open()
    assert list(again.files) == ["sub/c"]
    again.forget(again.files)
    again.save()
    assert names(tmp_path / "run") == [MARKER]
    assert run_folder(tmp_path / "run").open().files == {}


def test_a_foreign_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text("precious")
    (tmp_path / "file").write_text("precious")
    for name in ("folder", "file"):
        with pytest.raises(OptionError, match=rf"{name}: exists and has no run\.json; move it or choose another"):
            run_folder(tmp_path / name).open()
    assert names(tmp_path) == ["file", "folder", "folder/thesis.txt"]


def test_a_removed_run_is_gone(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run").open()
    run.add({"sub/a": ONES})
    run.remove()
    assert names(tmp_path) == []
    run.remove()


def test_a_marker_names_no_file_of_somebody_else_for_deletion(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run").open()
    run.add({"a": ONES})
    (tmp_path / "run" / "notes.txt").write_text("precious")
    marker = json.loads((tmp_path / "run" / MARKER).read_text())
    marker["files"].append({**marker["files"][0], "name": "notes.txt", "num_bytes": 8})
    (tmp_path / "run" / MARKER).write_text(json.dumps(marker))
    assert not run.is_own
    run.remove()
    assert names(tmp_path / "run") == ["notes.txt"]


@pytest.mark.parametrize("do", ["open", "remove", "resume_or_check"])
def test_a_folder_that_nobody_named_is_not_reached_through_a_link(tmp_path: Path, do: str) -> None:
    run_folder(tmp_path / "victim").open().add({"a": ONES})
    (tmp_path / "run").symlink_to("victim")
    before = names(tmp_path / "victim")
    with pytest.raises(OptionError, match="run: is a link, which is not followed; remove it"):
        getattr(run_folder(tmp_path / "run", is_unasked=True), do)()
    assert names(tmp_path / "victim") == before
    run_folder(tmp_path / "run").open()  # somebody named it


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give a folder away")
def test_a_folder_that_nobody_named_is_not_that_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its contents would become part of a result, whoever made them."""
    run_folder(tmp_path / "run").open().add({"a": ONES})
    os.chown(tmp_path / "run", 65534, 65534)
    with pytest.raises(OptionError, match="results of another user; choose another folder"):
        run_folder(tmp_path / "run", is_unasked=True).open()
    assert run_folder(tmp_path / "run").open().has("a")
    monkeypatch.setattr("tagtrace._run_folder._own_uid", lambda _: 65534)  # a disk that shows all files as somebody's
    assert run_folder(tmp_path / "run", is_unasked=True).open().has("a")


@pytest.mark.parametrize("name", ["*", "notes.*", "[n]otes.txt", "?otes.txt"])
def test_a_name_in_a_marker_is_not_a_pattern(tmp_path: Path, name: str) -> None:
    run = run_folder(tmp_path / "run").open()
    (tmp_path / "run" / "notes.txt").write_text("precious")
    marker = json.loads((tmp_path / "run" / MARKER).read_text())
    marker["files"] = [{"name": name, "num_bytes": 1, "sha256": "0"}]
    (tmp_path / "run" / MARKER).write_text(json.dumps(marker))
    run.remove()
    assert names(tmp_path / "run") == ["notes.txt"]


def test_a_marker_that_is_a_link_is_replaced_and_what_it_links_to_is_not(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / MARKER).symlink_to(tmp_path / "victim")
    run_folder(tmp_path / "run").save()
    assert (tmp_path / "victim").read_text() == "precious"
    assert run_folder(tmp_path / "run").open().has_begun


def test_the_marker_is_readable_json(tmp_path: Path) -> None:
    run_folder(tmp_path / "run", {"name": "Zürich"}).open().add({"a": ONES}, step=1)
    saved = json.loads((tmp_path / "run" / MARKER).read_text(encoding="utf-8"))
    assert saved["owner"] == {"name": "Zürich"}
    assert saved["notes"] == {"step": 1}
    assert [file["name"] for file in saved["files"]] == ["a"]
