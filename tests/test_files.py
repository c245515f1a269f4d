"""Files appear complete or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tagtrace import _files
from tagtrace._checks import OptionError
from tagtrace._files import as_private_as, file_moved_when_whole, only_as_new, write_json
from tagtrace._pairs import moved_when_whole, pair_moved_when_whole
from tests.on_disk import fail_after, mode, names


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
    (tmp_path / "store" / "real").touch()
    for data in (b"first", b"second"):
        with file_moved_when_whole(tmp_path / "link") as stream:
            stream.write(data)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "store" / "real").read_bytes() == data


@pytest.mark.parametrize("write", [file_moved_when_whole, lambda path: moved_when_whole(path, None)])
def test_a_link_that_leads_nowhere_is_not_followed(tmp_path: Path, write: Any) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "somebody's" / "autostart")
    with pytest.raises(OptionError, match="is a link to a file that does not exist"), write(tmp_path / "out"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def write_both(one: Path) -> None:
    with pair_moved_when_whole(one, one.with_name("log")) as (data, log):
        data.write_text("data")
        log.write_text("log")


@pytest.mark.parametrize("write", [lambda path: write_json(path, 1), write_both])
@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_came_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Any, *, has_links: bool
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "link", lambda *_: fail_after(None, PermissionError))
    path = tmp_path / "out"
    with only_as_new([path]):
        path.write_text("somebody's")
        with pytest.raises(OptionError, match="was written by somebody else meanwhile"):
            write(path)
        assert path.read_text() == "somebody's"
        path.unlink()
        write(path)
        write(path)  # its own it may replace
    write(path)
    path.write_text("older")
    with only_as_new([path]):  # was there, so somebody has allowed it
        write(path)
    assert sorted(each.name for each in tmp_path.iterdir() if each.name != "log") == ["out"]


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


@pytest.mark.parametrize("private", [0o600, 0o640, 0o604])
def test_a_private_file_stays_private(tmp_path: Path, umask: int, private: int) -> None:
    old, source = tmp_path / "old", tmp_path / "source"
    for path in (old, source):
        path.write_bytes(b"")
        path.chmod(private)
    for path, known in ((old, None), (tmp_path / "new", source)):
        with file_moved_when_whole(path, source=known) as stream:
            stream.write(b"new")
    assert mode(old) == private
    assert mode(tmp_path / "new") & ~private & 0o044 == 0
    with as_private_as([source, tmp_path]), file_moved_when_whole(tmp_path / "made") as stream:
        stream.write(b"made")
    assert mode(tmp_path / "made") & ~private & 0o044 == 0
    (tmp_path / "after").write_bytes(b"")
    assert mode(tmp_path / "after") == 0o666 & ~umask


def test_a_pipe_that_nobody_reads_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="No such device"), file_moved_when_whole(pipe):
        pass
