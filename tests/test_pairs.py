"""Two files appear together, or the second run does what a killed one left to do."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tagtrace._checks import OptionError
from tagtrace._pairs import finish_pairs, pair_moved_when_whole
from tagtrace.data import read_corpus
from tagtrace.findings.fix import Change, replay
from tests.every_step import every_kill, killed_in_a_fork

OLD, NEW = (b"old data", b"old log"), (b"new data", b"new log")


def write(data: Path, log: Path) -> None:
    with pair_moved_when_whole(data, log) as (one, other):
        one.write_bytes(NEW[0])
        other.write_bytes(NEW[1])


def contents(data: Path, log: Path) -> tuple[bytes | None, bytes | None]:
    return (data.read_bytes() if data.exists() else None, log.read_bytes() if log.exists() else None)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.fixture(params=["beside", "elsewhere"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "logs").mkdir()
    return tmp_path / "data.conll", tmp_path / ("data.log" if request.param == "beside" else "logs/log")


@pytest.mark.parametrize("before", [(None, None), OLD])
@pytest.mark.parametrize("stays_dead", [False, True])
def test_a_kill_at_any_step(
    places: tuple[Path, Path], tmp_path: Path, before: tuple[bytes | None, ...], stays_dead: bool
) -> None:
    data, log = places

    def prepare() -> None:
        for path, content in zip(places, before, strict=True):
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)

    seen = set[object]()
    for _ in every_kill(prepare, lambda: write(data, log), stays_dead=stays_dead, can_exchange=True):
        if not stays_dead:  # Ctrl-C leaves nothing but what belongs to a log that is there
            assert contents(data, log)[1] == NEW[1] or not list(tmp_path.glob("**/*.tagtrace-pair"))
        finish_pairs(places)
        assert contents(data, log) in (before, NEW)
        seen.add(contents(data, log))
        write(data, log)
        assert contents(data, log) == NEW
        assert names(tmp_path) == sorted([data.name, log.name])
    assert seen == {before, NEW}


def test_a_process_that_ends_between_the_two(places: tuple[Path, Path]) -> None:
    found = list[tuple[bytes | None, bytes | None]]()
    for step in range(1, 60):
        for path in places:
            path.unlink(missing_ok=True)
        if not killed_in_a_fork(step, lambda: write(*places), can_exchange=True):
            break
        found.append(contents(*places))
        finish_pairs(places)
        assert contents(*places) in ((None, None), NEW)
    assert (None, NEW[1]) in found, "no kill between the two files"
    assert (NEW[0], None) not in found


def test_what_waits_for_another_log_is_left_until_it_is_old(tmp_path: Path) -> None:
    data, log, other = tmp_path / "data", tmp_path / "log", tmp_path / f".data.{'0' * 16}.0.tagtrace-pair"
    log.write_bytes(b"mine")
    other.write_bytes(b"precious for a minute")
    finish_pairs((data, log))
    assert (data.exists(), other.exists()) == (False, True)
    os.utime(other, (time.time() - 8 * 24 * 3600, time.time() - 8 * 24 * 3600))
    finish_pairs((data, log))
    assert (data.exists(), other.exists()) == (False, False)


def test_data_that_came_after_a_kill_is_not_replaced(places: tuple[Path, Path]) -> None:
    found = 0
    for step in range(1, 60):
        for path in places:
            path.unlink(missing_ok=True)
        if not killed_in_a_fork(step, lambda: write(*places), can_exchange=True):
            break
        if contents(*places) == (None, NEW[1]):
            places[0].write_bytes(b"somebody's")
            with pytest.raises(OptionError, match="was written by somebody else after a run was killed"):
                finish_pairs(places)
            assert places[0].read_bytes() == b"somebody's"
            places[0].unlink()
            finish_pairs(places)
            assert contents(*places) == NEW
            found += 1
    assert found > 0, "no kill between the two files"


def test_a_fix_that_was_killed_is_finished_by_the_next(tmp_path: Path) -> None:
    path, out = tmp_path / "train.conll", tmp_path / "out.conll"
    path.write_text("sea\tO\nsang\tO\n")
    change = Change(1, "train:0", 1, 0, 1, ("sea",), ("O",), ("B-LOC",))
    log = tmp_path / "out.conll.changes.jsonl"
    save: Callable[[], object] = lambda: replay(read_corpus(path), [change]).save(out)  # noqa: E731
    for step in range(1, 60):
        for each in (out, log):
            each.unlink(missing_ok=True)
        if not killed_in_a_fork(step, save, can_exchange=True):
            break
        if log.exists():  # all that could go wrong has gone right
            with pytest.raises(OptionError, match="exists already"):
                save()
        else:
            save()
        assert out.read_text() == "sea\tB-LOC\nsang\tO\n"
        assert log.read_text().count("\n") == 1
    else:
        raise AssertionError("too many steps")


def write_folder(data: Path, log: Path) -> None:
    with pair_moved_when_whole(data, log) as (one, other):
        (one / "in").mkdir(parents=True)
        (one / "in" / "file").write_bytes(NEW[0])
        other.write_bytes(NEW[1])


@pytest.mark.parametrize("before", [(None, None), OLD])
@pytest.mark.parametrize("stays_dead", [False, True])
@pytest.mark.parametrize("can_exchange", [False, True])
def test_a_folder_and_its_log(
    tmp_path: Path, before: tuple[bytes | None, ...], stays_dead: bool, can_exchange: bool
) -> None:
    data, log = tmp_path / "corpus", tmp_path / "log"

    def prepare() -> None:
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        if before[0] is not None and before[1] is not None:
            (data / "in").mkdir(parents=True)
            (data / "in" / "file").write_bytes(before[0])
            log.write_bytes(before[1])

    seen = set[object]()
    for _ in every_kill(prepare, lambda: write_folder(data, log), stays_dead=stays_dead, can_exchange=can_exchange):
        finish_pairs((data, log))
        found = contents(data / "in" / "file", log)
        assert found in (before, NEW)
        seen.add(found)
        write_folder(data, log)
        assert contents(data / "in" / "file", log) == NEW
        assert names(tmp_path) == ["file", "log"]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "log"]
    assert seen == {before, NEW}


def test_a_folder_and_a_file_do_not_replace_each_other(tmp_path: Path) -> None:
    data, log = tmp_path / "data", tmp_path / "log"
    data.mkdir()
    with pytest.raises(OptionError, match="do not replace each other"):
        write(data, log)
    data.rmdir()
    data.write_bytes(b"old")
    with pytest.raises(OptionError, match="do not replace each other"):
        write_folder(data, log)
    assert names(tmp_path) == ["data"]


def test_permissions_are_kept(tmp_path: Path) -> None:
    data, log = tmp_path / "data", tmp_path / "log"
    data.write_bytes(b"old")
    data.chmod(0o640)
    with pair_moved_when_whole(data, log) as (one, other):
        one.write_bytes(b"new")
        other.write_bytes(b"new")
    assert data.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_data_without_its_log_is_not_written(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(OLD[0])
    with pytest.raises(OSError, match="space"):
        write(data, Path("/dev/full"))
    assert data.read_bytes() == OLD[0]
    write(data, Path("/dev/null"))
    assert names(tmp_path) == ["data"]
    assert data.read_bytes() == NEW[0]
