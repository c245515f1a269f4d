"""The margin of a prediction: the difference between the most likely labels of a segment and the next.

Given the labels outside the segment, two labellings y and y' of it differ in log-probability by

    m(theta) = CL(y') - CL(y) = score(y) - score(y'),

which is linear in theta: log Z is not needed, and the gradient is the same everywhere. Only labellings that the scheme
allows count, as in prediction. The prediction flips where m falls below 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.influence.query import Query
from tagtrace.tagger import crf
from tagtrace.tagger.head import Head
from tagtrace.tagger.scores import Scores

TIE = 1e-3
"""Margins closer to 0 than this do not count as a flip: retraining is not exact to the last digit."""


@dataclass(frozen=True)
class Gap:
    """m between two labellings of the segment under one head."""

    value: float
    keep: tuple[int, ...]
    rival: tuple[int, ...]

    @property
    def flips(self) -> bool:
        """Whether m is clearly below 0."""
        return self.value < -TIE


class Margin:
    """The margin of ``query``, whose most likely labels under ``head`` are ``predicted``.

    Without ``to``: the predicted labels against the likeliest others. With ``to``: the likeliest others against ``to``,
    so that m < 0 if ``to`` has become the prediction.
    """

    to: tuple[int, ...] | None
    predicted: tuple[int, ...]

    def __init__(self, query: Query, head: Head, to: Sequence[int] | None = None) -> None:
        self.query = query
        self.to = None if to is None else tuple(to)
        self.predicted = best_labels(query, head)
        if self.to is not None and len(self.to) != len(self.predicted):
            raise OptionError(f"the segment has {len(self.predicted)} tokens; name one label for each to flip to")
        if self.to == self.predicted:
            raise OptionError("these labels are already the most likely ones; name other labels to flip to")

    @torch.no_grad()
    def at(self, head: Head) -> Gap:
        """m under ``head``, against the closest rival."""
        window = _window(self.query, head)
        fixed = self.predicted if self.to is None else self.to
        other, score = _best_but(window, fixed)
        own = float(crf.path_score(window, torch.tensor([fixed])))
        if own == -torch.inf:
            raise OptionError("the label scheme forbids these labels between those around the segment; name others")
        return Gap(own - score, fixed, other) if self.to is None else Gap(score - own, other, fixed)

    def gradient(self, gap: Gap, head: Head) -> Tensor:
        """dm/dtheta, (P,): the features of ``keep`` minus those of ``rival``."""
        rival, keep = (self.query.with_labels(torch.tensor(labels)) for labels in (gap.rival, gap.keep))
        return rival.gradient(head) - keep.gradient(head)


@torch.no_grad()
def best_labels(query: Query, head: Head) -> tuple[int, ...]:
    """The most likely labels of the segment given the labels outside it."""
    return tuple(crf.viterbi(_window(query, head))[0][0])


def _window(query: Query, head: Head) -> Scores:
    """Scores of the segment alone, (1, n, C), given the labels around it, with the scheme's constraints."""
    scores = head(query.features.to(head.weight), torch.tensor([len(query.labels)]), constrained=True)
    return crf.segment_scores(scores, query.labels.unsqueeze(0), query.segment)


def _best_but(window: Scores, labels: tuple[int, ...]) -> tuple[tuple[int, ...], float]:
    """The best labelling other than ``labels``, and its score: for each token, the best that differs there is tried."""
    n = len(labels)
    emissions = window.emissions.repeat(n, 1, 1)  # (n, n, C)
    emissions[torch.arange(n), torch.arange(n), torch.tensor(labels)] = -torch.inf
    paths, scores = crf.viterbi(replace(window, emissions=emissions, lengths=window.lengths.repeat(n)))
    best = int(scores.argmax())
    if float(scores[best]) == -torch.inf:
        raise OptionError("the labels around the segment allow no other labels in it; choose a longer segment")
    return tuple(paths[best]), float(scores[best])
