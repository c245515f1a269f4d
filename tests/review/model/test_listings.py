"""Lists of findings and of the occurrences of a segment, over HTTP."""

from __future__ import annotations

import pytest

from tests.review.made import Client


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ("LOC -> ORG", 40), ("LOC->ORG", 40), ("loc \N{RIGHTWARDS ARROW} Org", 40), ("LOC\N{RIGHTWARDS ARROW}ORG ", 40),
        ("ORG -> LOC", 8), ("org->loc", 8), ("ORG", 48), (" loc", 48), ("PER", 0), ("LOC -> PER", 0), ("LOC:ORG", 0),
        ("ORG:LOC", 0), ("LO", 0),
    ],
)  # fmt: skip
def test_changes_are_found_in_every_spelling(ada: Client, change: str, number: int) -> None:
    assert ada.get("findings", change=change)["total"] == number


def test_occurrences_can_be_decided_together(ada: Client) -> None:
    """``New Delft Town`` is in every sentence; a decision on the tokens of a finding counts for the finding."""
    found = ada.get("occurrences", rank=2)
    assert found["total"] == 39
    assert [one["rank"] for one in found["items"]][:8] == [8, 14, 20, 26, 32, 38, 44, None]
    assert [one["is_alike"] for one in found["items"]] == [True] * 7 + [False] * 32
    assert found["alike"] == 7
    assert ada.get("occurrences", sentence_number=0, start=0, stop=1)["total"] == 0
    assert ada.get("occurrences", sentence_number=3, start=1, stop=2)["total"] == 39  # beat, labelled O
    assert ada.get("occurrences", sentence_number=0, start=2, stop=4)["total"] == 39  # New Delft: its entity continues
    assert ada.get("occurrences", sentence_number=0, start=3, stop=4)["total"] == 39  # Delft, inside an entity
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
    """``Delft Town`` of finding 2, which is ``New Delft Town``; pages together are the whole list."""
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
