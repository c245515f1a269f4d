"""How many wrong labels are left, estimated with an interval from sentences that were drawn at random and checked.

Sentence i is drawn with probability pi_i at each of n draws (with replacement; a sentence that is drawn again is not
asked again). With w_i the number of its wrong labels and m_i what the model expects,

    T = sum_i m_i + (1/n) sum over draws j of (w_j - m_j) / pi_j

is unbiased for the number of all wrong labels whatever the model believes (Hansen and Hurwitz 1943, of the model's
errors), and precise where it is right. Its variance is estimated from the spread of the n terms. pi grows with what the
model expects and with length, so that sentences without findings are drawn too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tagtrace._checks import OptionError
from tagtrace.findings.finding import Finding

UNIFORM = 0.5
"""Share of the draws that depend on nothing but a sentence's length."""


@dataclass(frozen=True)
class ErrorsLeft:
    """The estimated number of wrong labels that nobody has corrected yet."""

    count: float
    margin: float
    """Half the width of the 95 % interval; infinite with fewer than two draws."""
    num_draws: int

    def __str__(self) -> str:
        if self.num_draws < 2:
            return "the number of wrong labels is not known yet"
        return f"about {self.count:,.0f} ± {self.margin:,.0f} wrong labels left"


@dataclass(frozen=True)
class Draws:
    """An endless random sequence of sentences, and the probability of each."""

    probabilities: np.ndarray
    """pi (B,)"""
    seed: int = 0

    @classmethod
    def of(cls, lengths: Sequence[int], expected: Mapping[int, float], seed: int = 0) -> Draws:
        """``lengths`` of all B sentences (tokens), and the ``expected`` number of wrong labels by sentence number."""
        sizes = np.array(lengths, dtype=float)
        if not sizes.sum():
            raise OptionError("there are no tokens to draw from; give data with sentences")
        hoped = np.zeros(len(sizes))
        for number, count in expected.items():
            hoped[number] = count
        share = UNIFORM if hoped.sum() > 0 else 1.0
        return cls(share * sizes / sizes.sum() + (1.0 - share) * hoped / max(hoped.sum(), 1e-300), seed)

    def first(self, count: int) -> list[int]:
        """The first ``count`` draws; longer sequences begin with shorter ones."""
        uniform = np.random.default_rng(self.seed).random(count)
        return (
            np.searchsorted(self.probabilities.cumsum(), uniform, side="right")
            .clip(max=len(self.probabilities) - 1)
            .tolist()
        )


def expected_wrong(findings: Sequence[Finding], probabilities: Sequence[float]) -> dict[int, float]:
    """The number of wrong labels that findings lead to expect in each sentence, by sentence number."""
    found: dict[int, float] = {}
    for one, p in zip(findings, probabilities, strict=True):
        changed = sum(given != proposed for given, proposed in zip(one.given, one.proposed, strict=True))
        found[one.sentence_number] = found.get(one.sentence_number, 0.0) + p * changed
    return found


def errors_left(draws: Draws, seen: Mapping[int, int], expected: Mapping[int, float], num_fixed: int) -> ErrorsLeft:
    """The estimate from the first draws whose sentences were all checked.

    ``seen``: the number of labels that were wrong in each checked sentence; ``expected`` (by sentence number): what the
    model expects of every sentence, of checked ones too as it would without these decisions (``Belief.apart``);
    ``num_fixed``: labels that were corrected.
    """
    numbers = _checked(draws, seen)
    residuals = np.array([(seen[i] - expected.get(i, 0.0)) / draws.probabilities[i] for i in numbers])
    known = {i: float(count) for i, count in seen.items()}
    total = sum({**expected, **known}.values())  # what is known needs no model
    if len(numbers) < 2:
        return ErrorsLeft(max(total - num_fixed, 0.0), float("inf"), len(numbers))
    estimate = sum(expected.values()) + residuals.mean()
    margin = 1.96 * residuals.std(ddof=1) / len(numbers) ** 0.5
    return ErrorsLeft(max(float(estimate) - num_fixed, 0.0), float(margin), len(numbers))


def _checked(draws: Draws, seen: Mapping[int, int]) -> list[int]:
    """The draws up to the first whose sentence was not checked."""
    count = 16
    while True:
        numbers = draws.first(count)
        stop = next((place for place, number in enumerate(numbers) if number not in seen), None)
        if stop is not None:
            return numbers[:stop]
        if count > 64 * max(len(draws.probabilities), 16):
            return numbers
        count *= 2
