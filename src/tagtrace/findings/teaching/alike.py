"""How much findings have in common: the prior of what decisions on some of them say about the others.

The latent value of a finding (``process``) is a sum of independent parts: a constant, a slope for each number that the
judges give (their doubts and confidence), and one part for each group that the finding belongs to. So the covariance of
two findings is

    K = constant^2 + sum_j slope_j^2 z_j z_j' + sum_g size_g^2 [both are in the same group of kind g]
        + (near^2 + near_change^2 [same change]) cos(v, v')

with v the mean feature of the finding's tokens, less the mean over all findings, where the features are at hand. Groups
are within one change of types (``LOC -> ORG``): the change itself, its text, its first and last word, the word
before and after it, its document and how that begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace.findings.finding import Finding

LIMIT = 1e-4
"""Probabilities are kept this far away from 0 and 1."""

NUM_NUMBERS = 6
"""J, the number of numbers of a finding."""

GROUPS: dict[str, Callable[[Finding], str]] = {
    "change": lambda _: "",
    "text": lambda one: one.text.lower(),
    "first": lambda one: one.tokens[0].lower(),
    "last": lambda one: one.tokens[-1].lower(),
    "before": lambda one: one.before[-1].lower() if one.before else "",
    "after": lambda one: one.after[0].lower() if one.after else "",
    "document": lambda one: one.document or one.sentence,
}
"""By kind of group, what its findings have in common besides their change."""
OPENING = "opening"
"""The kind of group of findings whose documents begin with the same token."""


@dataclass(frozen=True)
class Prior:
    """Sizes of the parts, and the prior mean: ``bias`` + ``weights`` . z."""

    bias: float
    weights: tuple[float, ...]
    constant: float
    slopes: float
    groups: Mapping[str, float]
    near: float = 0.0
    near_change: float = 0.0


@dataclass(frozen=True)
class Alike:
    """What a list of findings is compared by."""

    numbers: Tensor
    """z (F, J) float64: log odds of doubts and confidence, and the log of the number of tokens."""
    codes: Mapping[str, Tensor]
    """By kind of group, the number of each finding's group, (F,)."""
    vectors: Tensor | None = None
    """v / |v|, (F, D) float32."""

    @classmethod
    def of(
        cls, findings: Sequence[Finding], openings: Mapping[int, str] | None = None, features: Tensor | None = None
    ) -> Alike:
        """``openings``: by sentence number, the first token of its document; ``features`` (F, D): means of tokens."""
        rows = [numbers_of(one) for one in findings]
        shared = {kind: [name(one) for one in findings] for kind, name in GROUPS.items()}
        if openings is not None:
            shared[OPENING] = [openings.get(one.sentence_number, "") for one in findings]
        codes = {
            kind: _numbered(zip((one.change for one in findings), names, strict=True)) for kind, names in shared.items()
        }
        return cls(torch.tensor(rows, dtype=torch.float64).view(len(findings), NUM_NUMBERS), codes, _units(features))

    def mean(self, prior: Prior) -> Tensor:
        """m (F,)"""
        return prior.bias + self.numbers @ torch.tensor(prior.weights, dtype=torch.float64)

    def covariance(self, prior: Prior, some: Tensor, others: Tensor | None = None) -> Tensor:
        """K (n, m) of the findings ``some`` (n,) with ``others`` (m,), or with all."""
        every = slice(None) if others is None else others
        found = prior.constant**2 + prior.slopes**2 * self.numbers[some] @ self.numbers[every].T
        for kind, code in self.codes.items():
            found += prior.groups[kind] ** 2 * (code[some].unsqueeze(1) == code[every]).double()
        if self.vectors is not None:
            code = self.codes["change"]
            size = prior.near**2 + prior.near_change**2 * (code[some].unsqueeze(1) == code[every]).double()
            found += size * (self.vectors[some] @ self.vectors[every].T)
        return found

    def variance(self, prior: Prior) -> Tensor:
        """The diagonal of K, (F,)."""
        sizes = prior.constant**2 + sum(prior.groups[kind] ** 2 for kind in self.codes)
        if self.vectors is not None:
            sizes += prior.near**2 + prior.near_change**2
        return sizes + prior.slopes**2 * self.numbers.square().sum(1)


def _units(features: Tensor | None) -> Tensor | None:
    """Directions from the mean, (F, D) float32."""
    if features is None or not len(features):
        return None
    moved = features.float() - features.float().mean(0)
    return moved / moved.norm(dim=1, keepdim=True).clamp(min=1e-12)


def _numbered(names: Iterable[tuple[str, str]]) -> Tensor:
    """The number of each name, in the order in which they first occur."""
    numbers: dict[tuple[str, str], int] = {}
    return torch.tensor([numbers.setdefault(name, len(numbers)) for name in names], dtype=torch.long)


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
