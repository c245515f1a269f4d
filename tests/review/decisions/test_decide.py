"""Decisions: kept once, undone and redone without limit, by two people at once, refused where they make no sense."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tagtrace._checks import DataError
from tagtrace.review import Decisions, Store
from tests.review.made import Client, light_review, light_texts


@pytest.fixture
def ada(tmp_path: Path) -> Iterator[Client]:
    review = light_review(tmp_path)
    yield Client(review)
    review.close()


@pytest.fixture
def bob(ada: Client) -> Client:
    """Another browser at the same server."""
    return Client(ada.review, "B%C3%B6b")


def test_a_decision_is_kept_and_shown(ada: Client) -> None:
    answer = ada.decide(1, key="a", note="clearly a club")
    assert answer == {"id": 1, "version": 1, "conflict": False, "status": "accepted", "rank": 1, "base": 1}
    found = ada.get("findings/1")
    assert found["status"] == "accepted"
    assert found["note"] == "clearly a club"
    assert found["decided"]["labels"] == found["proposed"]
    assert found["decided"]["reviewer"] == "ada"
    assert found["sentence_tokens"] == ["Club0", "beat", "New", "Delft", "Town", "."]
    assert ada.statuses() == {"open": 47, "accepted": 1, "rejected": 0, "skipped": 0}


@pytest.mark.parametrize(("action", "status"), [("reject", "rejected"), ("skip", "skipped"), ("reopen", "open")])
def test_every_action_has_its_status(ada: Client, action: str, status: str) -> None:
    ada.decide(3)
    ada.decide(3, action)
    assert ada.get("findings/3")["status"] == status
    assert (ada.get("findings/3")["decided"] is None) == (status == "open")
    assert [one["rank"] for one in ada.get("findings", status=status, limit=1000)["items"] if one["rank"] == 3]


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ("LOC -> ORG", 40), ("LOC->ORG", 40), ("loc \N{RIGHTWARDS ARROW} Org", 40), ("LOC\N{RIGHTWARDS ARROW}ORG ", 40),
        ("ORG -> LOC", 8), ("org->loc", 8), ("ORG", 48), (" loc", 48), ("PER", 0), ("LOC -> PER", 0), ("LOC:ORG", 0),
        ("ORG:LOC", 0), ("LO", 0),
    ],
)  # fmt: skip
def test_changes_are_found_however_they_are_written(ada: Client, change: str, number: int) -> None:
    assert ada.get("findings", change=change)["total"] == number


def test_to_choose_the_labels_given_is_to_reject(ada: Client) -> None:
    assert ada.decide(1, "relabel", labels=["B-LOC"])["status"] == "rejected"
    assert ada.statuses() == {"open": 47, "accepted": 0, "rejected": 1, "skipped": 0}
    assert ada.get("findings/1")["decided"]["status"] == "rejected"
    assert [one["rank"] for one in ada.get("findings", status="rejected")["items"]] == [1]
    assert ada.post("export")["changed"] == 0
    ada.decide(1, "relabel", labels=["O"])
    assert ada.statuses()["accepted"] == 1


def test_a_note_decides_nothing(ada: Client) -> None:
    ada.decide(2, "note", note="ask Cleo")
    assert ada.get("findings/2")["status"] == "open"
    assert ada.get("findings/2")["note"] == "ask Cleo"
    ada.decide(3, "note", status=400)


def test_a_note_can_be_taken_away_and_comes_back(ada: Client) -> None:
    ada.decide(2, "note", note="ask Cleo")
    ada.decide(2, "note", note="")
    assert ada.get("findings/2")["note"] == ""
    ada.decide(2, "note", note="", status=400)  # there is none now
    ada.post("undo")
    assert ada.get("findings/2")["note"] == "ask Cleo"


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
        ({"stop": 99}, "no segment"),
        ({"start": -1}, "no segment"),
        ({"sentence_number": 1}, "no finding 2 in sentence number 1"),
        ({"sentence_number": 10**9, "rank": None}, "no training sentence"),
        ({"rank": 4000}, "no finding 4000"),
        ({"action": "accept", "labels": ["O", "O", "O"]}, "relabel to choose others"),
        ({"action": "delete"}, "action"),
        ({"sentence_number": "0"}, "sentence_number"),
        ({"sentence_number": True}, "sentence_number"),
        ({"labels": [1, 2, 3]}, "labels"),
        ({"note": "x" * 20_000}, "note"),
    ],
)
def test_what_makes_no_sense_is_refused(ada: Client, change: dict[str, object], message: str) -> None:
    body = {
        "rank": 2,
        "sentence_number": 0,
        "start": 2,
        "stop": 5,
        "action": "relabel",
        "labels": ["O", "O", "O"],
        **change,
    }
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


def test_a_place_is_judged_without_its_earlier_decision(ada: Client) -> None:
    """Finding 2 is ``New Delft Town``, B-ORG I-ORG I-ORG: what replaces a decision does not stand beside it."""
    ada.decide(2)  # O B-LOC I-LOC
    ada.decide(2, "relabel", start=3, stop=5, labels=["I-ORG", "I-ORG"])  # New is B-ORG again
    ada.decide(2, "relabel", labels=["B-LOC", "I-LOC", "I-LOC"])
    answer = ada.decide(2, "relabel", start=3, stop=5, labels=["I-LOC", "I-LOC"], status=400)
    assert "starts a segment" in answer["error"]


def test_labels_of_decisions_made_together_are_judged_together(ada: Client) -> None:
    first, second = (
        {"sentence_number": 1, "start": place, "stop": place + 1, "action": "relabel", "labels": [label]}
        for place, label in ((4, "B-LOC"), (5, "I-LOC"))
    )
    assert "starts a segment" in ada.post("decisions", second, 400)["error"]
    ada.post("decisions/bulk", {"decisions": [second, first]})
    assert ada.post("undo")["undone"] == 2
    wrong = {**first, "labels": ["B-ORG"]}
    assert "starts a segment" in ada.post("decisions/bulk", {"decisions": [wrong, second]}, 400)["error"]


def test_a_kept_decision_sent_again_is_not_judged_again(ada: Client) -> None:
    """Its answer was lost; meanwhile another decision took away what it goes on from."""
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
    for _ in range(3):  # to and fro
        assert ada.post("undo")["undone"] == 1
        assert ada.post("redo")["redone"] == 1
    assert ada.statuses()["open"] == 28
    ada.decide(40)  # a new decision: what was undone stays so
    assert ada.post("redo")["redone"] == 0
    assert ada.get("project")["undo"] == 21


def test_undo_shows_the_decision_before(ada: Client) -> None:
    for action in ("accept", "reject", "skip"):
        ada.decide(7, action)
    seen = [ada.get("findings/7")["status"]]
    for _ in range(3):
        ada.post("undo")
        seen.append(ada.get("findings/7")["status"])
    assert seen == ["skipped", "rejected", "accepted", "open"]
    undone = [(one["action"], one["undone"]) for one in ada.get("history")["items"]]
    assert undone == [("skip", True), ("reject", True), ("accept", True)]


def test_a_retried_undo_undoes_once(ada: Client) -> None:
    ada.decide(1)
    ada.decide(2)
    first = ada.post("undo", {"key": "u"})
    assert first["undone"] == 1
    assert ada.post("undo", {"key": "u"}) == first  # the answer that was lost
    assert ada.get("project")["undo"] == 1
    assert ada.post("redo", {"key": "u"})["redone"] == 1


def bulk(client: Client, ranks: range, key: str | None = None) -> dict[str, object]:
    found = [client.review.data.by_rank[rank] for rank in ranks]
    wishes = [
        {
            "rank": one.rank,
            "sentence_number": one.sentence_number,
            "start": one.start,
            "stop": one.stop,
            "action": "accept",
        }
        for one in found
    ]
    return {"decisions": wishes, "key": key}


def test_a_bulk_is_kept_and_undone_together(ada: Client) -> None:
    ada.decide(1)
    body = bulk(ada, range(10, 20), "b")
    assert len(ada.post("decisions/bulk", body)["ids"]) == 10
    assert ada.post("decisions/bulk", body)["ids"] == list(range(2, 12))  # a retry
    assert ada.statuses()["accepted"] == 11
    assert ada.post("undo")["undone"] == 10
    assert ada.statuses()["accepted"] == 1
    assert ada.post("redo")["redone"] == 10
    assert ada.statuses()["accepted"] == 11


def test_a_bulk_with_one_bad_decision_keeps_none(ada: Client) -> None:
    bad = {"sentence_number": 0, "start": 9, "stop": 10, "action": "skip"}
    body = {"decisions": [*bulk(ada, range(1, 5))["decisions"], bad]}  # type: ignore[misc]
    ada.post("decisions/bulk", body, 400)
    assert ada.get("history")["total"] == 0
    assert ada.decide(1)["id"] == 1  # and the next is counted as the first


def test_occurrences_can_be_decided_together(ada: Client) -> None:
    """``New Delft Town`` stands in every sentence; those of findings count for them."""
    found = ada.get("occurrences", rank=2)
    assert found["total"] == 39
    assert [one["rank"] for one in found["items"]][:8] == [8, 14, 20, 26, 32, 38, 44, None]
    assert [one["is_alike"] for one in found["items"]] == [True] * 7 + [False] * 32
    assert found["alike"] == 7
    assert ada.get("occurrences", sentence_number=0, start=0, stop=1)["total"] == 0
    assert ada.get("occurrences", sentence_number=3, start=1, stop=2)["total"] == 39  # beat, labelled O
    assert ada.get("occurrences", sentence_number=0, start=2, stop=4)["total"] == 39  # New Delft, which goes on
    assert (
        ada.get("occurrences", sentence_number=0, start=3, stop=4)["total"] == 39
    )  # Delft, in the middle of a segment
    decisions = [
        {name: one[name] for name in ("sentence_number", "start", "stop", "rank", "base")}
        | {"action": "relabel", "labels": ["O", "B-LOC", "I-LOC"]}
        for one in found["items"]
    ]
    ada.post("decisions/bulk", {"decisions": decisions})
    assert ada.statuses()["accepted"] == 7
    assert ada.get("project")["others"] == 32
    items = ada.get("occurrences", rank=2)["items"]
    assert all(one["decision"]["labels"] == ["O", "B-LOC", "I-LOC"] for one in items)
    assert ada.post("undo")["undone"] == 39
    assert ada.get("project")["others"] == 0


def test_other_boundaries_at_all_occurrences(ada: Client) -> None:
    """``Delft Town`` of finding 2, which is ``New Delft Town``: findings like it count, pages add up."""
    asked = {"rank": 2, "start": 3, "stop": 5}
    found = ada.get("occurrences", **asked)
    assert found["total"] == 39
    assert [(one["start"], one["stop"], one["rank"]) for one in found["items"]][5:8] == [
        (3, 5, 38), (3, 5, 44), (3, 5, None)
    ]  # fmt: skip
    parts = [ada.get("occurrences", **asked, offset=offset, limit=15) for offset in (0, 15, 30)]
    assert [one for part in parts for one in part["items"]] == found["items"]
    (eighth,) = [one for one in found["items"] if one["rank"] == 8]
    place = {name: eighth[name] for name in ("rank", "sentence_number", "start", "stop", "base")}
    ada.post("decisions/bulk", {"decisions": [{**place, "action": "relabel", "labels": ["B-LOC", "I-LOC"]}]})
    assert ada.get("findings/8")["status"] == "accepted"
    found = ada.get("occurrences", **asked)
    assert found["items"][0]["decision"]["status"] == "accepted"
    assert found["alike"] == 6


def test_very_many_can_be_decided_together(ada: Client) -> None:
    """More than a body has room for elsewhere."""
    wishes = [
        {"sentence_number": n % 40, "start": 1, "stop": 2, "action": "skip", "key": f"{n:0>180}"} for n in range(5000)
    ]
    assert len(ada.post("decisions/bulk", {"decisions": wishes})["ids"]) == 5000
    assert ada.post("undo")["undone"] == 5000


@pytest.mark.parametrize("status", ["all", "open"])
def test_the_page_of_a_rank(ada: Client, status: str) -> None:
    ada.decide(3, "reject")
    everything = [one["rank"] for one in ada.get("findings", status=status, limit=1000)["items"]]
    for rank in (1, 3, 4, 30, 48, 99):
        found = ada.get("findings", status=status, rank=rank, limit=10)
        place, offset = found["place"], found["offset"]
        assert place == len([one for one in everything if one < rank])
        assert offset % 10 == 0
        assert [one["rank"] for one in found["items"]] == everything[offset : offset + 10]
        assert rank not in everything or everything[place] == rank in [one["rank"] for one in found["items"]]


def test_two_reviewers_have_their_own_undo(ada: Client, bob: Client) -> None:
    ada.decide(1)
    bob.decide(2)
    assert bob.get("project")["reviewer"] == "Böb"
    assert ada.post("undo")["ranks"] == [1]
    assert ada.post("undo")["undone"] == 0
    assert bob.post("undo")["ranks"] == [2]
    assert bob.get("changes", since=2)["ranks"] == [1, 2]
    assert bob.get("changes", since=4) == {"version": 4, "ranks": [], "conflicts": 0}


def test_conflicts_are_shown_until_someone_decides_who_saw_them(ada: Client, bob: Client) -> None:
    assert not ada.decide(1)["conflict"]
    assert bob.decide(1, "reject")["conflict"]  # base null: saw nothing
    for client in (ada, bob):
        found = client.get("findings", status="conflict")["items"]
        assert [one["rank"] for one in found] == [1]
        assert client.get("project")["conflicts"] == 1
    base = ada.get("findings/1")["base"]
    assert not ada.decide(1, base=base)["conflict"]
    assert ada.get("findings", status="conflict")["total"] == 0
    ada.post("undo")
    assert ada.get("project")["conflicts"] == 1
    bob.post("undo")
    assert ada.get("project")["conflicts"] == 0


def test_those_who_agree_or_saw_each_other_have_no_conflict(ada: Client, bob: Client) -> None:
    ada.decide(1)
    assert not bob.decide(1)["conflict"]
    first = ada.decide(3)
    assert not bob.decide(3, "reject", base=first["id"])["conflict"]
    ada.decide(4, "skip")
    assert not bob.decide(4)["conflict"]


def test_segments_that_overlap_can_be_in_conflict(ada: Client, bob: Client) -> None:
    ada.decide(2)  # New Delft Town: O B-LOC I-LOC
    answer = bob.post("decisions", {"sentence_number": 0, "start": 4, "stop": 5, "action": "relabel", "labels": ["O"]})
    assert answer["conflict"]
    assert ada.get("findings/2")["conflict"]
    assert ada.get("changes", since=1)["ranks"] == [2]


def test_decisions_outlive_the_server_and_other_audits(tmp_path: Path) -> None:
    review = light_review(tmp_path)
    Client(review).decide(2)
    review.close()
    again = light_review(tmp_path)
    assert Client(again).get("findings/2")["status"] == "accepted"
    again.close()
    texts = light_texts(tmp_path)
    texts.audit = "another"  # whose rank 2 may be something else: the place says which finding it is
    texts.by_rank = {one.rank + 100: one for one in texts.findings}
    texts.rank_at = {place: rank + 100 for place, rank in texts.rank_at.items()}
    decisions = Decisions(texts, Store(tmp_path / "decisions.sqlite"))
    with decisions.reading() as ledger:
        assert ledger.status(102) == "accepted"
        assert ledger.status(2) == "open"


def test_decisions_about_other_data_are_not_taken(tmp_path: Path) -> None:
    review = light_review(tmp_path)
    path = tmp_path / "train.conll"
    path.write_bytes(path.read_bytes().replace(b"Club7", b"Club0"))
    with pytest.raises(DataError, match="about other data"):
        Decisions(light_texts(tmp_path), review.decisions.store)


def test_the_file_only_grows(ada: Client) -> None:
    ada.decide(1)
    connection = sqlite3.connect(ada.review.decisions.store.path)
    assert connection.execute("pragma journal_mode").fetchone() == ("wal",)
    for statement in ("delete from decision", "update decision set action = 'reject'"):
        with pytest.raises(sqlite3.IntegrityError, match="never"):
            connection.execute(statement)
    connection.close()
    (mode,) = ada.review.decisions.store._connection.execute("pragma synchronous").fetchone()
    assert mode == 2  # FULL


def test_what_is_no_store_is_named(tmp_path: Path) -> None:
    (tmp_path / "decisions.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(DataError, match=r"decisions\.sqlite: cannot be opened"):
        Store(tmp_path / "decisions.sqlite")


def test_two_servers_of_one_project_lose_nothing(tmp_path: Path) -> None:
    """Two stores on one file, as two processes have, and two threads each."""
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


def test_half_a_surrogate_pair_is_no_harm(ada: Client) -> None:
    body = b'{"rank":1,"sentence":0,"start":0,"stop":1,"action":"note","note":"\\ud800"}'
    headers = {**ada.headers, "Content-Type": "application/json"}
    response = ada.http.post("/api/decisions", content=body, headers=headers)
    assert response.status_code in (201, 400)
    assert ada.get("findings/1")["status"] == "open"
