"""What editing training labels does to a query: its loss and its label probabilities, before and after."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace.influence.query import Query
from tagtrace.tagger.head import Head


@dataclass(frozen=True)
class Effect:
    """A query's conditional loss and p(y_t | labels outside the segment, x), (tokens of the segment, C)."""

    before: float
    after: float
    probabilities_before: Tensor
    probabilities_after: Tensor

    @property
    def change(self) -> float:
        """Positive for a supporter that is taken away: without it the query's loss is higher."""
        return self.after - self.before

    @property
    def flips(self) -> bool:
        """Whether a token of the segment has another likeliest label afterwards."""
        return not torch.equal(self.probabilities_before.argmax(1), self.probabilities_after.argmax(1))


@torch.no_grad()
def effect(query: Query, head: Head, moved: Head) -> Effect:
    """What moving from ``head`` to ``moved`` does to ``query``."""
    return Effect(
        float(query.loss(head)),
        float(query.loss(moved)),
        query.probabilities(head),
        query.probabilities(moved),
    )
