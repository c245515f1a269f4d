"""Marks become labels, and changed labels the smallest edits of marks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagtrace.data.marked.alignment import Alignment
from tagtrace.data.marked.marks import Mark, MarkEdit, MarkedText
from tagtrace.data.marked.tokens import tokenise

TEXT = "Ada Lovelace joined Acme Corp in Oslo."


def aligned(*marks: Mark, text: str = TEXT) -> Alignment:
    return Alignment.of(MarkedText(text, marks, 1))


def applied(marks: tuple[Mark, ...], edits: list[MarkEdit]) -> tuple[Mark, ...]:
    """What a format does: the marks with the edits made, without their keys."""
    gone = {id(edit.old) for edit in edits}
    new = [edit.new for edit in edits if edit.new is not None]
    return tuple(Mark(m.start, m.stop, m.label) for m in (*(m for m in marks if id(m) not in gone), *new))


def test_marks_become_labels() -> None:
    found = aligned(Mark(20, 29, "ORG"), Mark(0, 12, "PER"))
    assert found.labels == ("B-PER", "I-PER", "O", "B-ORG", "I-ORG", "O", "O", "O")
    assert found.odd == ()


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        (Mark(0, 2, "PER"), "the PER 'Ad' (characters 0 to 2) does not begin and end with tokens; it is kept as it is"),
        (Mark(3, 12, "PER"), "does not begin and end with tokens"),
        (Mark(13, 19, "X"), "the X 'joined' (characters 13 to 19) overlaps another one; it is kept as it is"),
    ],
)
def test_marks_that_fit_no_tokens_or_overlap_are_reported_and_stay(mark: Mark, message: str) -> None:
    found = aligned(mark, Mark(4, 29, "EVENT"))
    assert len(found.odd) == 1
    assert message in found.odd[0]
    assert found.edits(["O"] * 8) == [MarkEdit(Mark(4, 29, "EVENT"), None)]


def test_of_two_marks_that_overlap_the_longer_one_counts() -> None:
    assert aligned(Mark(20, 24, "LOC"), Mark(20, 29, "ORG")).labels[3:5] == ("B-ORG", "I-ORG")


def test_a_mark_that_repeats_another_changes_with_it() -> None:
    one, twin = Mark(0, 3, "PER", 1), Mark(0, 3, "PER", 2)
    found = aligned(one, twin)
    assert found.odd == ()
    assert found.edits(["O"] * 8) == [MarkEdit(one, None), MarkEdit(twin, None)]
    assert [edit.new for edit in found.edits(["B-ORG", *["O"] * 7])] == [Mark(0, 3, "ORG")] * 2


def test_a_mark_that_moves_or_changes_its_type_stays_the_same_mark() -> None:
    person, company = Mark(0, 12, "PER", "T1"), Mark(20, 29, "ORG", "T2")
    wanted = ["B-PER", "O", "O", "B-LOC", "I-LOC", "O", "B-LOC", "O"]
    assert aligned(person, company).edits(wanted) == [
        MarkEdit(person, Mark(0, 3, "PER")),
        MarkEdit(company, Mark(20, 29, "LOC")),
        MarkEdit(None, Mark(33, 37, "LOC")),
    ]


def test_the_same_labels_are_no_edit() -> None:
    found = aligned(Mark(0, 12, "PER"), Mark(13, 19, "X"))
    assert found.edits(found.labels) == []


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, tuple[Mark, ...], list[str]]:
    text = draw(st.text("ab. \n\u5317\u0301", min_size=1, max_size=20))
    places = st.integers(0, len(text) - 1)
    marks = [
        Mark(start, draw(st.integers(start + 1, len(text))), draw(st.sampled_from(["X", "Y"])), number)
        for number, start in enumerate(draw(st.lists(places, max_size=4)))
    ]
    labels = st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"])
    return text, tuple(marks), draw(st.lists(labels, min_size=len(text), max_size=len(text)))


@given(cases())
def test_edits_give_the_wanted_labels_and_leave_all_else(case: tuple[str, tuple[Mark, ...], list[str]]) -> None:
    text, marks, drawn = case
    found = aligned(*marks, text=text)
    wanted = list(Alignment.of(MarkedText(text, applied((), _as_new(text, drawn)), 1)).labels)
    edits = found.edits(wanted)
    after = applied(marks, edits)
    counted = (*found.found.values(), *(twin for twins in found.twins.values() for twin in twins))
    kept = [mark for mark in marks if mark not in counted]
    assert all(Mark(mark.start, mark.stop, mark.label) in after for mark in kept)
    ours = [
        mark for mark in after if (mark.start, mark.stop, mark.label) not in {(k.start, k.stop, k.label) for k in kept}
    ]
    theirs = Alignment.of(MarkedText(text, tuple(ours), 1))
    assert all(new in (old, "O") for new, old in zip(theirs.labels, wanted, strict=True))
    if not kept:
        assert list(theirs.labels) == wanted
    if wanted == list(found.labels):
        assert edits == []


def _as_new(text: str, drawn: list[str]) -> list[MarkEdit]:
    labels = drawn[: len(tokenise(text))]
    return Alignment.of(MarkedText(text, (), 1)).edits(labels)
