"""Label sets: order, encoding, forbidden transitions, errors."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagtrace._checks import DataError, OptionError
from tagtrace.data.labels import LabelSet
from tagtrace.data.schemes import segments, violations
from tagtrace.data.sentence import Segment, Sentence


def sentence(*labels: str) -> Sentence:
    return Sentence(("w",) * len(labels), labels, id="s", path="train.conll", lines=range(7, 7 + len(labels)))


def test_iob2_has_both_labels_of_every_type_in_order():
    labels = LabelSet.from_sentences([sentence("B-PER", "O"), sentence("I-LOC", "B-ORG")], "iob1")
    assert labels.labels == ("O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER")
    assert labels.scheme == "iob2"
    assert labels.types == ("LOC", "ORG", "PER")


def test_io_and_plain_have_what_occurs():
    io = LabelSet.from_sentences([sentence("POP", "INT")], "io")
    plain = LabelSet.from_sentences([sentence("VERB", "NOUN", "O")], "plain")
    assert (io.labels, io.types) == (("O", "INT", "POP"), ("INT", "POP"))
    assert plain.labels == plain.types == ("NOUN", "O", "VERB")
    for labels in (io, plain):
        assert not labels.forbidden_transitions().any()
        assert not labels.forbidden_start().any()


@given(st.lists(st.sampled_from(["O", "B-A-b", "I-A-b", "B-C", "I-C"])))
def test_encode_and_decode_are_inverse(words: list[str]):
    labels = LabelSet.from_sentences([sentence("B-A-b", "B-C")], "iob2")
    assert labels.decode(labels.encode(words)) == tuple(words)
    assert labels.encode(words) == [labels.index(word) for word in words]
    assert labels.decode(np.array(labels.encode(words), dtype=int)) == tuple(words)


def test_forbidden_is_what_violates_iob2():
    labels = LabelSet.from_sentences([sentence("B-A", "B-B")], "iob2")
    forbidden, start = labels.forbidden_transitions(), labels.forbidden_start()
    assert forbidden.shape == (5, 5)
    assert forbidden.dtype == start.dtype == bool
    for a, b in product(labels.labels, repeat=2):
        breaks = any(index == 1 for index, _ in violations([a, b], "iob2"))
        assert forbidden[labels.index(a), labels.index(b)] == breaks
    for label in labels.labels:
        assert start[labels.index(label)] == bool(violations([label], "iob2"))


def test_saved_and_read_back():
    labels = LabelSet(("O", "B-PER", "I-PER"), "iob2")
    assert LabelSet.from_json(json.loads(json.dumps(labels.to_json()))) == labels


@pytest.mark.parametrize("saved", [{}, {"labels": "O", "scheme": "io"}, {"labels": ["O"], "scheme": 3}, []])
def test_rubbish_is_not_read_back(saved):
    with pytest.raises(DataError, match="a saved label set needs"):
        LabelSet.from_json(saved)


def test_unknown_labels_are_named_with_their_place():
    labels = LabelSet.from_sentences([sentence("B-A", "B-B", "B-C")], "iob2")
    labels.check([sentence("B-A", "O")])
    with pytest.raises(DataError) as caught:
        labels.check([sentence("O", "O"), sentence("O", "B-D")])
    assert str(caught.value) == (
        "train.conll, line 8: unknown label 'B-D'; the known labels are O, B-A, I-A, B-B, I-B, B-C and 1 more; "
        "change it, or train with it"
    )
    for call in (labels.index, lambda label: labels.encode(["O", label])):
        with pytest.raises(DataError, match="unknown label 'B-D'; the known labels are O, B-A"):
            call("B-D")


@pytest.mark.parametrize(
    ("labels", "scheme", "message"),
    [
        ((), "io", "needs at least one label"),
        (("O", "O"), "io", "needs distinct labels"),
        (("O", "PER"), "iob2", "label 'PER' does not belong to the scheme iob2"),
    ],
)
def test_impossible_sets_are_refused(labels: tuple[str, ...], scheme: str, message: str):
    with pytest.raises(DataError, match=message):
        LabelSet(labels, scheme)
    if labels:
        return
    with pytest.raises(DataError, match="needs at least one label"):
        LabelSet.from_sentences([], "plain")


def test_labels_by_name() -> None:
    labels = LabelSet(("O", "B-a-b", "I-a-b", "B-c", "I-c"), "iob2")
    assert labels.parse("a-b", 3) == [1, 2, 2]
    assert labels.parse("O", 2) == [0, 0]
    assert labels.parse("I-c", 2) == [4, 4]
    assert labels.parse("B-c,B-c", 2) == [3, 3]
    assert labels.parse(["B-c", "I-c"], 2) == [3, 4]
    assert LabelSet(("x", "y"), "plain").parse("x", 2) == [0, 0]
    assert LabelSet(("x", "x,"), "plain").parse("x,", 1) == [1]
    for asked, message in ((["O"], "1 labels for 2 tokens"), ("d", "unknown label 'd'"), ("O,d", "unknown label 'd'")):
        with pytest.raises(OptionError, match=message):
            labels.parse(asked, 2)


@pytest.mark.parametrize(
    ("labels", "scheme", "types"),
    [
        (("O", "B-a-b", "I-a-b", "B-c", "I-c"), "iob2", ("O", "a-b", "a-b", "c", "c")),
        (("O", "B-a"), "io", ("O", "B-a")),
        (("NOUN", "O"), "plain", ("NOUN", "O")),
    ],
)
def test_the_type_of_each_label(labels: tuple[str, ...], scheme: str, types: tuple[str, ...]) -> None:
    assert LabelSet(labels, scheme).type_of == types


def test_a_segment_spelled_with_label_numbers() -> None:
    labels = LabelSet(("O", "B-a", "I-a", "B-c", "I-c"), "iob2")
    for type_, length in product(("a", "c"), (1, 2, 4)):
        ids = labels.spell(type_, length)
        assert segments(labels.decode(ids), "iob2") == [Segment(0, length, type_)]
    assert labels.spell("O", 3) == [0, 0, 0]
    assert LabelSet(("O", "a"), "io").spell("a", 2) == [1, 1]
    assert LabelSet(("x", "y"), "plain").spell("y", 2) == [1, 1]
    with pytest.raises(DataError, match="unknown label 'B-d'"):
        labels.spell("d", 1)


def test_masks() -> None:
    labels = LabelSet(("O", "B-a", "I-a", "B-c", "I-c"), "iob2")
    assert labels.mask("a").tolist() == [False, True, True, False, False]
    assert labels.mask("B-c").tolist() == [False, False, False, True, False]
    assert LabelSet(("x", "y"), "plain").mask("y").tolist() == [False, True]
    with pytest.raises(OptionError, match="unknown label 'd'; expected one of O, a, c"):
        labels.mask("d")
    first, second = labels.pair_masks("a:O")
    assert (first.tolist(), second.tolist()) == (labels.mask("a").tolist(), labels.mask("O").tolist())
    for pair, message in (
        ("a", "expected GOLD:PREDICTED"),
        ("a:B-a", "expected two different labels"),
        ("a:d", "unknown label 'd'"),
    ):
        with pytest.raises(OptionError, match=message):
            labels.pair_masks(pair)
    with pytest.raises(OptionError, match="pair 'a:c:O': expected TRUE:WRONG, for example ORG:LOC"):
        labels.pair_masks("a:c:O", "TRUE:WRONG")
