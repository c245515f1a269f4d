"""Decisions are saved once, undone and redone without limit, and refused if they are not valid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tagtrace._checks import DataError
from tagtrace.review import Decisions
from tagtrace.review.decisions import decide
from tests.review.made import Client, light_data, light_review


def test_a_decision_is_saved_and_shown(ada: Client) -> None:
    answer = ada.decide(1, key="a", note="clearly a club")
    assert answer == {"id": 1, "version": 1, "conflict": False, "status": "accepted", "rank": 1, "base": 1}
    found = ada.get("findings/1")
    assert found["status"] == "accepted"
    assert found["note"] == "clearly a club"
    assert found["decided"]["labels"] == found["proposed"]
    assert found["decided"]["reviewer"] == "ada"
    assert found["sentence_tokens"] == ["Club0", "beat", "New", "Delft", "Town", "."]
    assert ada.statuses() == {"open": 47, "accepted": 1, "rejected": 0, "skipped": 0}


def test_the_same_key_is_the_same_decision(ada: Client, bob: Client) -> None:
    first, second = ada.decide(1, key="once"), ada.decide(1, key="once")
    assert first["id"] == second["id"]
    assert ada.get("history")["total"] == 1
    assert "another decision" in ada.decide(2, key="once", status=409)["error"]
    bob.decide(1, key="once", status=409)


def test_other_boundaries_and_other_labels(ada: Client) -> None:
    """Finding 2 is ``New Delft Town``; only ``Delft Town`` is relabelled."""
    ada.decide(2, "relabel", start=3, stop=5, labels=["B-LOC", "I-LOC"])
    decided = ada.get("findings/2")["decided"]
    assert (decided["start"], decided["stop"], decided["labels"]) == (3, 5, ["B-LOC", "I-LOC"])
    ada.decide(2, "relabel", start=2, stop=5, labels=["B-LOC", "I-LOC", "I-LOC"])
    with ada.review.decisions.reading() as ledger:
        assert {t: label for t, (label, _) in ledger.wanted(0).items()} == {2: "B-LOC", 3: "I-LOC", 4: "I-LOC"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": ["I-ORG", "I-ORG", "O"]}, "starts a segment"),
        ({"labels": ["B-ORG", "I-LOC", "O"]}, "starts a segment"),
        ({"labels": ["B-ORG", "O"]}, "2 labels for 3 tokens"),
        ({"labels": ["B-ORG", "O", "B-CITY"]}, "unknown label 'B-CITY'"),
        ({"labels": None}, "needs labels"),
        ({"stop": 99}, "not a segment"),
        ({"start": -1}, "start is not valid"),
        ({"sentence_number": 1}, "no finding 2 in training sentence 1"),
        ({"sentence_number": 10**9, "rank": None}, "numbers are 0 to 39"),
        ({"rank": 4000}, "no finding 4000"),
        ({"action": "accept", "labels": ["O", "O", "O"]}, "relabel it to choose others"),
        ({"action": "delete"}, "action"),
        ({"sentence_number": "0"}, "sentence_number"),
        ({"sentence_number": True}, "sentence_number"),
        ({"labels": [1, 2, 3]}, "labels"),
        ({"note": "x" * 20_000}, "note"),
    ],
)
def test_invalid_decisions_are_refused(ada: Client, change: dict[str, object], message: str) -> None:
    body = {"rank": 2, "sentence_number": 0, "start": 2, "stop": 5, "action": "relabel", "labels": ["O"] * 3, **change}
    response = ada.http.post("/api/decisions", json=body, headers=ada.headers)
    assert response.status_code in (400, 404)
    assert list(response.json()) == ["error"]
    assert message in response.json()["error"]
    assert "\n" not in response.json()["error"]
    assert ada.get("history")["total"] == 0


def test_labels_may_continue_what_was_decided_before_them(ada: Client) -> None:
    ada.post("decisions", {"sentence_number": 1, "start": 2, "stop": 3, "action": "relabel", "labels": ["O"]})
    body = {"sentence_number": 1, "start": 3, "stop": 5, "action": "relabel", "labels": ["I-ORG", "I-ORG"]}
    assert "starts a segment" in ada.post("decisions", body, 400)["error"]
    ada.post("undo")
    ada.post("decisions", body)


def test_a_new_decision_replaces_the_earlier_one_when_labels_are_checked(ada: Client) -> None:
    """Finding 2 is ``New Delft Town``, B-ORG I-ORG I-ORG."""
    ada.decide(2)  # O B-LOC I-LOC
    ada.decide(2, "relabel", start=3, stop=5, labels=["I-ORG", "I-ORG"])  # New is B-ORG again
    ada.decide(2, "relabel", labels=["B-LOC", "I-LOC", "I-LOC"])
    answer = ada.decide(2, "relabel", start=3, stop=5, labels=["I-LOC", "I-LOC"], status=400)
    assert "starts a segment" in answer["error"]


def test_decisions_made_together_are_checked_together(ada: Client) -> None:
    first, second = (
        {"sentence_number": 1, "start": place, "stop": place + 1, "action": "relabel", "labels": [label]}
        for place, label in ((4, "B-LOC"), (5, "I-LOC"))
    )
    assert "starts a segment" in ada.post("decisions", second, 400)["error"]
    ada.post("decisions/bulk", {"decisions": [second, first]})
    assert ada.post("undo")["undone"] == 2
    wrong = {**first, "labels": ["B-ORG"]}
    assert "starts a segment" in ada.post("decisions/bulk", {"decisions": [wrong, second]}, 400)["error"]


def test_a_saved_decision_that_is_sent_again_is_not_checked_again(ada: Client) -> None:
    """The answer was lost, and another decision then removed the segment that its labels continue."""
    body = {"sentence_number": 1, "start": 3, "stop": 5, "action": "relabel", "labels": ["I-ORG", "I-ORG"], "key": "k"}
    first = ada.post("decisions", body)
    ada.post("decisions", {"sentence_number": 1, "start": 2, "stop": 3, "action": "relabel", "labels": ["O"]})
    assert ada.post("decisions", body)["id"] == first["id"]
    ada.post("decisions", {**body, "key": "another"}, 400)


def test_undo_and_redo_without_limit(ada: Client) -> None:
    for rank in range(1, 31):
        ada.decide(rank, "reject" if rank % 2 else "accept")
    for left in range(29, -1, -1):
        assert ada.post("undo") | {"version": 0} == {
            "undone": 1, "ranks": [left + 1], "version": 0, "undo": left, "redo": 30 - left
        }  # fmt: skip
    assert ada.statuses()["open"] == 48
    assert ada.post("undo")["undone"] == 0
    for rank in range(1, 21):
        assert ada.post("redo")["ranks"] == [rank]
    assert ada.statuses() == {"open": 28, "accepted": 10, "rejected": 10, "skipped": 0}
    for _ in range(3):
        assert ada.post("undo")["undone"] == 1
        assert ada.post("redo")["redone"] == 1
    assert ada.statuses()["open"] == 28
    ada.decide(40)  # after a new decision, nothing can be redone
    assert ada.post("redo")["redone"] == 0
    assert ada.get("project")["undo"] == 21


def test_a_retried_undo_undoes_once(ada: Client) -> None:
    ada.decide(1)
    ada.decide(2)
    first = ada.post("undo", {"key": "u"})
    assert first["undone"] == 1
    assert ada.post("undo", {"key": "u"}) == first  # the answer that was lost
    assert ada.get("project")["undo"] == 1
    assert ada.post("redo", {"key": "u"})["redone"] == 1


@pytest.mark.parametrize("turn", ["undo", "redo"])
def test_a_retry_of_what_found_nothing_does_nothing(ada: Client, bob: Client, turn: str) -> None:
    nothing = ada.post(turn, {"key": "k"})
    assert nothing["ranks"] == []
    bob.decide(1)
    ada.decide(2)
    if turn == "redo":
        ada.post("undo")
    again = ada.post(turn, {"key": "k"})  # its answer was lost
    assert (again["ranks"], again["version"]) == ([], ada.get("changes")["version"])
    assert bob.post("undo", {"key": "k"})["ranks"] == [1]
    assert ada.post(turn, {"key": "other"})["ranks"] == [2]


def bulk(client: Client, ranks: range, key: str | None = None) -> dict[str, object]:
    found = [client.review.data.by_rank[rank] for rank in ranks]
    names = ("rank", "sentence_number", "start", "stop")
    requests = [{**{name: getattr(one, name) for name in names}, "action": "accept"} for one in found]
    return {"decisions": requests, "key": key}


def test_a_bulk_is_saved_and_undone_together(ada: Client) -> None:
    ada.decide(1)
    body = bulk(ada, range(10, 20), "b")
    assert len(ada.post("decisions/bulk", body)["ids"]) == 10
    assert ada.post("decisions/bulk", body)["ids"] == list(range(2, 12))  # a retry
    assert ada.statuses()["accepted"] == 11
    assert ada.post("undo")["undone"] == 10
    assert ada.statuses()["accepted"] == 1
    assert ada.post("redo")["redone"] == 10
    assert ada.statuses()["accepted"] == 11


def test_a_bulk_with_one_invalid_decision_saves_none(ada: Client) -> None:
    bad = {"sentence_number": 0, "start": 9, "stop": 10, "action": "skip"}
    body = {"decisions": [*bulk(ada, range(1, 5))["decisions"], bad]}  # type: ignore[misc]
    ada.post("decisions/bulk", body, 400)
    assert ada.get("history")["total"] == 0
    assert ada.decide(1)["id"] == 1  # the next decision gets the first id


def test_very_many_can_be_decided_together(ada: Client) -> None:
    """The limit on the size of other bodies does not apply."""
    requests = [
        {"sentence_number": n % 40, "start": 1, "stop": 2, "action": "skip", "key": f"{n:0>180}"} for n in range(5000)
    ]
    assert len(ada.post("decisions/bulk", {"decisions": requests})["ids"]) == 5000
    assert ada.post("undo")["undone"] == 5000


def test_decisions_on_other_data_are_refused(tmp_path: Path) -> None:
    review = light_review(tmp_path)
    path = tmp_path / "train.conll"
    path.write_bytes(path.read_bytes().replace(b"Club7", b"Club0"))
    with pytest.raises(DataError, match=r"made on other data than .*train\.conll; restore that data"):
        Decisions(light_data(tmp_path), review.decisions.store)


def test_decisions_on_too_many_tokens_together_are_refused(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each keeps the given labels of its tokens: a request of one megabyte made a database of five hundred."""
    monkeypatch.setattr(decide, "MAX_TOKENS", 60)
    whole = {"sentence_number": 0, "start": 0, "stop": 6, "action": "skip"}
    error = ada.post("decisions/bulk", {"decisions": [whole] * 11}, 400)["error"]
    assert error == "decisions on 66 tokens, at most 60 together; make them in parts"
    assert len(ada.post("decisions/bulk", {"decisions": [whole] * 10})["ids"]) == 10


def test_an_undo_does_not_repeat_the_labels(ada: Client) -> None:
    ada.decide(2)
    for turn in ("undo", "redo", "undo"):
        ada.post(turn)
    rows = ada.review.decisions.store.after(0)
    assert [(len(row.given), row.labels) for row in rows] == [(3, ("O", "B-LOC", "I-LOC"))] + [(0, None)] * 3
    assert ada.get("findings/2")["status"] == "open"
    ada.post("redo")
    assert ada.get("findings/2")["status"] == "accepted"


def test_an_undo_of_an_earlier_version_repeats_the_labels_and_is_read(ada: Client) -> None:
    ada.decide(2)
    store = ada.review.decisions.store
    (row,) = store.after(0)
    with store.writing():
        store.add(replace(row, action="undo", batch="u", key="undo:u:0", undoes=row.id))
    assert ada.get("findings/2")["status"] == "open"
    assert ada.post("redo")["redone"] == 1
    assert ada.get("findings/2")["status"] == "accepted"
