"""Comparison of predictions before and after, against counts made by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tagtrace._table import Table
from tagtrace.data import Sentence
from tagtrace.findings import Difference, Gain, compare, paired_bootstrap
from tagtrace.tagger import score_labels

MADE = [
    Sentence(("a", "b"), ("B-X", "I-X"), "0", "d"),
    Sentence(("c",), ("B-Y",), "1", "d"),
    Sentence(("d", "e"), ("O", "B-X"), "2", "e"),
]
WORSE = [("B-X", "O"), ("B-Y",), ("B-Y", "B-X")]
RIGHT = [sentence.labels for sentence in MADE]


def test_counts_are_summed_by_document() -> None:
    found = compare(MADE, [WORSE], [RIGHT], "iob2", samples=50, seed=1)
    assert (found.unit, found.num_units) == ("document", 2)
    before, after = [[1, 2, 2], [1, 2, 1]], [[2, 2, 2], [1, 1, 1]]  # by hand: d, e
    assert found.f1 == paired_bootstrap(before, after, 50, 1)
    assert found.by_type["X"] == paired_bootstrap([[0, 1, 1], [1, 1, 1]], [[1, 1, 1], [1, 1, 1]], 50, 1)
    assert found.by_type["Y"] == paired_bootstrap([[1, 1, 1], [0, 1, 0]], [[1, 1, 1], [0, 0, 0]], 50, 1)
    assert list(found.by_type) == ["X", "Y"]
    assert found.accuracy == paired_bootstrap([[2, 3, 3], [1, 2, 2]], [[3, 3, 3], [2, 2, 2]], 50, 1)
    assert found.before == (score_labels(RIGHT, WORSE, "iob2"),)
    assert (found.before[0].segments.f1, found.before[0].accuracy) == (found.f1.before, found.accuracy.before)


def test_without_documents_the_units_are_sentences() -> None:
    for documents in (("", "", ""), ("d", "d", "d")):
        made = [replace(s, document=d) for s, d in zip(MADE, documents, strict=True)]
        found = compare(made, [WORSE], [RIGHT], "iob2")
        assert (found.unit, found.num_units) == ("sentence", 3)
    mixed = [replace(s, document=d) for s, d in zip(MADE, ("d", "d", ""), strict=True)]
    assert compare(mixed, [WORSE], [RIGHT], "iob2").num_units == 2


def test_several_runs_are_averaged() -> None:
    found = compare(MADE, [WORSE, RIGHT], [RIGHT, RIGHT], "iob2")
    one = compare(MADE, [WORSE], [RIGHT], "iob2")
    assert found.f1.difference == pytest.approx(one.f1.difference / 2)
    assert found.by_type["Y"].before == pytest.approx((one.by_type["Y"].before + 1) / 2)
    assert len(found.before) == len(found.after) == 2


def test_units_that_are_partly_documents() -> None:
    """A sentence without a document is a unit of its own."""
    mixed = [replace(s, document=d) for s, d in zip(MADE, ("d", "", ""), strict=True)]
    assert compare(mixed, [WORSE], [RIGHT], "iob2").num_units == 3


# What a gain says


def made_gain(low: float, high: float, num_units: int = 30, num_changed: int = 7) -> Gain:
    found = compare(MADE, [WORSE], [RIGHT], "iob2", samples=20)
    f1 = Difference(0.5, 0.5 + (low + high) / 2, low, high, 0.1)
    return replace(found, f1=f1, num_units=num_units, num_changed=num_changed)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (
            0.01,
            0.03,
            "better: 7 changed labels raise segment F1 by 2.00 points (95 % interval +1.00 to +3.00, over",
        ),
        (
            -0.03,
            -0.01,
            "worse: 7 changed labels lower segment F1 by 2.00 points (95 % interval -3.00 to -1.00, over",
        ),
        (-0.01, 0.03, "no clear difference: 7 changed labels move segment F1 by +1.00 points (95 % interval -1.00 to "),
        (0.0, 0.02, "no clear difference: 7 changed labels move segment F1 by +1.00 points (95 % interval +0.00 to "),
    ],
)
def test_the_verdict_depends_on_the_interval(low: float, high: float, verdict: str) -> None:
    assert made_gain(low, high).verdict.startswith(verdict)


def test_one_label_and_one_unit_are_singular() -> None:
    assert "1 changed label raise" in made_gain(0.01, 0.02, num_changed=1).verdict
    assert "over 1 document)" in made_gain(0.01, 0.02, num_units=1).verdict


def test_description_and_records() -> None:
    found = compare(MADE, [WORSE], [RIGHT], "iob2", samples=20)
    table, note, verdict = found.describe()
    assert isinstance(table, Table)
    assert table.title == "held-out data"
    assert [row[0] for row in table.rows] == ["X", "Y", "all segments", "token accuracy"]
    assert table.rows[3][1:4] == ("60.00", "100.00", "+40.00")
    assert note == "note: with 2 documents the interval says little; give more held-out data"
    assert verdict == found.verdict == str(found).splitlines()[-1]
    assert "<table" in found._repr_html_()
    assert "note" not in str(made_gain(0.01, 0.02, num_units=20))
    assert "mean of 2 seeds" in str(compare(MADE, [WORSE, RIGHT], [RIGHT, RIGHT], "iob2", samples=20))
    records = found.to_records()
    assert [one["type"] for one in records] == ["X", "Y", "all segments", "token accuracy"]
    assert records[2] == {"type": "all segments", **found.f1.to_json()}
    saved = json.loads(json.dumps(found.to_json()))
    assert saved["f1"]["difference"] == found.f1.difference
    assert saved["accuracy"] == found.accuracy.to_json()
    assert (saved["unit"], saved["num_units"], saved["verdict"]) == ("document", 2, found.verdict)
    assert len(saved["before"]) == len(saved["after"]) == 1
