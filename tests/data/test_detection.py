"""Detection: which scheme a file is in."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tagtrace.data.detection import detect_scheme
from tagtrace.data.schemes import denormalise

VALID_IOB2 = [["B-X", "I-X", "O", "B-Y"], ["O"], ["B-Y", "B-Y", "I-Y"], ["O", "B-X"]]


@pytest.mark.parametrize(
    ("sequences", "scheme"),
    [
        (VALID_IOB2, "iob2"),
        ([["I-X", "O", "I-Y", "I-X"]], "iob1"),
        ([["I-X", "B-X"]], "iob1"),
        ([["I-X", "O", "I-X"], ["B-Y", "O"]], "iob1"),  # B- by mistake
        ([["B-X", "O", "B-X"], ["I-Y", "O"]], "iob2"),  # I- by mistake
        ([["B-X", "B-X"]], "iob2"),
        ([["B-X", "E-X", "O", "S-Y"]], "bioes"),
        ([["S-Y", "O"]], "bioes"),
        ([["B-X", "L-X", "O", "U-Y"]], "bilou"),
        ([["U-Y", "U-X"]], "bilou"),
        ([*VALID_IOB2, ["S-X"]], "iob2"),  # a slip, to be named when the file is read
        ([["POP", "O", "INT", "INT"]], "io"),
        ([["O", "E-mail", "URL"]], "io"),
        ([["O", "E-mail"]], "io"),
        ([["-LRB-", "NN", "PRP$", ",", "S-adv"]], "plain"),
        ([["NN", "VB"], []], "plain"),
        ([["O", "O"]], "iob2"),
        ([], "iob2"),
        ([["B-creative-work", "I-creative-work"]], "iob2"),
        ([["B-", "O"]], "iob2"),
    ],
)
def test_schemes_are_told_apart(sequences: list[list[str]], scheme: str):
    assert detect_scheme(sequences) == scheme


@given(
    st.lists(st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y"]), min_size=1, max_size=6), min_size=1),
    st.sampled_from(["iob1", "iob2", "bioes", "bilou"]),
)
def test_what_a_scheme_writes_is_detected(sequences: list[list[str]], scheme: str):
    written = [denormalise(labels, scheme) for labels in sequences]
    assume(any(label != "O" for labels in written for label in labels))
    assert detect_scheme(iter(written)) == scheme


def test_a_sentence_does_not_continue_the_one_before():
    assert detect_scheme([["B-X"], ["I-X"], ["I-X"]]) == "iob1"
