"""Decisions on a whole sentence: it is correct as it stands.

Sentence 0 is ``Club0 beat New Delft Town .``; finding 1 is about ``Club0`` and finding 2 about ``New Delft Town``.
"""

from __future__ import annotations

import json

import pytest

from tests.review.made import Client

GIVEN = ["B-LOC", "O", "B-ORG", "I-ORG", "I-ORG", "O"]


def status(client: Client, *ranks: int) -> list[str]:
    return [client.get(f"findings/{rank}")["status"] for rank in ranks]


def log(client: Client) -> list[tuple[int, int, int, list[str]]]:
    """The changes of an export: rank, start, stop and new labels."""
    client.post("export")
    lines = (client.review.export / "changes.jsonl").read_text().splitlines()
    return [(one["rank"], one["start"], one["stop"], one["new"]) for one in map(json.loads, lines)]


def test_it_decides_the_findings_in_it(ada: Client) -> None:
    assert ada.confirm(0)["status"] == "rejected"  # all given labels are kept
    assert status(ada, 1, 2, 3) == ["rejected", "rejected", "open"]
    assert ada.statuses() == {"open": 46, "accepted": 0, "rejected": 2, "skipped": 0}
    assert ada.get("project")["others"] == 1
    decided = ada.get("findings/2")["decided"]
    assert (decided["start"], decided["stop"], decided["labels"]) == (2, 5, GIVEN[2:5])
    assert ada.get("findings", status="open")["total"] == 46
    assert ada.get("sentences/0")["is_checked"]
    assert log(ada) == []


def test_it_keeps_what_was_accepted_and_its_rank(ada: Client) -> None:
    ada.decide(1)
    assert ada.confirm(0)["status"] == "accepted"
    assert status(ada, 1, 2) == ["accepted", "rejected"]
    found = ada.get("sentences/0")
    assert (found["given"], found["labels"]) == (GIVEN, ["B-ORG", *GIVEN[1:]])
    assert log(ada) == [(1, 0, 1, ["B-ORG"])]


def test_it_is_undone_and_redone(ada: Client) -> None:
    ada.decide(1)
    ada.decide(2, "skip")
    ada.confirm(0)
    assert status(ada, 1, 2) == ["accepted", "rejected"]
    assert ada.post("undo")["ranks"] == [1, 2]
    assert status(ada, 1, 2) == ["accepted", "skipped"]
    assert not ada.get("sentences/0")["is_checked"]
    ada.post("redo")
    assert status(ada, 1, 2) == ["accepted", "rejected"]
    assert ada.get("sentences/0")["is_checked"]


@pytest.mark.parametrize(
    ("action", "expected", "labels", "is_checked"),
    [
        ("reject", "rejected", GIVEN, True),
        ("reopen", "open", GIVEN, False),
        ("skip", "skipped", GIVEN, False),
        ("accept", "accepted", ["B-ORG", *GIVEN[1:]], True),
    ],
)
def test_a_later_decision_on_a_finding_counts(
    ada: Client, action: str, expected: str, labels: list[str], is_checked: bool
) -> None:
    ada.decide(1)
    ada.confirm(0)
    ada.decide(1, action)
    assert status(ada, 1, 2) == [expected, "rejected"]
    found = ada.get("sentences/0")
    assert (found["labels"], found["is_checked"]) == (labels, is_checked)
    assert bool(log(ada)) == (expected == "accepted")


def test_repaired_labels_are_confirmed_as_an_export_writes_them(ada: Client) -> None:
    """``Delft`` alone becomes a LOC, so that ``Town`` begins a segment of its own."""
    ada.post("decisions", {"sentence_number": 1, "start": 3, "stop": 4, "action": "relabel", "labels": ["B-LOC"]})
    before = log(ada)
    ada.confirm(1)
    assert ada.get("sentences/1")["labels"] == ["B-LOC", "O", "B-ORG", "B-LOC", "B-ORG", "O"]
    (first,) = before
    assert first[1:] == (3, 5, ["B-LOC", "B-ORG"])
    assert [(start, stop, new) for _, start, stop, new in log(ada)] == [(3, 4, ["B-LOC"]), (4, 5, ["B-ORG"])]


def test_a_retry_confirms_what_was_confirmed(ada: Client, bob: Client) -> None:
    first = ada.confirm(0, key="k")
    bob.decide(1, base=first["id"])
    assert ada.confirm(0, key="k")["id"] == first["id"]
    assert status(ada, 1) == ["accepted"]


def test_reviewers_who_disagree_are_in_conflict(ada: Client, bob: Client) -> None:
    ada.decide(1)
    labels = {"labels": GIVEN}
    assert bob.confirm(0, **labels)["conflict"]
    assert ada.get("findings/1")["conflict"]
    assert not ada.decide(1, base=ada.get("findings/1")["base"])["conflict"]
    assert ada.get("project")["conflicts"] == 0


def test_only_a_whole_sentence_can_be_confirmed(ada: Client) -> None:
    body = {"sentence_number": 0, "start": 0, "stop": 5, "action": "relabel"}
    assert "needs labels" in ada.post("decisions", body, 400)["error"]
    assert ada.http.get("/api/sentences/40").status_code == 404
    assert ada.http.get("/api/sentences/-1").status_code == 400
