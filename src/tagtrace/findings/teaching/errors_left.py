"""How many wrong labels are left, estimated with an interval from sentences that were drawn at random and checked.

Sentence i is drawn with probability pi_i at each of n draws (with replacement; a sentence that is drawn again is not
asked again). With w_i the number of its wrong labels and m_i what the model expects,

    T = sum_i m_i + (1/n) sum over draws j of (w_j - m_j) / pi_j

is unbiased for the number of all wrong labels whatever the model believes (Hansen and Hurwitz 1943, of the model's
errors), as long as m does not depend on the draws, and precise where it is right. Its variance is estimated from the
spread of the n terms and of one more, a wrong label that the draws have missed: where errors are rare, the interval is
approximate. pi grows with what the model expects and with length, so that sentences without findings are drawn too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tagtrace._checks import OptionError
from tagtrace.findings.finding import Finding

LEAST = 20
"""Minimum number of draws for an estimate."""
STUDENT = 2.1
"""Quantile of Student's distribution for so many."""
UNIFORM = 0.5
"""Share of the draws that depend on nothing but a sentence's length."""


@dataclass(frozen=True)
class ErrorsLeft:
    """The estimated number of wrong labels that nobody has corrected yet."""

    count: float
    margin: float
    """Half the width of an interval of about 95 %; infinite with fewer than ``LEAST`` draws."""
    num_draws: int

    def __str__(self) -> str:
        if not math.isfinite(self.margin):
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

    def new(self, known: Collection[int], count: int) -> list[int]:
        """The first ``count`` sentences that are drawn and not ``known``; fewer if there are no more."""
        found = dict.fromkeys(number for number in self._long(count, known) if number not in known)
        return list(found)[:count]

    def checked(self, known: Collection[int]) -> list[int]:
        """The draws up to the first whose sentence is not ``known``."""
        numbers = self._long(1, known)
        stop = next((place for place, number in enumerate(numbers) if number not in known), len(numbers))
        return numbers[:stop]

    def _long(self, count: int, known: Collection[int]) -> list[int]:
        """Draws that have ``count`` different sentences which are not ``known``, unless that takes too many."""
        size, most = 16, 64 * max(len(self.probabilities), 16)
        while len(set(self.first(size)).difference(known)) < count and size < most:
            size *= 2
        return self.first(size)


def expected_wrong(findings: Sequence[Finding], probabilities: Sequence[float]) -> dict[int, float]:
    """The number of wrong labels that findings lead to expect in each sentence, by sentence number."""
    found: dict[int, float] = {}
    for one, p in zip(findings, probabilities, strict=True):
        found[one.sentence_number] = found.get(one.sentence_number, 0.0) + p * one.num_changed
    return found


def errors_left(draws: Draws, seen: Mapping[int, int], expected: Mapping[int, float], num_fixed: int) -> ErrorsLeft:
    """The estimate from the first draws whose sentences were all checked.

    ``seen``: the number of labels that were wrong in each checked sentence; ``expected`` (by sentence number): what the
    model expects of every sentence, of checked ones too as it would without these decisions (``Belief.apart``);
    ``num_fixed``: labels that were corrected.
    """
    if len(seen) == len(draws.probabilities):
        return ErrorsLeft(max(float(sum(seen.values()) - num_fixed), 0.0), 0.0, len(seen))
    numbers = draws.checked(seen)
    residuals = np.array([(seen[i] - expected.get(i, 0.0)) / draws.probabilities[i] for i in numbers])
    if len(numbers) < LEAST:
        known = {i: float(count) for i, count in seen.items()}
        return ErrorsLeft(max(sum({**expected, **known}.values()) - num_fixed, 0.0), float("inf"), len(numbers))
    estimate = sum(expected.values()) + residuals.mean()
    unseen = residuals.mean() + len(draws.probabilities)  # one wrong label more in a sentence of mean probability
    spread = float(np.append(residuals, unseen).std(ddof=1))
    return ErrorsLeft(max(float(estimate) - num_fixed, 0.0), STUDENT * spread / len(numbers) ** 0.5, len(numbers))
