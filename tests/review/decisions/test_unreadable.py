"""One row of the database that cannot be read, or that is not about the data, stops nothing: it is shown as such."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tagtrace._checks import DataError
from tagtrace.review import Decisions, Store
from tagtrace.review.review import _read  # pyright: ignore[reportPrivateUsage]
from tests.review.made import Client, light_data, light_review

GOOD: dict[str, Any] = {
    "time": "2026-01-01T00:00:00.000+00:00", "reviewer": "ada", "batch": "b", "action": "reject", "rank": 1,
    "audit": "made", "sentence_number": 0, "sentence": "train:0", "start": 0, "stop": 1, "given": '["B-LOC"]',
    "labels": None, "note": "", "base": None, "key": "bad", "undoes": None,
}  # fmt: skip
BAD: list[dict[str, Any]] = [
    {"given": "["}, {"given": "{}"}, {"given": "[1]"}, {"given": "null"}, {"given": "[" * 100_000}, {"given": "[]"},
    {"given": b"\xff"}, {"labels": "[[]]"}, {"labels": "1"}, {"labels": '["O", "O"]', "action": "relabel"},
    {"action": "relabel"}, {"action": "accept"}, {"action": "explode"}, {"action": ""}, {"action": b"\x00"},
    {"sentence_number": 10**6}, {"sentence_number": -1}, {"sentence_number": "many"}, {"sentence_number": 0.5},
    {"start": -1}, {"start": 1}, {"stop": 99, "given": '["O"]'}, {"stop": 2**62}, {"rank": "first"}, {"base": b"1"},
    {"time": b"\xff\xfe"}, {"reviewer": b""}, {"action": "undo"}, {"action": "redo"}, {"action": "undo", "batch": ""},
    {"action": "undo", "undoes": 1, "reviewer": "eve"}, {"action": "redo", "undoes": 1},
]  # fmt: skip


def insert(path: Path, row: dict[str, Any], text: bytes | None = None) -> None:
    """Write a row past the ledger, as another program might; ``text`` is its note in bytes that are not UTF-8."""
    with sqlite3.connect(path) as connection:
        names = ", ".join(row)
        connection.execute(f"insert into decision({names}) values ({', '.join('?' * len(row))})", list(row.values()))
    if text is not None:
        with sqlite3.connect(path) as connection:
            connection.execute("drop trigger decision_is_final")
            connection.execute("update decision set note = cast(? as text) where key = ?", (text, row["key"]))
    connection.close()


@pytest.mark.parametrize("change", BAD)
def test_one_bad_row_is_shown_and_stops_nothing(tmp_path: Path, change: dict[str, Any]) -> None:
    review = light_review(tmp_path)
    ada = Client(review)
    ada.decide(1, "reject")
    insert(review.decisions.store.path, {**GOOD, **change})
    ada.decide(2, "accept")
    for _ in range(2):  # as the server goes on, and when it is started again
        history = ada.get("history")
        assert [one["id"] for one in history["unreadable"]] == [2]
        assert [one["rank"] for one in history["items"]] == [2, 1]
        assert "cannot be read and do not count: 1, the first is 2" in ada.get("project")["note"]
        assert ada.statuses()["rejected"] == 1
        assert ada.post("export")["unreadable"] == 1
        for path in ("findings", "patterns", "changes", "teaching", "questions"):
            ada.get(path)
        ada.get("occurrences", rank=1)
        review.close()
        review = light_review(tmp_path)
        ada = Client(review)
    assert ada.post("undo")["undone"] == 1
    assert ada.post("redo")["redone"] == 1
    assert len(ada.get("history")["unreadable"]) == 1
    review.close()


def test_text_that_is_not_utf_8_is_escaped(tmp_path: Path) -> None:
    review = light_review(tmp_path)
    insert(review.decisions.store.path, {**GOOD, "action": "note"}, b"caf\xe9")
    (item,) = Client(review).get("history")["items"]
    assert item["note"] == "caf\\xe9"
    review.close()


def test_the_key_of_a_bad_row_cannot_be_used_again(tmp_path: Path) -> None:
    review = light_review(tmp_path)
    insert(review.decisions.store.path, {**GOOD, "given": "["})
    assert "decision 1 has this key and cannot be read" in Client(review).decide(1, key="bad", status=400)["error"]
    review.close()


@pytest.mark.parametrize("turn", ["undo", "redo"])
def test_no_decision_has_the_key_of_an_undo(ada: Client, turn: str) -> None:
    """Such a key made an undo report success without undoing anything."""
    assert "cannot begin with" in ada.decide(1, key=f"{turn}:U1:0", status=400)["error"]
    one = {"sentence_number": 0, "start": 0, "stop": 1, "rank": 1, "action": "reject"}
    assert "cannot begin with" in ada.post("decisions/bulk", {"decisions": [one], "key": f"{turn}:U1"}, 400)["error"]


def test_a_saved_decision_with_the_key_of_an_undo_is_not_one(tmp_path: Path) -> None:
    """Databases of earlier versions can have such rows."""
    review = light_review(tmp_path)
    ada = Client(review)
    ada.decide(1)
    insert(review.decisions.store.path, {**GOOD, "key": "undo:U1:0"})
    assert "was used for something else" in ada.post("undo", {"key": "U1"}, 409)["error"]
    assert ada.post("undo", {"key": "U2"})["undone"] == 1
    review.close()


def test_the_undo_of_another_reviewer_is_not_ones_own(ada: Client, bob: Client) -> None:
    ada.decide(1)
    bob.decide(2)
    assert ada.post("undo", {"key": "same"})["undone"] == 1
    assert "was used for something else" in bob.post("undo", {"key": "same"}, 409)["error"]
    assert bob.post("undo", {"key": "other"})["undone"] == 1


def test_a_decision_from_the_future_was_not_seen(ada: Client, bob: Client) -> None:
    """The base of a decision is one that was there before it; any other one would hide conflicts."""
    ada.decide(1, "accept")
    for base in (2, 10**9, 2**53):
        assert bob.decide(1, "reject", base=base)["conflict"], base
        bob.post("undo")
    assert not bob.decide(1, "reject", base=1)["conflict"]


def test_the_library_refuses_what_it_cannot_read(tmp_path: Path) -> None:
    """Data that is made from decisions has all of them, or is not made."""
    review = light_review(tmp_path)
    insert(review.decisions.store.path, {**GOOD, "given": "["})
    review.close()
    decisions = Decisions(light_data(tmp_path), Store(tmp_path / "decisions.sqlite"))
    with pytest.raises(DataError, match="decision 1: its labels: not valid JSON"):
        _read(decisions)
    decisions.store.close()
