"""The status of findings, notes, undo and conflicts that follow from decisions."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tagtrace.review import Decision, Decisions, Store
from tagtrace.review.decisions.ledger import Ledger, Place, outcome
from tests.review.made import Client, light_data, light_review, write_light


@pytest.mark.parametrize(("action", "status"), [("reject", "rejected"), ("skip", "skipped"), ("reopen", "open")])
def test_every_action_has_its_status(ada: Client, action: str, status: str) -> None:
    ada.decide(3)
    ada.decide(3, action)
    assert ada.get("findings/3")["status"] == status
    assert (ada.get("findings/3")["decided"] is None) == (status == "open")
    assert [one["rank"] for one in ada.get("findings", status=status, limit=1000)["items"] if one["rank"] == 3]


def test_choosing_the_given_labels_counts_as_rejecting(ada: Client) -> None:
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


def test_an_empty_note_removes_the_note_and_can_be_undone(ada: Client) -> None:
    ada.decide(2, "note", note="ask Cleo")
    ada.decide(2, "note", note="")
    assert ada.get("findings/2")["note"] == ""
    ada.decide(2, "note", note="", status=400)  # there is none now
    ada.post("undo")
    assert ada.get("findings/2")["note"] == "ask Cleo"


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


def test_two_reviewers_have_their_own_undo(ada: Client, bob: Client) -> None:
    ada.decide(1)
    bob.decide(2)
    assert bob.get("project")["reviewer"] == "Böb"
    assert ada.post("undo")["ranks"] == [1]
    assert ada.post("undo")["undone"] == 0
    assert bob.post("undo")["ranks"] == [2]
    assert bob.get("changes", since=2)["ranks"] == [1, 2]
    assert bob.get("changes", since=4) == {"version": 4, "ranks": [], "conflicts": 0, "taught": 0}


def test_conflicts_are_shown_until_somebody_who_saw_them_decides(ada: Client, bob: Client) -> None:
    assert not ada.decide(1)["conflict"]
    assert bob.decide(1, "reject")["conflict"]  # without a base: bob has seen nothing
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


def test_reviewers_who_agree_or_saw_each_other_have_no_conflict(ada: Client, bob: Client) -> None:
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


def in_conflict(ledger: Ledger) -> set[Place]:
    """The places in conflict in the first sentence, from the definition, decision by decision."""
    found = set[Place]()
    places = [place for place in {ledger.place_of(row) for row in ledger.rows.values()} if ledger.current(place)]
    for place in places:
        later = ledger.current(place)
        for other_place in places:
            reviewers = dict[str, Decision]()
            for row in ledger.in_force(other_place):
                reviewers.setdefault(row.reviewer, row)
            for earlier in reviewers.values():
                assert later is not None
                seen = later.base if later.base is not None and later.base < later.id else 0
                if earlier.reviewer != later.reviewer and seen < earlier.id < later.id and differ(later, earlier):
                    found |= {place, other_place}
    return found


def differ(one: Decision, other: Decision) -> bool:
    mine, theirs = (dict(enumerate(outcome(row) or (), row.start)) for row in (one, other))
    return any(mine[t] != theirs[t] for t in mine.keys() & theirs.keys())


def some_decisions(rng: random.Random) -> list[Decision]:
    """Decisions on segments of the first sentence, by reviewers who have seen some of the others."""
    given, found = ("B-LOC", "O", "B-ORG", "I-ORG", "I-ORG", "O"), list[Decision]()
    for number in range(1, rng.randint(4, 20)):
        start = rng.randrange(5)
        stop = min(start + rng.randint(1, 3), 6)
        action = rng.choice(["relabel", "relabel", "relabel", "reject", "skip", "reopen"])
        labels = tuple(rng.choices(["O", "B-LOC"], k=stop - start)) if action == "relabel" else None
        found.append(Decision(
            "", rng.choice("abc"), f"{number}", action, None, "made", 0, "", start, stop, given[start:stop], labels, "",
            rng.choice([None, rng.randrange(25)]), f"{number}", id=number,
        ))  # fmt: skip
    return found


def test_conflicts_are_those_of_the_definition(tmp_path: Path) -> None:
    write_light(tmp_path)
    data, rng, num_conflicts = light_data(tmp_path), random.Random(0), 0
    for _ in range(2000):
        ledger = Ledger(data)
        ledger.add(some_decisions(rng))
        assert set(ledger.conflicts()[0]) == in_conflict(ledger)
        num_conflicts += ledger.num_conflicts()
    assert num_conflicts > 2000


def test_many_decisions_on_one_sentence_keep_nobody_waiting(tmp_path: Path) -> None:
    """Two reviewers who decide on all segments of a long sentence: pairs of decisions would take minutes."""
    (tmp_path / "train.conll").write_text("".join(f"w{number} O\n" for number in range(100)) + "\nClub1 B-LOC\n")
    ledger = Ledger(light_data(tmp_path))
    segments = [(start, stop) for start in range(100) for stop in range(start + 1, 100)]
    for last, reviewer in ((0, "ada"), (len(segments), "bob")):
        ledger.add(
            Decision("", reviewer, reviewer, "reject", None, "made", 0, "", start, stop, ("O",) * (stop - start), None,
                     "", None, f"{reviewer}{start}:{stop}", id=last + number)
            for number, (start, stop) in enumerate(segments, start=1)
        )  # fmt: skip
    begun = time.process_time()
    assert ledger.num_conflicts() == 0
    assert time.process_time() - begun < 20


def test_decisions_outlive_the_server_and_other_audits(tmp_path: Path) -> None:
    review = light_review(tmp_path)
    Client(review).decide(2)
    review.close()
    again = light_review(tmp_path)
    assert Client(again).get("findings/2")["status"] == "accepted"
    again.close()
    data = light_data(tmp_path)
    data.audit = "another"  # its rank 2 can be another finding: decisions are matched by sentence and tokens
    data.by_rank = {one.rank + 100: one for one in data.findings}
    data.rank_at = {segment: rank + 100 for segment, rank in data.rank_at.items()}
    decisions = Decisions(data, Store(tmp_path / "decisions.sqlite"))
    with decisions.reading() as ledger:
        assert ledger.status(102) == "accepted"
        assert ledger.status(2) == "open"


def turns(rng: random.Random, rows: list[Decision]) -> list[Decision]:
    """The decisions of one reviewer with undos and redos between them."""
    found, done, undone = list[Decision](), list[Decision](), list[tuple[Decision, Decision]]()

    def add(row: Decision, **changes: Any) -> Decision:
        found.append(replace(row, reviewer="a", batch=f"{len(found)}", id=len(found) + 1, **changes))
        return found[-1]

    for row in rows:
        done.append(add(row))
        undone.clear()
        while rng.random() < 0.6:
            if undone and rng.random() < 0.5:
                one, undo = undone.pop()
                add(undo, action="redo", undoes=undo.id)
                done.append(one)
            elif done:
                one = done.pop()
                undone.append((one, add(one, action="undo", labels=None, given=(), undoes=one.id)))
    return found


def test_the_state_is_that_of_the_definition_row_by_row(tmp_path: Path) -> None:
    write_light(tmp_path)
    data, rng, num_undone = light_data(tmp_path), random.Random(1), 0
    for _ in range(300):
        rows = turns(rng, some_decisions(rng))
        whole, one_by_one = Ledger(data), Ledger(data)
        whole.add(rows)
        for row in rows:
            one_by_one.add([row])
        assert not whole.unreadable
        num_undone += sum(map(whole.is_undone, rows))
        places = {whole.place_of(row) for row in rows}
        for ledger in (whole, one_by_one):
            last = {place: [one for one in ledger.in_force(place) if one.action != "note"][:1] for place in places}
            assert {place: list(filter(None, [ledger.current(place)])) for place in places} == last
            in_force = [row for some in last.values() for row in some]
            for t in range(6):
                assert ledger.base((0, t, t + 1)) == max(
                    (r.id for r in in_force if r.start <= t < r.stop), default=None
                )
            assert ledger.wanted(0) == whole.wanted(0)
            assert [ledger.status(place) for place in places] == [whole.status(place) for place in places]
    assert num_undone > 300


def test_what_was_seen_of_a_sentence_is_not_computed_from_all_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each decision asks for it, and each finding in a list."""
    write_light(tmp_path)
    ledger, rng = Ledger(light_data(tmp_path)), random.Random(2)
    ledger.add(some_decisions(rng))
    monkeypatch.setattr(Ledger, "in_force", lambda *_: pytest.fail("all decisions on a place were read"))
    ledger.base((0, 0, 6))
    ledger.wanted(0)
    ledger.decided_labels(0)
    assert ledger.current((0, 0, 6)) is None


def test_a_rank_is_of_the_same_tokens(ada: Client, bob: Client) -> None:
    """With a rank and other tokens, a decision replaced that of another reviewer, and no conflict was shown."""
    ada.decide(1)
    elsewhere = {"rank": 1, "sentence_number": 0, "start": 5, "stop": 6, "action": "reject"}
    assert bob.post("decisions", elsewhere, 400)["error"] == "finding 1 has no token of 5:6; reload the page"
    store = ada.review.decisions.store
    (row,) = store.after(0)
    with store.writing():  # as it may be in a file
        store.add(replace(row, reviewer="eve", start=5, stop=6, given=("O",), labels=None, action="reject", key="e"))
    assert ada.get("findings/1")["status"] == "accepted"
    assert ada.get("history")["total"] == 2
    assert ada.post("export")["changed"] == 1


def test_an_undo_is_about_the_tokens_of_what_it_undoes(ada: Client) -> None:
    """In a file, it may name others."""
    ada.decide(1)
    store = ada.review.decisions.store
    (row,) = store.after(0)
    with store.writing():
        store.add(
            replace(row, action="undo", undoes=1, sentence_number=3, rank=None, start=2, stop=3, key="u", batch="u")
        )
    assert ada.get("findings/1")["status"] == "open"
    assert ada.get("findings/1")["decided"] is None
    assert ada.statuses()["open"] == 48
    assert ada.get("project")["others"] == 0
    assert ada.post("export")["changed"] == 0
    assert ada.post("redo")["redone"] == 1
    assert ada.get("findings/1")["status"] == "accepted"
    assert ada.post("export")["changed"] == 1
