"""How much findings have in common: the prior of what decisions on some of them say about the others.

The latent value of a finding (``process``) is a sum of independent parts: a constant, a slope for each number that the
judges give (their doubts and confidence), and one part for each group that the finding belongs to. So the covariance of
two findings is

    K = constant^2 + sum_j slope_j^2 z_j z_j' + sum_g size_g^2 [both are in the same group of kind g]

Groups are within one change of types (``LOC -> ORG``): the change itself, its text, its first and last word, the word
before and after it, its document and how that begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace.findings.finding import Finding

LIMIT = 1e-4
"""Probabilities are kept this far away from 0 and 1."""

NUM_NUMBERS = 6
"""J, the number of numbers of a finding."""

GROUPS: dict[str, Callable[[Finding, str], tuple[str, ...]]] = {
    "change": lambda one, _: (),
    "text": lambda one, _: (one.text.lower(),),
    "first": lambda one, _: (one.tokens[0].lower(),),
    "last": lambda one, _: (one.tokens[-1].lower(),),
    "before": lambda one, _: (one.before[-1].lower() if one.before else "",),
    "after": lambda one, _: (one.after[0].lower() if one.after else "",),
    "document": lambda one, _: (one.document or one.sentence,),
    "opening": lambda one, opening: (opening,),
}
"""By kind of group, what its findings have in common besides their change; the second argument is the document's first
token."""


@dataclass(frozen=True)
class Prior:
    """Sizes of the parts, and the prior mean: ``bias`` + ``weights`` . z."""

    bias: float
    weights: tuple[float, ...]
    constant: float
    slopes: float
    groups: Mapping[str, float]


@dataclass(frozen=True)
class Alike:
    """What a list of findings is compared by."""

    numbers: Tensor
    """z (F, J) float64: log odds of doubts and confidence, and the log of the number of tokens."""
    codes: Mapping[str, Tensor]
    """By kind of group, the number of each finding's group, (F,)."""

    @classmethod
    def of(cls, findings: Sequence[Finding], openings: Mapping[int, str] | None = None) -> Alike:
        """``openings``: by sentence number, the first token of its document."""
        rows = [numbers_of(one) for one in findings]
        codes: dict[str, Tensor] = {}
        for kind, shared in GROUPS.items():
            names: dict[tuple[str, ...], int] = {}
            found = [
                names.setdefault((one.change, *shared(one, (openings or {}).get(one.sentence_number, ""))), len(names))
                for one in findings
            ]
            codes[kind] = torch.tensor(found, dtype=torch.long)
        return cls(torch.tensor(rows, dtype=torch.float64).view(len(findings), NUM_NUMBERS), codes)

    def mean(self, prior: Prior) -> Tensor:
        """m (F,)"""
        return prior.bias + self.numbers @ torch.tensor(prior.weights, dtype=torch.float64)

    def covariance(self, prior: Prior, some: Tensor) -> Tensor:
        """K (n, F) of the findings ``some`` (n,) with all."""
        found = prior.constant**2 + prior.slopes**2 * self.numbers[some] @ self.numbers.T
        for kind, size in prior.groups.items():
            code = self.codes[kind]
            found += size**2 * (code[some].unsqueeze(1) == code)
        return found

    def variance(self, prior: Prior) -> Tensor:
        """The diagonal of K, (F,)."""
        sizes = prior.constant**2 + sum(size**2 for size in prior.groups.values())
        return sizes + prior.slopes**2 * self.numbers.square().sum(1)


def numbers_of(one: Finding) -> tuple[float, ...]:
    """z of a finding, each about as large as 1."""
    doubt = one.scores.get("doubt", one.confidence)
    inside, outside = (one.scores.get(f"{sample} doubt", doubt) for sample in ("in-sample", "out-of-sample"))
    share = min(one.confidence / max(doubt, LIMIT), 1.0)  # of the doubt that goes to the proposed labels
    return (
        *(0.5 * log_odds(value) for value in (doubt, inside, outside, one.confidence, share)),
        math.log(len(one.tokens)),
    )


def log_odds(p: float) -> float:
    p = min(max(p, LIMIT), 1.0 - LIMIT)
    return math.log(p / (1.0 - p))
