"""Files appear complete or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tagtrace import _files
from tagtrace._checks import OptionError
from tagtrace._files import as_private_as, file_moved_when_whole
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
