"""The derivatives of many training losses along one direction V of the weights, by one pass over the data.

    dL/dV = (L(theta + h V) - L(theta)) / h

L(theta) is computed once for many directions. The query's loss changes with slope V . g_q, at most sum |dCL/d
emissions| times the change of its emissions: from both follows an h that moves these by about STEP, however certain the
labels are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from tagtrace.influence.whole.gradients import QueryGradient, max_tokens
from tagtrace.influence.whole.weights import inner, moved_along
from tagtrace.tagger import crf
from tagtrace.tagger.scores import Scores
from tagtrace.tagger.tagger import Example, Tagger, batch_losses, length_batches, padded_labels

STEP = 0.01
"""How much the emissions of the query change in a step along V, about."""


class Losses(Protocol):
    """Which losses are asked for."""

    def __len__(self) -> int: ...

    def sentences(self) -> Tensor:
        """The number of each loss's sentence."""
        ...

    def of_batch(self, scores: Scores, batch: Sequence[Example], indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The numbers of the losses of a batch, and their values; ``indices`` are the numbers of its sentences."""
        ...


@dataclass(frozen=True)
class SentenceLosses:
    """Of the known labels of each of N sentences."""

    num_sentences: int

    def __len__(self) -> int:
        return self.num_sentences

    def sentences(self) -> Tensor:
        return torch.arange(self.num_sentences)

    def of_batch(self, scores: Scores, batch: Sequence[Example], indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        return torch.tensor(indices), batch_losses(scores, batch)


@dataclass(frozen=True, eq=False)
class SegmentLosses:
    """Conditional losses of segments (S, 3), sentence number, start, stop: of their labels, or of others."""

    segments: Tensor
    labels: Tensor | None = None
    """(S, L), with anything after a segment's length."""

    def __len__(self) -> int:
        return len(self.segments)

    def sentences(self) -> Tensor:
        return self.segments[:, 0]

    @cached_property
    def _by_sentence(self) -> tuple[Tensor, list[int]]:
        """The numbers of the segments in the order of their sentences, and where those of each sentence begin."""
        sentences = self.segments[:, 0]
        ends = sentences.bincount().cumsum(0) if len(sentences) else sentences
        return sentences.argsort(stable=True), [0, *ends.tolist()]

    def of_batch(self, scores: Scores, batch: Sequence[Example], indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        order, ends = self._by_sentence
        parts = [order[ends[i] : ends[i + 1]] for i in indices if i + 1 < len(ends)]
        numbers = torch.cat(parts) if parts else order[:0]
        if not len(numbers):
            return numbers, torch.zeros(0)
        mine, places = self.segments[numbers], [place for place, i in enumerate(indices) if i + 1 < len(ends)]
        rows = torch.tensor(places).repeat_interleave(torch.tensor([len(part) for part in parts]))
        local = torch.cat([rows.unsqueeze(1), mine[:, 1:]], 1)
        if self.labels is None:
            return numbers, crf.conditional_loss(scores, padded_labels(batch), local)
        inside = crf.segment_scores(scores, padded_labels(batch), local)
        longest = int((mine[:, 2] - mine[:, 1]).max())
        return numbers, crf.joint_loss(inside, self.labels[numbers, :longest])


def slopes(
    tagger: Tagger,
    examples: Sequence[Example],
    direction: Mapping[str, Tensor],
    gradient: QueryGradient,
    asked: Sequence[Losses],
    before: Tensor,
) -> Tensor:
    """The derivatives along V = ``direction`` of all losses ``asked``, in float64; ``gradient`` is the query's.

    ``before`` are the losses at theta (``losses_of``).
    """
    slope = abs(inner(direction, gradient.parts))
    if slope == 0.0 or gradient.size == 0.0:
        return torch.zeros(len(before), dtype=torch.float64)
    step = STEP * gradient.size / slope
    with moved_along(tagger, direction, step):
        return (losses_of(tagger, examples, asked) - before) / step


@torch.no_grad()
def losses_of(tagger: Tagger, examples: Sequence[Example], asked: Sequence[Losses]) -> Tensor:
    """All losses ``asked``, one after the other, in float64."""
    found = [torch.zeros(len(some), dtype=torch.float64) for some in asked]
    for indices in length_batches([example.length for example in examples], max_tokens(tagger)):
        batch = [examples[i] for i in indices]
        scores = tagger.scores(batch)
        for values, some in zip(found, asked, strict=True):
            numbers, mine = some.of_batch(scores, batch, indices)
            values[numbers] = mine.double().cpu()
    return torch.cat(found)
