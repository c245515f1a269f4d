r"""Dosages in a text: the regular expressions of the paper's appendix "Dosage Regex", as ranges of tokens.

They are applied to the tokens of a document joined by single spaces, as one alternation: matches are found from left
to right and do not overlap; where two alternatives match at the same position, the earlier in the list is taken. As
printed they are case-sensitive (the list of units has both ``iu`` and ``IU``). A token belongs to a dosage if the match
touches it: in "5 mg/kg" the expression matches "5 mg", and the tokens are ``5`` and ``mg/kg``.

The paper prints no further conditions. The notebook its authors released (ner_influence/ebm/experiment_utils.py and
dosage_analysis.ipynb of successar/Segment_Influence_Functions) also drops matches that do not begin with a digit or
that end in the token ``%``, and then those with no intervention within ten tokens: "10 mg" is a dosage, "95 % CI" is
not. ``PRINTED`` and ``RELEASED`` are these two readings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from tagtrace.data import Sentence

_UNIT = (
    "mg/dl|mg/ml|g/l|milligrams|milligram|mg|grams|gram|g|micrograms|microgram|mcg|meq|iu|cc|units|unit"
    "|tablespoons|tablespoon|teaspoons|teaspoon|mg/kg|IU"
)
_WORD = "half|one|two|three|four|five|six|seven|eight|nine|ten|twelve"
_NUMBER = r"(?:\d+,)?\d+(?:\.\d+)?(?:(?: |-)?(?:-|to)(?: |-)?(?:\d+,)?\d+(?:\.\d+)?)?"

PATTERN = re.compile(
    "|".join(
        [
            rf"\b({_NUMBER}/)?({_NUMBER})(\s+|-)?({_UNIT})\b",
            rf"\b({_NUMBER}/)?({_NUMBER})\s?%",
            rf"\b\d+\s?(-|to)\s?\d+(\s|-)?({_UNIT})\b",
            rf"\b({_WORD})\s+(to\s+({_WORD})\s+)?({_UNIT})\b",
        ]
    )
)


@dataclass(frozen=True)
class Reading:
    """Which matches of the expressions count as dosages."""

    name: str
    percentages: bool
    """Whether matches that end in the token ``%`` count."""
    words: bool
    """Whether matches that do not begin with a digit count."""
    near: int | None
    """Largest distance in tokens to a token of an intervention; None means any distance."""


PRINTED = Reading("printed", percentages=True, words=True, near=None)
RELEASED = Reading("released", percentages=False, words=False, near=10)
READINGS = {one.name: one for one in (RELEASED, PRINTED)}


def find_dosages(tokens: Sequence[str], percentages: bool = True, words: bool = True) -> list[tuple[int, int]]:
    """(start, stop) of the dosages among tokens, in order.

    >>> find_dosages(["Give", "10", "mg", "or", "two", "units", ",", "0.9", "%"])
    [(1, 3), (4, 6), (7, 9)]
    >>> find_dosages(["Give", "10", "mg", "or", "two", "units", ",", "0.9", "%"], percentages=False, words=False)
    [(1, 3)]
    """
    owner = [number for number, token in enumerate(tokens) for _ in range(len(token) + 1)]  # of each character
    found = [(owner[m.start()], owner[m.end() - 1] + 1) for m in PATTERN.finditer(" ".join(tokens))]
    return [
        (start, stop)
        for start, stop in found
        if (percentages or tokens[stop - 1] != "%") and (words or tokens[start][0].isdigit())
    ]


def dosages_of(sentence: Sentence, reading: Reading, type_: str) -> list[tuple[int, int]]:
    """(start, stop) of the dosages of a labelled document; ``type_`` is the label of interventions."""
    found = find_dosages(sentence.tokens, reading.percentages, reading.words)
    if reading.near is None:
        return found
    before = [0, *accumulate(label == type_ for label in sentence.labels)]  # interventions before a token
    last = len(sentence)
    return [
        (start, stop)
        for start, stop in found
        if before[min(stop + reading.near, last)] > before[max(start - reading.near, 0)]
    ]


@dataclass(frozen=True)
class DosageTokens:
    """Which of the N tokens of some documents belong to dosages outside or inside interventions."""

    outside: Tensor
    """(N,) bool: the token belongs to a dosage without a token labelled as an intervention."""
    inside: Tensor
    """(N,) bool: the token belongs to a dosage and is labelled as an intervention."""

    @classmethod
    def of(cls, sentences: Iterable[Sentence], reading: Reading, type_: str) -> DosageTokens:
        outside, inside, first = list[int](), list[int](), 0
        for sentence in sentences:
            for start, stop in dosages_of(sentence, reading, type_):
                labelled = [t for t in range(start, stop) if sentence.labels[t] == type_]
                inside += [first + t for t in labelled]
                if not labelled:
                    outside += range(first + start, first + stop)
            first += len(sentence)
        masks = torch.zeros(2, first, dtype=torch.bool)
        masks[0, outside] = True
        masks[1, inside] = True
        return cls(masks[0], masks[1])
