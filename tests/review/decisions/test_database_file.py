"""A database of decisions may come from anybody: nothing in it is run, and nothing is read or written elsewhere."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tagtrace._checks import DataError
from tagtrace.review import DecisionRequest, Decisions, Store
from tagtrace.review.decisions import database_file
from tests.on_disk import mode
from tests.review.made import Client, light_data, light_review

ENDLESS = "with recursive c(x) as (select 1 union all select x + 1 from c)"
A_NOTE = {"sentence_number": 0, "start": 0, "stop": 1, "action": "note", "note": "x" * 9000}
NAMES_ANOTHER = b"\0" * 512 + b"/home/me/precious" + bytes.fromhex("d9d505f920a163d7")


def make(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


def a_database(tmp_path: Path) -> Path:
    """One with a decision that was closed."""
    review = light_review(tmp_path)
    Client(review).decide(1)
    review.close()
    return review.decisions.store.path


FOREIGN = {
    "a trigger": "create trigger evil before insert on decision begin select raise(ignore); end",
    "another trigger of the same name": "drop trigger decision_is_kept; create trigger decision_is_kept before delete "
    f"on decision begin insert into setting {ENDLESS} select x, zeroblob(1000000) from c; end",
    "a view": f"create view evil as {ENDLESS} select x from c",
    "a view in the place of a table": f"drop table setting; create view setting as {ENDLESS} select 'data' name, "
    "x value from c where x < 0",
    "a table": "create table evil(x)",
    "another table of the same name": "drop table setting; create table setting(name, value)",
    "an index": "create index evil on decision(note)",
    "a name for the terminal": 'create table "\x1b]0;evil"(x)',
}


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("script", FOREIGN.values(), ids=FOREIGN)
def test_a_schema_that_is_not_ours_is_refused(tmp_path: Path, script: str, read_only: bool) -> None:
    path = make(a_database(tmp_path), script)
    before = path.read_bytes()
    with pytest.raises(DataError, match="is not one that a review makes; move it away") as raised:
        Store(path, read_only=read_only)
    assert "\x1b" not in str(raised.value)
    assert path.read_bytes() == before


def test_the_database_of_another_program_stays_as_it_is(tmp_path: Path) -> None:
    path = make(tmp_path / "decisions.sqlite", "create table bookmark(address)")
    before = path.read_bytes()
    with pytest.raises(DataError, match="its table bookmark is not one that a review makes"):
        Store(path)
    assert path.read_bytes() == before


def test_triggers_that_were_dropped_are_made_again(tmp_path: Path) -> None:
    path = make(a_database(tmp_path), "drop trigger decision_is_kept")
    Store(path).close()
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError, match="never deleted"):
        connection.execute("delete from decision")


def test_a_row_that_is_not_added_is_no_decision(tmp_path: Path) -> None:
    """Another program may add a trigger while the page is open."""
    ada = Client(light_review(tmp_path))
    make(tmp_path / "decisions.sqlite", FOREIGN["a trigger"])
    assert "could not be saved (the row was not added)" in ada.decide(1, status=500)["error"]


def test_only_a_decision_that_may_be_saved_soon_is_to_be_repeated(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page repeats what gets status 503 for as long as it takes."""
    for error, status in (
        (sqlite3.OperationalError("database is locked"), 503),
        (sqlite3.DatabaseError("malformed"), 500),
    ):
        monkeypatch.setattr(Store, "add", lambda *_, error=error: (_ for _ in ()).throw(error))
        assert "nothing was changed" in ada.decide(1, status=status)["error"]
    monkeypatch.undo()
    assert ada.decide(1)["id"] == 1


def a_link(path: Path) -> None:
    make(path.parent / "other.db", "create table bookmark(address)")
    path.symlink_to("other.db")


def a_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def a_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("put", [a_link, a_dangling_link, a_folder, os.mkfifo])
def test_only_ordinary_files_are_opened(tmp_path: Path, put: Callable[[Path], None], end: str, read_only: bool) -> None:
    path = tmp_path / "decisions.sqlite" if not end else a_database(tmp_path)
    put(path.with_name(path.name + end))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(DataError, match=f"decisions.sqlite{end}: is a link, a pipe or something else .*; move it away"):
        Store(path, read_only=read_only)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("read_only", [False, True])
def test_a_journal_that_names_another_file_is_refused(tmp_path: Path, read_only: bool) -> None:
    """SQLite deletes that file once it has rolled the journal back."""
    path = a_database(tmp_path)
    (tmp_path / "decisions.sqlite-journal").write_bytes(NAMES_ANOTHER)
    with pytest.raises(DataError, match="sqlite-journal: was not left by a review"):
        Store(path, read_only=read_only)


@pytest.mark.parametrize("folder", ["file:", "file:decisions?mode=memory#"])
def test_the_name_of_a_folder_is_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path(folder).mkdir()
    with closing(Store(Path(folder) / "decisions.sqlite")) as store:
        assert store.setting("name", "value") == "value"
    assert (tmp_path / folder / "decisions.sqlite").is_file()
    with closing(Store(Path(folder) / "decisions.sqlite", read_only=True)) as store:
        assert store.setting("name", "other") == "value"


@pytest.fixture(params=[0o022, 0o002, 0o000])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_decisions_are_private_from_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, modes, connect = tmp_path / "decisions.sqlite", list[int](), sqlite3.connect

    def connecting(name: str, **options: Any) -> sqlite3.Connection:
        modes.extend([mode(path)] if name == str(path) else [])
        return connect(name, **options)

    monkeypatch.setattr(sqlite3, "connect", connecting)
    store = Store(path)
    store.setting("name", "value")
    assert modes == [0o600]
    assert {file.name: mode(file) for file in tmp_path.iterdir()} == {
        "decisions.sqlite": 0o600, "decisions.sqlite-wal": 0o600, "decisions.sqlite-shm": 0o600
    }  # fmt: skip
    store.close()


@pytest.mark.parametrize(
    ("old", "new"), [(0o644, 0o600), (0o666, 0o660), (0o664, 0o660), (0o640, 0o600), (0o400, 0o400)]
)
def test_older_databases_become_private_when_they_are_opened_to_decide(tmp_path: Path, old: int, new: int) -> None:
    """What the group may write was given to it."""
    review = light_review(tmp_path)
    Client(review).decide(1)
    files = [tmp_path / f"decisions.sqlite{end}" for end in ("", "-wal", "-shm")]
    for file in files:
        file.chmod(old)
    Store(files[0], read_only=True).close()
    assert [mode(file) for file in files] == [old] * 3
    Store(files[0]).close()
    assert [mode(file) for file in files] == [new] * 3
    review.close()


def test_a_text_without_end_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_file, "MAX_TEXT", 10_000)
    path = a_database(tmp_path)
    make(path, "insert into decision select 9, '', '', '', 'skip', null, '', 0, '', 0, 1, '[]', null, "
         "printf('%.*c', 20000, 'x'), null, 'k', null")  # fmt: skip
    with closing(Store(path)) as store, pytest.raises(sqlite3.DataError, match="too big"):
        store.after(0)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool) -> None:
    path = a_database(tmp_path)
    monkeypatch.setattr(database_file, "MAX_BYTES", path.stat().st_size - 1)
    with pytest.raises(DataError, match=r"larger than .* bytes"):
        Store(path, read_only=read_only)


def test_a_log_that_claims_a_large_database_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write-ahead log of a few bytes says how many pages there are, and a copy would have them all."""
    ada = Client(light_review(tmp_path))
    ada.decide(1)
    monkeypatch.setattr(database_file, "_checked", lambda path: path)
    monkeypatch.setattr(database_file, "MAX_BYTES", 4096)
    with pytest.raises(DataError, match=r"larger than .* bytes"):
        Store(ada.review.decisions.store.path, read_only=True)


def test_pages_that_lead_to_each_other_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of the table that is in it three times, as a bomb of a few pages with billions of rows would have it."""
    path = a_database(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (root,) = connection.execute("select rootpage from sqlite_master where name = 'decision'").fetchone()
        connection.execute("pragma journal_mode = delete")
        connection.execute("create table spare(x)")
        (spare,) = connection.execute("select rootpage from sqlite_master where name = 'spare'").fetchone()
        connection.execute("pragma writable_schema = on")
        connection.execute("delete from sqlite_master where name = 'spare'")
    pages = bytearray(path.read_bytes())
    leaf = pages[(root - 1) * 4096 : root * 4096]
    pages[(spare - 1) * 4096 : spare * 4096] = leaf
    cells = b"".join(spare.to_bytes(4, "big") + bytes([1]) for _ in range(2))
    offsets = b"".join((4096 - len(cells) + 5 * number).to_bytes(2, "big") for number in range(2))
    head = bytes([5, 0, 0, 0, 2]) + (4096 - len(cells)).to_bytes(2, "big") + b"\0" + spare.to_bytes(4, "big")
    pages[(root - 1) * 4096 : root * 4096] = (head + offsets).ljust(4096 - len(cells), b"\0") + cells
    path.write_bytes(pages)
    with pytest.raises(DataError, match="damaged"):
        Store(path)
    monkeypatch.setattr(Store, "_damage", lambda _: None)
    with closing(Store(path)) as store, pytest.raises(DataError, match="its rows are not in order"):
        store.after(0)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_damaged_page_is_met_at_once_and_not_when_a_decision_is_saved(tmp_path: Path, read_only: bool) -> None:
    path = a_database(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        index = "select rootpage from sqlite_master where type = 'index' and tbl_name = 'decision'"
        (page,) = connection.execute(index).fetchone()
        connection.execute("pragma wal_checkpoint(truncate)")
    pages = bytearray(path.read_bytes())
    pages[(page - 1) * 4096 + 8 : page * 4096] = bytes(4088)
    path.write_bytes(pages)
    with pytest.raises(DataError, match=r"damaged \(.*restore a copy"):
        Store(path, read_only=read_only)


def test_two_processes_that_begin_a_project_at_once_make_one_database(tmp_path: Path) -> None:
    light_review(tmp_path).close()
    for file in tmp_path.glob("decisions.sqlite*"):
        file.unlink()
    found, data = list[object](), light_data(tmp_path)

    def begin() -> None:
        try:
            with closing(Store(tmp_path / "decisions.sqlite")) as store:
                found.append(Decisions(data, store).unreadable)
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [{}] * 4


def test_what_would_not_be_opened_again_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = Client(light_review(tmp_path))
    monkeypatch.setattr(database_file, "MAX_BYTES", 200_000)
    monkeypatch.setattr(database_file, "RESERVE", 50_000)
    num_saved = 0
    while "error" not in (answer := ada.http.post("/api/decisions", json=A_NOTE, headers=ada.headers).json()):
        num_saved += 1
    assert "has no room for more decisions" in answer["error"]
    assert "\n" not in answer["error"]
    assert ada.get("history")["total"] == num_saved > 5
    ada.review.close()
    again = Client(light_review(tmp_path))
    assert again.get("history")["total"] == num_saved
    assert again.post("export")["changed"] == 0
    again.review.close()


@pytest.mark.parametrize("text", ["x" * 20_000, "x" * 5_000])
def test_a_text_that_is_too_long_to_be_read_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(database_file, "MAX_TEXT", 5_100)
    decisions = light_review(tmp_path).decisions
    with pytest.raises(DataError, match=r"the decision cannot be saved \(string or blob too big\)"):
        decisions.decide("ada", [DecisionRequest("note", 0, 0, 1, note=text)])
    assert [row.id for row in decisions.decide("ada", [DecisionRequest("skip", 0, 0, 1)])] == [1]
    decisions.store.close()


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("number", [2**63 - 1, 2**53 + 10, database_file.MAX_ID + 1, 0, -1])
def test_rows_with_ids_that_are_never_given_are_refused(tmp_path: Path, number: int, read_only: bool) -> None:
    """After the largest id, SQLite gives rows any free one; pages know only ids below 2**53; ids begin at 1."""
    path = a_database(tmp_path)
    make(path, f"drop trigger decision_is_final; update decision set id = {number}")
    with pytest.raises(DataError, match=rf"damaged \(its rows have the ids .*{number}.*\); restore a copy"):
        Store(path, read_only=read_only)


@pytest.mark.parametrize("number", [2**63 - 1, database_file.MAX_ID])
def test_a_decision_that_would_have_such_an_id_is_not_acknowledged(tmp_path: Path, number: int) -> None:
    """Another program may write while the page is open."""
    ada = Client(light_review(tmp_path))
    ada.decide(1)
    values = "'', 'eve', '', 'skip', null, '', 0, '', 0, 1, '[\"B-LOC\"]', null, '', null, 'k', null"
    make(tmp_path / "decisions.sqlite", f"insert into decision select {number}, {values}")
    for _ in range(2):
        response = ada.http.post("/api/decisions", json=A_NOTE, headers=ada.headers)
        assert response.status_code in (400, 500)
    assert [one["id"] for one in ada.get("history")["items"]] == [number, 1]
    ada.review.close()


def test_a_decision_that_cannot_be_read_again_is_not_acknowledged(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = SimpleNamespace(dumps=lambda value: json.dumps([*value, 1]))
    monkeypatch.setattr("tagtrace.review.decisions.database.json", wrong)
    assert "could not be read again, so nothing was changed" in ada.decide(1, status=400)["error"]
    monkeypatch.undo()
    assert ada.get("history") == {"total": 0, "items": [], "unreadable": []}
    assert ada.decide(1)["id"] == 1
    assert ada.get("history")["unreadable"] == []


def test_ids_follow_each_other(ada: Client) -> None:
    assert ada.decide(1)["id"] == 1
    ada.decide(2, labels=["O"], status=400)
    assert [ada.decide(rank)["id"] for rank in (2, 3)] == [2, 3]
