"""What to ask next: the decisions that are worth most.

Of every ten questions, six are the findings in which most wrong labels are expected, two are those that teach most, and
two are sentences of a random sample, from which the number of wrong labels left is estimated (``errors_left``).

A finding teaches as much as its answer is expected to change what is believed of all others. With S the posterior
covariance of the latent values and w = p (1 - p), the answer for f moves the probability of g by about w_g S_fg
delta, so f is worth

    sum_g w_g^2 n_g^2 S_fg^2 / (S_ff + 1 / w_f)

with n_g the number of labels that finding g would change. After a choice, S is what it would be with that answer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tagtrace.findings.finding import Finding
from tagtrace.findings.teaching.errors_left import Draws
from tagtrace.findings.teaching.teach import WRONG, Taught

Reason = Literal["likely", "teaches", "sample"]
CYCLE: tuple[Reason, ...] = (
    "likely", "sample", "likely", "teaches", "likely", "likely", "sample", "likely", "teaches", "likely",
)  # fmt: skip
MAX_COMPARED = 600
"""Maximum number of findings among which the one that teaches most is looked for: those that matter and vary most."""


@dataclass(frozen=True)
class Question:
    """A finding to decide on, or a whole sentence to check."""

    reason: Reason
    sentence_number: int
    finding: Finding | None = None


def next_questions(
    taught: Taught, draws: Draws, checked: Collection[int], count: int, num_asked: int = 0
) -> list[Question]:
    """The next ``count`` questions after ``num_asked``; sentences that are ``checked`` are not asked about again."""
    wanted: list[Reason] = [CYCLE[(num_asked + k) % len(CYCLE)] for k in range(count)]
    is_open = ~taught.is_decided
    sampled = iter(draws.new(checked, wanted.count("sample")))
    teaching = iter(_teaching(taught, is_open, wanted.count("teaches")))
    likely = iter(_likely(taught, is_open, count + wanted.count("teaches")))
    found, taken = list[Question](), set[int]()
    for reason in wanted:
        number = next(sampled, None) if reason == "sample" else None
        if number is not None:
            found.append(Question("sample", number))
            continue
        source = teaching if reason == "teaches" else likely
        place = next((one for one in source if one not in taken), None)
        if place is None:
            place = next((one for one in likely if one not in taken), None)
        if place is not None:
            taken.add(place)
            one = taught.findings[place]
            found.append(Question("likely" if reason == "sample" else reason, one.sentence_number, one))
    return found


def num_changed(findings: Sequence[Finding]) -> Tensor:
    """The number of labels that each finding would change, (F,) float64."""
    return torch.tensor([one.num_changed for one in findings], dtype=torch.float64)


def _likely(taught: Taught, is_open: Tensor, count: int) -> list[int]:
    """The open findings with the largest expected number of wrong labels."""
    value = torch.where(is_open, taught.wrong.probabilities * num_changed(taught.findings), -1.0)
    order = value.argsort(descending=True, stable=True)[: count + 1].tolist()
    return [place for place in order if bool(is_open[place])]


def _teaching(taught: Taught, is_open: Tensor, count: int) -> list[int]:
    """The open findings that teach most, one after the other."""
    p = taught.wrong.probabilities
    weight = p * (1.0 - p)
    size = num_changed(taught.findings)
    some = torch.where(is_open, weight * size * taught.wrong.variances.sqrt(), -1.0).topk(min(MAX_COMPARED, len(p)))
    places = some.indices[some.values > 0]
    if count == 0 or not len(places):
        return []
    covariance, value, chosen = _posterior_covariance(taught, places), (weight * size)[places].square(), list[int]()
    for _ in range(min(count, len(places))):
        scale = covariance.diagonal() + 1.0 / weight[places].clamp(min=1e-6)
        best = int(((covariance.square() @ value) / scale).argmax())
        chosen.append(int(places[best]))
        covariance = covariance - torch.outer(covariance[best], covariance[best]) / scale[best]
    return list(dict.fromkeys(chosen))


def _posterior_covariance(taught: Taught, places: Tensor) -> Tensor:
    """S (m, m) of findings (m,)."""
    answer, alike = taught.wrong, taught.alike
    covariance = alike.covariance(WRONG, places, places)
    if answer.posterior is None:
        return covariance
    known = alike.covariance(WRONG, answer.learned, places)  # (n, m)
    left = torch.linalg.solve_triangular(
        answer.posterior.factor, answer.posterior.root.unsqueeze(1) * known, upper=False
    )
    return covariance - left.T @ left
