"""A query: the prediction to be explained, and the gradient of its conditional loss."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.influence.scoring.factors import Factors
from tagtrace.tagger import crf
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import Rows
from tagtrace.tagger.scores import Scores


@dataclass(frozen=True)
class Query:
    """Tokens ``start:stop`` of one sentence with features (T, D) and labels (T,): gold, predicted or named by the user.

    The labels outside the segment are what the conditional loss takes as given.
    """

    features: Tensor
    labels: Tensor
    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop <= len(self.labels) or len(self.features) != len(self.labels):
            raise OptionError(
                f"segment {self.start}:{self.stop} does not lie in a sentence of {len(self.labels)} tokens; "
                "segments are start:stop as in a Python slice"
            )

    @property
    def segment(self) -> Tensor:
        """(1, 3), for ``crf``."""
        return torch.tensor([[0, self.start, self.stop]])

    def with_labels(self, labels: Tensor) -> Query:
        """The same segment with other labels in it, (stop - start,)."""
        changed = self.labels.clone()
        changed[self.start : self.stop] = labels
        return replace(self, labels=changed)

    def loss(self, head: Head) -> Tensor:
        """CL = -log p(labels in the segment | labels outside, x) under ``head``; differentiable."""
        features = self.features.to(head.weight)
        scores: Scores = head(features, torch.tensor([len(self.labels)]))
        return crf.conditional_loss(scores, self.labels.unsqueeze(0), self.segment)[0]

    @torch.no_grad()
    def probabilities(self, head: Head) -> Tensor:
        """p(y_t | labels outside the segment, x) for its tokens, (stop - start, C)."""
        scores: Scores = head(self.features.to(head.weight), torch.tensor([len(self.labels)]))
        return crf.node_marginals(crf.segment_scores(scores, self.labels.unsqueeze(0), self.segment))[0]

    def gradient(self, head: Head) -> Tensor:
        """dCL/dtheta, (P,), in float64; exact in direction also where p(labels) rounds to 1 (``factors``)."""
        features, labels = self.features.to(head.weight.device).double(), self.labels.to(head.weight.device).long()
        rows = Rows(features, labels, torch.tensor([len(labels)]))
        return Factors.of(head, rows, self.segment).dense()[0]


def sentence_rows(rows: Rows, sentence_number: int) -> Rows:
    """One sentence of ``rows`` alone."""
    start = int(rows.lengths[:sentence_number].sum())
    stop = start + int(rows.lengths[sentence_number])
    return Rows(rows.features[start:stop], rows.labels[start:stop], rows.lengths[sentence_number : sentence_number + 1])
