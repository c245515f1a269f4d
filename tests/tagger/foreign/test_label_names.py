"""Outputs become labels by their names, in their order."""

from __future__ import annotations

import pytest

from tagtrace._checks import TaggerError
from tagtrace.tagger.foreign.label_names import label_set


@pytest.mark.parametrize(
    ("names", "scheme"),
    [
        ("B-PER O I-PER", "iob2"),
        ("O B-creative-work I-creative-work", "iob2"),
        ("O B-PER", "iob2"),
        ("PER O LOC", "io"),
        ("NOUN VERB PUNCT", "plain"),
        ("O B-PER I-PER E-PER S-PER", "plain"),  # no sum of B- and I- has the scores of these
        ("O B-PER I-PER L-PER U-PER", "plain"),
        ("O S-PER S-LOC", "plain"),
        ("O I-PER I-LOC", "plain"),
        ("O B-PER I-PER X", "plain"),
        ("[PAD] O B-PER I-PER", "plain"),
        ("O B-PER I-PER B-", "plain"),
    ],
)
def test_the_scheme_and_the_order_of_outputs(names: str, scheme: str) -> None:
    labels = label_set(dict(enumerate(names.split())), len(names.split()))
    assert (labels.labels, labels.scheme) == (tuple(names.split()), scheme)


def test_numbers_may_be_texts() -> None:
    assert label_set({"1": "B", "0": "A"}, 2).labels == ("A", "B")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({0: "LABEL_0", 1: "LABEL_1"}, r"no names \(LABEL_0"),
        ({0: "O", 1: "LABEL_1"}, r"no names \(LABEL_1"),
        ({0: "O"}, "each of the 2"),
        ({0: "O", 2: "A"}, "each of the 2"),
        ({0: "O", 1: "A", 2: "B"}, "each of the 2"),
        ({0: "O", 1: ""}, "each of the 2"),
        ({0: "A", 1: "A"}, "distinct"),
    ],
)
def test_names_that_are_no_labels(names: dict[int, str], message: str) -> None:
    with pytest.raises(TaggerError, match=message):
        label_set(names, 2)
