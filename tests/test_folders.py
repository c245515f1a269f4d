"""Folders appear complete or not at all, and only folders of their kind are replaced."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tagtrace import _folders
from tagtrace._checks import OptionError
from tagtrace._folders import (
    Product,
    check_movable,
    check_own,
    check_replaceable,
    files_replaced_together,
    folder_moved_when_whole,
    restore_folder,
)
from tests.every_step import every_kill, killed_in_a_fork
from tests.on_disk import fail_after, mode, names

PRODUCT = Product("m", ("m", "first", "second", "sub/m"))


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_folder_takes_its_name_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "out"
    with folder_moved_when_whole(target, product=PRODUCT) as aside:
        (aside / "m").write_text("whole")
        assert not target.exists()
    assert listing(tmp_path) == ["deep", "deep/out", "deep/out/m"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("exists", [False, True])
def test_after_an_error_the_old_folder_is_there_and_nothing_else(
    tmp_path: Path, error: type[BaseException], exists: bool
) -> None:
    target = tmp_path / "out"
    if exists:
        target.mkdir()
        (target / "m").write_text("old")
    before = listing(tmp_path)
    with pytest.raises(error), folder_moved_when_whole(target, overwrite=exists, product=PRODUCT) as aside:
        fail_after((aside / "m").write_text("half"), error)
    assert listing(tmp_path) == before
    assert not exists or (target / "m").read_text() == "old"


@pytest.mark.parametrize("failing", [1, 2])
def test_a_failing_move_leaves_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "m").write_text("old")
    replace, calls = os.replace, []

    def fail(source: Path, destination: Path) -> None:
        calls.append(source)
        if len(calls) == failing:
            raise OSError(5, "Input/output error")
        replace(source, destination)

    monkeypatch.setattr(_folders, "_exchange", lambda *_: False)
    monkeypatch.setattr(_folders.os, "replace", fail)
    with pytest.raises(OSError, match="Input/output"):  # noqa: SIM117
        with folder_moved_when_whole(target, overwrite=True, product=PRODUCT) as aside:
            (aside / "m").write_text("new")
    assert listing(tmp_path) == ["out", "out/m"]
    assert (target / "m").read_text() == "old"


def test_overwriting_replaces_everything(tmp_path: Path) -> None:
    target = tmp_path / "out"
    for name in ("first", "second"):
        with folder_moved_when_whole(target, overwrite=True, product=PRODUCT) as aside:
            (aside / "m").write_text(name)
            (aside / name).write_text(name)
    assert listing(tmp_path) == ["out", "out/m", "out/second"]
    with pytest.raises(OptionError, match="exists already"), folder_moved_when_whole(target, product=PRODUCT):
        pass


def test_only_a_folder_of_its_kind_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis").write_text("precious")
    (tmp_path / "empty").mkdir()
    before = listing(tmp_path)
    for name in ("file", "folder"):
        with (
            pytest.raises(OptionError, match="has no m, so it is not replaced"),
            folder_moved_when_whole(tmp_path / name, overwrite=True, product=PRODUCT),
        ):
            pass
    assert listing(tmp_path) == before
    with folder_moved_when_whole(tmp_path / "empty", overwrite=True, product=PRODUCT) as aside:
        (aside / "m").write_text("")
    assert (tmp_path / "empty" / "m").exists()


def test_a_folder_that_cannot_be_made_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="is not a folder that can be written to"):
        check_replaceable(tmp_path / "file" / "deep" / "out", overwrite=False, product=PRODUCT)
    check_replaceable(tmp_path / "new" / "deep" / "out", overwrite=False, product=PRODUCT)
    assert names(tmp_path) == ["file"]


def test_a_link_that_leads_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OptionError, match="is a link to a folder that does not exist"):
        check_movable(tmp_path / "loop")


def test_a_folder_and_all_in_it_have_ordinary_permissions(tmp_path: Path, umask: int) -> None:
    with folder_moved_when_whole(tmp_path / "out", product=PRODUCT) as aside:
        (aside / "sub").mkdir(mode=0o700)
        private = os.open(aside / "sub" / "m", os.O_CREAT | os.O_WRONLY, 0o600)
        os.close(private)
    assert [mode(tmp_path / "out" / name) for name in (".", "sub")] == [0o777 & ~umask] * 2
    assert mode(tmp_path / "out" / "sub" / "m") == 0o666 & ~umask


# What is not of the product, and what is an input


def made(folder: Path, content: str = "old") -> Path:
    with folder_moved_when_whole(folder, overwrite=True, product=PRODUCT) as aside:
        (aside / "sub").mkdir()
        (aside / "sub" / "m").write_text(content)
        (aside / "m").write_text(content)
    return folder


@pytest.mark.parametrize("name", ["notes.txt", "sub/notes.txt", "sub/deep/m", "sub/first", ".notes.txt.bak"])
def test_files_of_the_user_are_never_deleted(tmp_path: Path, name: str) -> None:
    note = made(tmp_path / "out") / name
    note.parent.mkdir(exist_ok=True)
    note.write_text("precious")
    with pytest.raises(OptionError, match=rf"out/{name}: was not written by tagtrace.*move it"):
        check_replaceable(tmp_path / "out", overwrite=True, product=PRODUCT)
    assert note.read_text() == "precious"


def test_links_of_the_user_are_never_deleted(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (made(tmp_path / "out") / "data").symlink_to(tmp_path / "data")
    with pytest.raises(OptionError, match=r"out/data: was not written by tagtrace"):
        made(tmp_path / "out")


def test_files_that_come_while_the_work_is_done_are_not_deleted(tmp_path: Path) -> None:
    target = made(tmp_path / "out")

    def work() -> None:
        with folder_moved_when_whole(target, overwrite=True, product=PRODUCT):
            (target / "notes.txt").write_text("precious")

    with pytest.raises(OptionError, match=r"notes\.txt: was not written by tagtrace"):
        work()
    assert listing(tmp_path) == ["out", "out/m", "out/notes.txt", "out/sub", "out/sub/m"]


@pytest.mark.parametrize("can_exchange", [True, False])
@pytest.mark.parametrize("write", [folder_moved_when_whole, files_replaced_together])
def test_files_that_come_while_a_folder_is_exchanged_are_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[..., Any], can_exchange: bool
) -> None:
    target, exchange = made(tmp_path / "out"), _folders._exchange

    def late(aside: Path, path: Path) -> bool:
        (target / "deep").mkdir()
        for name in ("notes.txt", "deep/notes.txt"):
            (target / name).write_text("precious")
        return can_exchange and exchange(aside, path)

    monkeypatch.setattr(_folders, "_exchange", late)
    with write(target, product=PRODUCT, **({"overwrite": True} if write is folder_moved_when_whole else {})) as aside:
        (aside / "m").write_text("new")
    assert (target / "m").read_text() == "new"
    assert names(tmp_path) == ["out"]
    for name in ("notes.txt", "deep/notes.txt"):
        assert (target / name).read_text() == "precious"


def test_what_killed_runs_left_in_a_folder_is_of_the_product(tmp_path: Path) -> None:
    target = made(tmp_path / "out")
    for name in (".m.x1y2z3.tagtrace-part", ".first.tagtrace-part", "sub/.m.tagtrace-part"):
        (target / name).write_text("half")
    (target / ".sub.01234567.tagtrace-new").mkdir()
    (target / ".sub.01234567.tagtrace-new" / "anything").write_text("half")
    made(target, "new")
    assert listing(tmp_path) == ["out", "out/m", "out/sub", "out/sub/m"]


@pytest.mark.parametrize("name", ["out", "out/m", "link", "link/m", "linked", "out/sub/../m", "out/data.conll"])
def test_a_folder_with_an_input_in_it_is_refused(tmp_path: Path, name: str) -> None:
    made(tmp_path / "out")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    (tmp_path / "linked").symlink_to(tmp_path / "out" / "m")
    for folder in ("out", "link"):
        with pytest.raises(OptionError, match=rf"{folder}: .*{name} \(TRAIN\) is in this folder; choose another"):
            check_replaceable(tmp_path / folder, overwrite=True, product=PRODUCT, inputs={"TRAIN": tmp_path / name})
    check_replaceable(tmp_path / "out", overwrite=True, product=PRODUCT, inputs={"TRAIN": tmp_path / "other"})


# Kills


def whole(folder: Path) -> str:
    """The content of a whole folder; fails if it is not whole."""
    assert listing(folder) == ["m", "sub", "sub/m"]
    content = (folder / "m").read_text()
    assert (folder / "sub" / "m").read_text() == content
    return content


@pytest.mark.parametrize("can_exchange", [True, False])
@pytest.mark.parametrize("stays_dead", [True, False])
def test_a_kill_at_any_step_leaves_the_old_or_the_new_folder(
    tmp_path: Path, stays_dead: bool, can_exchange: bool
) -> None:
    target, number = tmp_path / "out", 0
    for own in (".out.bak", ".out.01234567.tagtrace-mine"):
        (tmp_path / own).mkdir()

    def prepare() -> None:
        assert whole(made(target)) == "old"

    prepare()
    before = listing(tmp_path)
    for _ in every_kill(prepare, lambda: made(target, "new"), stays_dead=stays_dead, can_exchange=can_exchange):
        number += 1
        assert not can_exchange or target.is_dir(), "there is a folder at every moment"
        restore_folder(target)
        assert whole(target) in ("old", "new")
        assert whole(made(target, "new")) == "new"
        assert listing(tmp_path) == before, "nothing is left over, and nothing of the user's is lost"
    assert number > 10


@pytest.mark.parametrize("stays_dead", [True, False])
def test_a_kill_at_any_step_leaves_no_folder_or_a_whole_one(tmp_path: Path, stays_dead: bool) -> None:
    target = tmp_path / "deep" / "out"

    def prepare() -> None:
        shutil.rmtree(tmp_path / "deep", ignore_errors=True)

    for _ in every_kill(prepare, lambda: made(target), stays_dead=stays_dead, can_exchange=True):
        assert not target.exists() or whole(target) == "old"
        assert whole(made(target)) == "old"
        assert names(tmp_path / "deep") == ["out"]


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_process_that_ends_at_any_step_leaves_the_old_or_the_new_folder(tmp_path: Path, can_exchange: bool) -> None:
    target = made(tmp_path / "out")
    for step in range(1, 100, 3):
        made(target)
        if not killed_in_a_fork(step, lambda: made(target, "new"), can_exchange=can_exchange):
            break
        restore_folder(target)
        assert whole(target) in ("old", "new")
        assert whole(made(target, "new")) == "new"
        assert names(tmp_path) == ["out"]
    else:
        pytest.fail("the run has too many steps")


def test_the_folders_of_a_running_process_stay(tmp_path: Path) -> None:
    target = made(tmp_path / "out")
    with folder_moved_when_whole(target, overwrite=True, product=PRODUCT) as aside:
        (aside / "m").write_text("slow")
        assert whole(made(target, "fast")) == "fast"
        assert (aside / "m").read_text() == "slow"
    assert (target / "m").read_text() == "slow"
    assert names(tmp_path) == ["out"]


def test_an_old_folder_is_kept_while_nothing_whole_has_its_name(tmp_path: Path) -> None:
    old = made(tmp_path / "out").rename(tmp_path / ".out.01234567.tagtrace-old")
    (tmp_path / "out").mkdir()
    with folder_moved_when_whole(tmp_path / "out", overwrite=True, product=PRODUCT) as aside:
        (aside / "m").write_text("new")
        assert whole(old) == "old"


def test_where_folders_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is taken for a left-over, because its process may be running."""
    monkeypatch.setattr(_folders, "fcntl", None)
    left = tmp_path / ".out.0123abcd.tagtrace-new"
    left.mkdir()
    with folder_moved_when_whole(tmp_path / "out", product=PRODUCT) as aside:
        (aside / "m").write_text("whole")
    assert listing(tmp_path) == [left.name, "out", "out/m"]


def linked(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir()
    folder.symlink_to("elsewhere")


def linked_to_nothing(folder: Path) -> None:
    folder.symlink_to("nowhere")


def with_a_file(folder: Path) -> None:
    folder.mkdir()
    (folder / "authorized_keys").write_text("precious")


def with_a_linked_marker(folder: Path) -> None:
    with_a_file(folder)
    (folder / "m").symlink_to("authorized_keys")


def a_file(folder: Path) -> None:
    folder.write_text("precious")


@pytest.mark.parametrize("make", [linked, linked_to_nothing, with_a_file, with_a_linked_marker, a_file])
def test_a_folder_of_our_own_that_is_somebody_elses_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "own")
    with pytest.raises(OptionError, match=r"own: (is a link, .*; remove it|was not written by .*; move it elsewhere)"):
        check_own(tmp_path / "own", ("m",))


def test_a_folder_of_our_own_may_be_new_empty_or_written_before(tmp_path: Path) -> None:
    own = tmp_path / "own"
    check_own(own, ("m",))
    own.mkdir()
    check_own(own, ("m",))
    (own / ".DS_Store").write_text("of a file manager")
    check_own(own, ("m",))
    with_a_file(own := tmp_path / "other")
    (own / "m").write_text("{}")
    check_own(own, ("m",))


def test_a_link_that_looks_like_what_a_killed_run_left_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".own.01234567.tagtrace-old").symlink_to("elsewhere")
    restore_folder(tmp_path / "own")
    assert not (tmp_path / "own").is_symlink()


@pytest.mark.parametrize("kind", ["new", "old"])
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("elsewhere")])
def test_a_pipe_or_a_link_with_such_a_name_is_left_alone(
    tmp_path: Path, kind: str, make: Callable[[Path], object]
) -> None:
    """Opening a pipe would wait for ever."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "notes.txt").write_text("precious")
    left = tmp_path / f".out.0123abcd.tagtrace-{kind}"
    make(left)
    restore_folder(tmp_path / "out")
    assert (made(tmp_path / "out") / "m").read_text() == "old"
    assert listing(tmp_path) == [left.name, "elsewhere", "elsewhere/notes.txt", "out", "out/m", "out/sub", "out/sub/m"]


@pytest.mark.parametrize(
    ("old", "made", "expected"), [(0o666, 0o600, 0o600), (0o666, 0o644, 0o664), (0o600, 0o644, 0o600)]
)
def test_files_that_are_replaced_are_no_wider_than_what_is_new(
    tmp_path: Path, old: int, made: int, expected: int
) -> None:
    own = tmp_path / "own"
    own.mkdir(mode=0o755)
    (own / "m").write_text("old")
    (own / "m").chmod(old)
    with files_replaced_together(own, Product("m", ("m",))) as aside:
        (aside / "m").write_text("new")
        (aside / "m").chmod(made)
    assert mode(own / "m") == expected


@pytest.mark.parametrize("kind", ["link", "file", "folder"])
def test_what_is_in_the_way_is_refused_before_anything_is_replaced(tmp_path: Path, kind: str) -> None:
    """A received project may have a link in place of a folder that an export writes."""
    folder, product = tmp_path / "export", Product("log", ("log", "data/*"))
    name = "log" if kind == "folder" else "data"
    (folder / "mine").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    if kind == "link":
        (folder / name).symlink_to(tmp_path / "outside")
    elif kind == "file":
        (folder / name).write_text("precious")
    else:
        (folder / name).mkdir()
    before = listing(tmp_path)

    def write() -> None:
        with files_replaced_together(folder, product) as aside:
            (aside / "log").write_text("new")
            (aside / "data").mkdir()

    with pytest.raises(OptionError, match=f"{name}: is in the way"):
        write()
    assert listing(tmp_path) == before
