"""Teach: decisions on some findings change what is believed of the others.

Two questions are learned, each by a Gaussian process (``process``) over what findings have in common (``alike``): are
the given labels wrong, and if so, are the proposed ones right? With p and q the two probabilities, a finding's score is
p and its confidence p q, the probability that the proposed labels are right; decided findings have 0 or 1. Both are
calibrated by what would have been believed of the decided findings without their own decisions (``calibration``).

The priors were fitted to findings on WNUT 2017, NCBI disease and invented text with noise of six kinds
(``reproduce.loop``): without a decision they turn the judges' probabilities into what is usually true of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tagtrace.data.sentence import Sentence
from tagtrace.findings.finding import Finding
from tagtrace.findings.teaching.alike import Alike, Prior
from tagtrace.findings.teaching.calibration import calibrate
from tagtrace.findings.teaching.decided import Decided
from tagtrace.findings.teaching.process import Posterior, learn, probability
from tagtrace.index import Index

MAX_LEARNED = 2000
"""Maximum number of decided findings that are learned from, evenly spaced in the list: the cost grows with its cube."""

WRONG = Prior(
    bias=-1.5,
    weights=(0.3, 0.3, 0.05, -0.1, 0.0, -0.2),
    constant=0.5,
    slopes=0.2,
    groups={"change": 1.0, "text": 0.3, "first": 0.2, "last": 0.4, "before": 0.2, "after": 0.2, "document": 0.3,
            "opening": 0.4},
    near=0.8,
    near_change=0.8,
)  # fmt: skip
"""Are the given labels wrong?"""
RIGHT = Prior(
    bias=0.6,
    weights=(-0.3, 0.0, -0.2, 0.7, 0.5, 0.1),
    constant=0.2,
    slopes=0.2,
    groups={"change": 1.0, "text": 0.2, "first": 0.4, "last": 0.2, "before": 0.5, "after": 0.2, "document": 0.2,
            "opening": 0.3},
    near=0.4,
    near_change=0.8,
)  # fmt: skip
"""If the given labels are wrong, are the proposed ones right?"""


@dataclass(frozen=True)
class Belief:
    """What is believed of one question about F findings."""

    probabilities: Tensor
    """(F,) float64; 0 or 1 where it is known"""
    apart: Tensor
    """(F,): the same as they would be without a finding's own decision; unlike those, they can be wrong about what was
    decided, so that this shows how wrong they are about the rest."""
    variances: Tensor
    """Of the latent values, (F,); 0 where the answer is known."""
    posterior: Posterior | None
    learned: Tensor
    """Numbers of the findings that it was learned from, (n,)."""


@dataclass(frozen=True)
class Taught:
    """Findings after teaching, in the order in which they were given."""

    findings: list[Finding]
    """With new scores and confidences; ``rank`` still identifies each."""
    alike: Alike
    wrong: Belief
    right: Belief
    is_decided: Tensor
    """(F,) bool: whether the labels of all tokens of a finding are decided."""
    is_touched: Tensor
    """(F,) bool: whether those of any of its tokens are."""

    def ranked(self) -> list[Finding]:
        """The findings that are not decided, the most probably wrong first."""
        order = self.wrong.probabilities.argsort(descending=True, stable=True).tolist()
        return [self.findings[i] for i in order if not bool(self.is_decided[i])]


def teach(
    findings: Sequence[Finding],
    decided: Decided,
    openings: Mapping[int, str] | None = None,
    features: Tensor | None = None,
) -> Taught:
    """Believe of ``findings`` what follows from labels that are ``decided``.

    ``openings``: by sentence number, the first token of its document, if documents are known. ``features`` (F, D): the
    mean features of each finding's tokens (``finding_features``), if an index is at hand.
    """
    alike = Alike.of(findings, openings, features)
    outcomes = [decided.outcome(one) for one in findings]
    wrong = answer(alike, WRONG, [is_wrong for is_wrong, _ in outcomes])
    right = answer(alike, RIGHT, [is_right if is_wrong else None for is_wrong, is_right in outcomes])
    both = wrong.probabilities * right.probabilities
    for i, (_, is_right) in enumerate(outcomes):
        if is_right is not None:
            both[i] = float(is_right)
    pairs = zip(findings, wrong.probabilities.tolist(), both.tolist(), strict=True)
    new = [replace(one, score=p, confidence=q) for one, p, q in pairs]
    is_decided = torch.tensor([None not in outcome for outcome in outcomes], dtype=torch.bool)
    is_touched = torch.tensor([decided.touches(one) for one in findings], dtype=torch.bool)
    return Taught(new, alike, wrong, right, is_decided, is_touched)


def finding_features(index: Index, findings: Sequence[Finding]) -> Tensor:
    """The mean features of the tokens of each finding, (F, D) float32; the index is read once, in order."""
    found = torch.zeros(len(findings), index.head.dim)
    for i in sorted(range(len(findings)), key=lambda i: findings[i].sentence_number):
        one = findings[i]
        found[i] = index.sentence_rows(one.sentence_number).features[one.start : one.stop].float().mean(0)
    return found


def first_tokens(sentences: Sequence[Sentence]) -> dict[int, str]:
    """The first token of each sentence's document, by sentence number; sentences without a document are left out."""
    first, found = dict[str, str](), dict[int, str]()
    for number, sentence in enumerate(sentences):
        if sentence.document and sentence.tokens:
            found[number] = first.setdefault(sentence.document, sentence.tokens[0])
    return found


def answer(alike: Alike, prior: Prior, known: Sequence[bool | None]) -> Belief:
    """What is believed where nothing is known (None), given what is."""
    mean, variance = alike.mean(prior), alike.variance(prior)
    learned = torch.tensor([i for i, value in enumerate(known) if value is not None], dtype=torch.long)
    if len(learned) > MAX_LEARNED:
        learned = learned[torch.linspace(0, len(learned) - 1, MAX_LEARNED).long()]
    if not len(learned):
        found = probability(mean, variance)
        return Belief(found, found, variance, None, learned)
    answers = torch.tensor([float(known[i] or 0.0) for i in learned.tolist()], dtype=torch.float64)
    covariance = alike.covariance(prior, learned)  # (n, F)
    posterior = learn(mean[learned], covariance[:, learned], answers)
    mean, variance = posterior.at(mean, covariance, variance)
    alone = probability(*posterior.left_out())
    calibration = calibrate(alone, answers)
    found = calibration(probability(mean, variance))
    apart = found.index_copy(0, learned, calibration(alone))
    for i, value in enumerate(known):
        if value is not None:
            found[i], variance[i] = float(value), 0.0
    return Belief(found, apart, variance, posterior, learned)
