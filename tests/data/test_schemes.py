"""Schemes: every way of spelling segments reads back as the same segments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagtrace._checks import DataError, OptionError
from tagtrace.data.schemes import (
    SCHEMES,
    denormalise,
    named_scheme,
    normalise,
    normalised_scheme,
    segments,
    violations,
)
from tagtrace.data.sentence import Segment

PREFIXED = ("iob1", "iob2", "bioes", "bilou")
TYPES = ("PER", "creative-work", "B-x", "O")


@st.composite
def segmented(draw: st.DrawFn) -> tuple[list[Segment], int]:
    """Segments that do not overlap, some of them touching, and a length that holds them."""
    found: list[Segment] = []
    position = 0
    for gap, length, type_ in draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from(TYPES)), max_size=5)
    ):
        found.append(Segment(position + gap, position + gap + length, type_))
        position += gap + length
    return found, position + draw(st.integers(0, 2))


def iob2(found: list[Segment], length: int) -> list[str]:
    labels = ["O"] * length
    for segment in found:
        labels[segment.start : segment.stop] = [f"I-{segment.type}"] * (segment.stop - segment.start)
        labels[segment.start] = f"B-{segment.type}"
    return labels


@given(segmented(), st.sampled_from(PREFIXED))
def test_segments_survive_every_scheme(case: tuple[list[Segment], int], scheme: str):
    found, length = case
    normalised = iob2(found, length)
    written = denormalise(normalised, scheme)
    assert segments(written, scheme) == found
    assert normalise(written, scheme) == tuple(normalised)
    assert violations(written, scheme) == []
    assert denormalise(normalise(written, scheme), scheme) == written


@given(st.lists(st.sampled_from(["O", "B-X", "I-X", "I-Y", "E-X", "S-X", "E-Y"]), max_size=8))
def test_any_sequence_is_repaired_to_valid_iob2(labels: list[str]):
    normalised = normalise(labels, "bioes")
    assert violations(normalised, "iob2") == []
    assert [label == "O" for label in labels] == [label == "O" for label in normalised]
    assert [label[2:] for label in labels] == [label[2:] for label in normalised]
    assert segments(labels, "bioes") == segments(normalised, "iob2")
    assert normalise(normalised, "iob2") == normalised


@given(st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y", "S-X", "E-X", "E-Y"]), max_size=8))
def test_violations_are_found_exactly_where_a_sequence_is_not_what_would_be_written(labels: list[str]):
    is_valid = denormalise(normalise(labels, "bioes"), "bioes") == tuple(labels)
    assert (violations(labels, "bioes") == []) == is_valid


@given(st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"]), max_size=8), st.sampled_from(["iob1", "iob2"]))
def test_iob_violations_likewise(labels: list[str], scheme: str):
    is_valid = denormalise(normalise(labels, scheme), scheme) == tuple(labels)
    assert (violations(labels, scheme) == []) == is_valid


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        # conlleval's reading of broken sequences
        (["E-X", "I-X"], ["B-X", "B-X"]),
        (["S-X", "E-X"], ["B-X", "B-X"]),
        (["B-X", "I-Y", "E-X"], ["B-X", "B-Y", "B-X"]),
        (["O", "I-X", "I-X"], ["O", "B-X", "I-X"]),
        (["B-X", "S-X"], ["B-X", "B-X"]),
    ],
)
def test_stray_labels_start_segments(labels: list[str], expected: list[str]):
    assert normalise(labels, "bioes") == tuple(expected)


def test_io_and_plain_stay_as_they_are():
    assert normalise(["INT", "B-", "O"], "io") == ("INT", "B-", "O")
    assert segments(["INT", "INT", "O", "INT", "POP"], "io") == [
        Segment(0, 2, "INT"),
        Segment(3, 4, "INT"),
        Segment(4, 5, "POP"),
    ]
    assert segments(["O", "NOUN", "NOUN"], "plain") == [
        Segment(i, i + 1, t) for i, t in enumerate(["O", "NOUN", "NOUN"])
    ]
    assert violations(["B-", "X-foo"], "plain") == violations(["I-X"], "io") == []


@pytest.mark.parametrize(
    ("labels", "scheme", "index", "message"),
    [
        (["I-X"], "iob2", 0, "I-X starts a segment; iob2 requires B-X"),
        (["I-Y", "B-X"], "iob1", 1, "B-X does not follow a segment of its type; iob1 requires I-X"),
        (["O", "L-X"], "bilou", 1, "L-X does not continue a segment of its type"),
        (["B-X", "O"], "bioes", 0, "the segment of B-X is not closed, as bioes requires"),
        (["B-X", "I-X"], "bioes", 1, "the segment of I-X is not closed, as bioes requires"),
    ],
)
def test_violations_say_where_and_what(labels: list[str], scheme: str, index: int, message: str):
    assert violations(labels, scheme) == [(index, message)]


@pytest.mark.parametrize("label", ["B-", "X-foo", "PER", "", "E-PER", "b-PER"])
def test_a_label_outside_the_scheme_is_named(label: str):
    with pytest.raises(DataError, match="expected O, B-TYPE, I-TYPE; fix it") as caught:
        normalise(["O", label], "iob2")
    assert f"label {label!r}" in str(caught.value)
    assert vars(caught.value)["index"] == 1


def test_names_and_aliases():
    assert [named_scheme(name) for name in ("BILUO", "iobes", "bio", *SCHEMES)] == ["bilou", "bioes", "iob2", *SCHEMES]
    assert {normalised_scheme(name) for name in SCHEMES} == {"iob2", "io", "plain"}
    with pytest.raises(OptionError, match="unknown label scheme 'iob'; choose auto or one of iob1, iob2"):
        named_scheme("iob")
