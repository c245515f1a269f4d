"""Files and folders appear complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tagtrace import _files
from tagtrace._checks import OptionError
from tagtrace._files import check_replaceable, file_moved_when_whole, folder_moved_when_whole


@pytest.fixture(params=[0o022, 0o077, 0o002, 0o027])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fail_after(_: object, error: type[BaseException]) -> None:
    raise error


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


# Files


def test_a_file_takes_its_name_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "er" / "out.txt"
    with file_moved_when_whole(target) as stream:
        stream.write(b"whole")
        assert not target.exists()
    assert target.read_bytes() == b"whole"
    assert names(target.parent) == ["out.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_after_an_error_the_old_file_is_there_and_nothing_else(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "out.txt"
    for before in (None, b"old"):
        if before is not None:
            target.write_bytes(before)
        with pytest.raises(error), file_moved_when_whole(target) as stream:
            fail_after(stream.write(b"half"), error)
        assert (target.read_bytes() if target.exists() else None) == before
        assert names(tmp_path) == ["out.txt"] * (before is not None)


@pytest.mark.parametrize("function", ["fsync", "replace", "chmod"])
def test_a_failing_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    target = tmp_path / "out.txt"
    target.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_files.os, function, fail)
    with pytest.raises(OSError, match="No space"), file_moved_when_whole(target) as stream:
        stream.write(b"new")
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["out.txt"]


def test_a_file_has_ordinary_permissions(tmp_path: Path, umask: int) -> None:
    (tmp_path / "ordinary").write_bytes(b"")
    with file_moved_when_whole(tmp_path / "ours") as stream:
        stream.write(b"")
    assert mode(tmp_path / "ours") == mode(tmp_path / "ordinary") == 0o666 & ~umask


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "store" / "real")
    for data in (b"first", b"second"):
        with file_moved_when_whole(tmp_path / "link") as stream:
            stream.write(data)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "store" / "real").read_bytes() == data


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="is a folder"), file_moved_when_whole(tmp_path):
        pass


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with file_moved_when_whole(pipe) as stream:
        stream.write(b"through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert pipe.is_fifo()


# Folders


def test_a_folder_takes_its_name_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "out"
    with folder_moved_when_whole(target, marker="m") as aside:
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
    with pytest.raises(error), folder_moved_when_whole(target, overwrite=exists, marker="m") as aside:
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

    monkeypatch.setattr(_files.os, "replace", fail)
    with pytest.raises(OSError, match="Input/output"):  # noqa: SIM117
        with folder_moved_when_whole(target, overwrite=True, marker="m") as aside:
            (aside / "m").write_text("new")
    assert listing(tmp_path) == ["out", "out/m"]
    assert (target / "m").read_text() == "old"


def test_overwriting_replaces_everything(tmp_path: Path) -> None:
    target = tmp_path / "out"
    for name in ("first", "second"):
        with folder_moved_when_whole(target, overwrite=True, marker="m") as aside:
            (aside / "m").write_text(name)
            (aside / name).write_text(name)
    assert listing(tmp_path) == ["out", "out/m", "out/second"]
    with pytest.raises(OptionError, match="exists already"), folder_moved_when_whole(target, marker="m"):
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
            folder_moved_when_whole(tmp_path / name, overwrite=True, marker="m"),
        ):
            pass
    assert listing(tmp_path) == before
    with folder_moved_when_whole(tmp_path / "empty", overwrite=True, marker="m") as aside:
        (aside / "m").write_text("")
    assert (tmp_path / "empty" / "m").exists()


def test_a_folder_that_cannot_be_made_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="is not a folder that can be written to"):
        check_replaceable(tmp_path / "file" / "deep" / "out", overwrite=False, marker="m")
    check_replaceable(tmp_path / "new" / "deep" / "out", overwrite=False, marker="m")
    assert names(tmp_path) == ["file"]


def test_a_folder_and_all_in_it_have_ordinary_permissions(tmp_path: Path, umask: int) -> None:
    with folder_moved_when_whole(tmp_path / "out", marker="m") as aside:
        (aside / "sub").mkdir(mode=0o700)
        private = os.open(aside / "sub" / "m", os.O_CREAT | os.O_WRONLY, 0o600)
        os.close(private)
    assert [mode(tmp_path / "out" / name) for name in (".", "sub")] == [0o777 & ~umask] * 2
    assert mode(tmp_path / "out" / "sub" / "m") == 0o666 & ~umask
