"""The database of decisions: append-only, shared by several processes."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from tagtrace._checks import DataError
from tagtrace.review import DecisionRequest, Store
from tests.review.made import Client, light_review


def test_rows_cannot_be_changed_or_deleted(ada: Client) -> None:
    ada.decide(1)
    connection = sqlite3.connect(ada.review.decisions.store.path)
    assert connection.execute("pragma journal_mode").fetchone() == ("wal",)
    for statement in ("delete from decision", "update decision set action = 'reject'"):
        with pytest.raises(sqlite3.IntegrityError, match="never"):
            connection.execute(statement)
    connection.close()
    (mode,) = ada.review.decisions.store._connection.execute("pragma synchronous").fetchone()
    assert mode == 2  # FULL


def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "decisions.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(DataError, match=r"decisions\.sqlite: not a database of decisions .*; repair it"):
        Store(tmp_path / "decisions.sqlite")


def everything(folder: Path) -> dict[str, bytes]:
    """All files but the memory that SQLite shares between processes."""
    return {path.name: path.read_bytes() for path in folder.glob("decisions.sqlite*") if path.suffix != ".sqlite-shm"}


def test_reading_only_changes_no_file_and_sees_every_decision(tmp_path: Path) -> None:
    path, client = tmp_path / "decisions.sqlite", Client(light_review(tmp_path))
    client.decide(1)
    before = everything(tmp_path)  # while a page is open, rows are in the write-ahead log
    store = Store(path, read_only=True)
    assert [row.rank for row in store.after(0)] == [1]
    store.close()
    assert everything(tmp_path) == before
    client.review.close()
    before = everything(tmp_path)
    assert list(before) == ["decisions.sqlite"]
    store = Store(path, read_only=True)
    assert [row.rank for row in store.after(0)] == [1]
    store.close()
    assert everything(tmp_path) == before


def test_reading_only_creates_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "decisions.sqlite", read_only=True)
    assert store.after(0) == []
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_two_servers_of_one_project_lose_nothing(tmp_path: Path) -> None:
    """Two connections to one file, as two processes have, each used by two threads."""
    clients = [Client(light_review(tmp_path, name), name) for name in ("ada", "bob")]

    def work(client: Client, ranks: range) -> None:
        for rank in ranks:
            client.decide(rank, "accept", key=f"{client.headers['X-Reviewer']}-{rank}")

    threads = [
        threading.Thread(target=work, args=(client, ranks))
        for client in clients
        for ranks in (range(1, 25), range(25, 49))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        assert client.get("history")["total"] == 96
        assert client.statuses()["accepted"] == 48
        assert client.get("project")["undo"] == 48
        assert client.get("project")["conflicts"] == 0
    clients[0].post("undo")
    assert clients[1].statuses()["accepted"] == 48  # bob's decision is still in force


def test_lone_surrogates_are_refused_in_a_request(ada: Client) -> None:
    body = b'{"rank":1,"sentence_number":0,"start":0,"stop":1,"action":"note","note":"\\ud800"}'
    headers = {**ada.headers, "Content-Type": "application/json"}
    response = ada.http.post("/api/decisions", content=body, headers=headers)
    assert response.status_code == 400
    assert response.json()["error"].startswith("note is not valid")
    assert ada.get("history")["total"] == 0


def test_lone_surrogates_are_stored_as_escapes(ada: Client) -> None:
    """SQLite cannot store them, and a caller in Python can pass them."""
    ada.review.decisions.decide("ada", [DecisionRequest("note", 0, 0, 1, note="\ud800")])
    assert [row.note for row in ada.review.decisions.store.after(0)] == ["\\ud800"]


def test_databases_of_a_development_version_are_read(tmp_path: Path) -> None:
    """They call the column ``sentence_number`` ``chain``."""
    review = light_review(tmp_path)
    Client(review).decide(2)
    review.close()
    connection = sqlite3.connect(tmp_path / "decisions.sqlite")
    connection.execute("alter table decision rename column sentence_number to chain")
    connection.close()
    for _ in range(2):  # renamed once, and readable afterwards
        again = light_review(tmp_path)
        assert Client(again).get("findings/2")["status"] == "accepted"
        again.close()


def test_a_setting_keeps_its_first_value(tmp_path: Path) -> None:
    store = Store(tmp_path / "decisions.sqlite")
    assert store.setting("name", "first") == store.setting("name", "second") == "first"
    store.close()
