"""Influence through the whole tagger: which training labels move a prediction when encoder and head are trained again.

Training again starts from other random numbers, so what is explained is not one tagger but its recipe: a few taggers
are trained by it, with different seeds, for the first quarter of their epochs. Early on, gradients still show what each
sentence teaches; later most losses are nearly zero. Scores of the seeds are averaged. On each of these taggers

    score = g_q^T S^(1/2) (F + lambda I)^-1 S^(1/2) g_z

for the conditional loss of a training segment z (``gradient_kernel``). The gradient of a segment is never computed:
with V = S^(1/2) (F + lambda I)^-1 S^(1/2) g_q, the score is the derivative along V of the segment's loss, for all
segments at once the difference of two passes over the training data, with the weights theta + h V and theta; the
second is made only once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace._progress import Progress
from tagtrace.data.sentence import Sentence
from tagtrace.influence.query import Query
from tagtrace.influence.whole.gradient_kernel import GradientKernel, fast_products, memory_of, sentence_kernel
from tagtrace.influence.whole.gradient_products import gradient_products
from tagtrace.influence.whole.gradients import QueryGradient, conditional_gradient, weighted_gradient
from tagtrace.influence.whole.slopes import Losses, SegmentLosses, SentenceLosses, losses_of, slopes
from tagtrace.influence.whole.weights import Vector
from tagtrace.tagger.recipe import Recipe
from tagtrace.tagger.tagger import Example, Tagger, pick_device
from tagtrace.tagger.training import Step, train_tagger

EARLY = 0.25
"""Share of its epochs that a tagger is trained for; at least one."""
MANY = 4
"""From so many queries on, products with the gradients of all sentences are faster than derivatives along each."""
Question = Query | Sequence[Query]
"""A query, or several, whose losses are summed."""
ROOM = 8
"""Memory for the gradients of queries, relative to that for sentences."""


@dataclass(frozen=True)
class EarlyTagger:
    """One tagger, the first epochs of its training, and the kernel of its training sentences."""

    tagger: Tagger
    examples: list[Example]
    kernel: GradientKernel
    has_curvature: bool = True
    """Otherwise lambda outweighs F, and scores are g_q^T S g_z."""
    _before: dict[tuple[Losses, ...], Tensor] = field(default_factory=dict, repr=False)
    """The losses that were last asked for, at theta."""

    def sentence_scores(self, queries: Sequence[Question]) -> Tensor:
        """The influence of every training sentence on queries, (Q, N)."""
        if len(self.kernel.members) < len(self.examples):
            return self.scores(queries, SentenceLosses(len(self.examples)))
        if not self.has_curvature:
            return torch.cat([products for _, products in self._products(queries)])
        return torch.cat([self.kernel.scores(products) for _, products in self._products(queries)])

    def scores(self, queries: Sequence[Question], *asked: Losses) -> Tensor:
        """The influence on queries of what has the losses ``asked``, their derivatives along V, (Q, sum of sizes)."""
        found: list[Tensor] = []
        for gradient, direction in self._directions(queries):
            before = self._losses_before(asked)
            found.append(slopes(self.tagger, self.examples, direction, gradient, asked, before))
        if not self.has_curvature:
            return torch.stack(found)
        shares = torch.cat([self.kernel.shares[some.sentences()] for some in asked])
        return torch.stack(found) * shares

    def _directions(self, queries: Sequence[Question]) -> Iterator[tuple[QueryGradient, Vector]]:
        """The gradient of each query, and V."""
        if not self.has_curvature:
            for query in queries:
                gradient = self._gradient(query)
                yield gradient, self._scaled(gradient.parts)
            return
        for gradients, products in self._products(queries):
            for gradient, weights in zip(gradients, self.kernel.coefficients(products), strict=True):
                yield gradient, self._direction(gradient, weights)

    def _losses_before(self, asked: tuple[Losses, ...]) -> Tensor:
        """The losses at theta, kept for the next query that asks the same."""
        if asked not in self._before:
            self._before.clear()
            self._before[asked] = losses_of(self.tagger, self.examples, asked)
        return self._before[asked]

    @cached_property
    def _members(self) -> list[Example]:
        """The sentences of the kernel."""
        return [self.examples[i] for i in self.kernel.members.tolist()]

    @cached_property
    def _member_losses(self) -> Tensor:
        return losses_of(self.tagger, self._members, (SentenceLosses(len(self._members)),))

    def _direction(self, gradient: QueryGradient, weights: Tensor) -> Vector:
        """V, for the coefficients c (M,) of the query."""
        with fast_products():
            taught = weighted_gradient(self.tagger, self._members, weights)
        left = {name: -part for name, part in taught.items()}
        left |= {name: part + left.get(name, 0.0) for name, part in gradient.parts.items()}
        return {name: part / self.kernel.damping for name, part in self._scaled(left).items()}

    def _gradient(self, question: Question) -> QueryGradient:
        """The gradient of the conditional loss of a query, or of the sum of several."""
        first, *others = [question] if isinstance(question, Query) else question
        found = self._query_gradient(first)
        for query in others:
            found = found.plus(self._query_gradient(query))
        return found

    def _query_gradient(self, query: Query) -> QueryGradient:
        if query.sentence is None:
            raise OptionError("this query has no sentence to encode; make it with make_query")
        example = Example(self.tagger.encoder.prepare(query.sentence), query.labels.tolist(), len(query.labels))
        return conditional_gradient(self.tagger, example, query.start, query.stop)

    def _products(self, queries: Sequence[Question]) -> Iterator[tuple[list[QueryGradient], Tensor]]:
        """The gradients of some queries at a time, and k: g_q^T S g_i for every sentence i of the kernel, (q, M)."""
        size = 4 * sum(len(scale) for scale in self.kernel.scales.values())
        room = max(ROOM * memory_of(self.tagger.device) // size, 1)
        for start in range(0, len(queries), room):
            gradients = [self._gradient(query) for query in queries[start : start + room]]
            scaled = [self._scaled(gradient.parts) for gradient in gradients]
            if len(scaled) >= MANY:
                yield gradients, gradient_products(self.tagger, self._members, scaled)
            else:
                yield gradients, torch.stack([self._slopes(*one) for one in zip(scaled, gradients, strict=True)])

    def _slopes(self, direction: Vector, gradient: QueryGradient) -> Tensor:
        """The derivatives of the losses of the kernel's sentences, (M,)."""
        asked = (SentenceLosses(len(self._members)),)
        return slopes(self.tagger, self._members, direction, gradient, asked, self._member_losses)

    def _scaled(self, gradient: Vector) -> Vector:
        """S g; layers that no training sentence uses do not move."""
        scales = self.kernel.scales
        return {name: part * scales[name].to(part) for name, part in gradient.items() if name in scales}


@dataclass(frozen=True)
class WholeInfluence:
    """Influence through the whole tagger, averaged over a few seeds of its recipe (``build_whole`` makes it)."""

    members: tuple[EarlyTagger, ...]

    def without_curvature(self) -> WholeInfluence:
        """The same without F, g_q^T S g_z.

        F takes what many sentences agree on as settled, so that no single one of them counts for much. Without it they
        all count, which finds mistakes that many documents share, but foretells training again less well.
        """
        return WholeInfluence(tuple(replace(member, has_curvature=False) for member in self.members))

    def sentence_scores(self, queries: Sequence[Question]) -> Tensor:
        """The influence of every training sentence on queries, (Q, N): positive if it supports a query's labels."""
        return mean_scores([member.sentence_scores(queries) for member in self.members])

    def segment_scores(self, queries: Sequence[Question], segments: Tensor | SegmentLosses) -> Tensor:
        """The influence of the labels of segments (S, 3): sentence number, start, stop; (Q, S).

        The same ``SegmentLosses`` for question after question are faster than a tensor.
        """
        asked = segments if isinstance(segments, SegmentLosses) else SegmentLosses(segments)
        return mean_scores([member.scores(queries, asked) for member in self.members])

    def relabel_scores(self, queries: Sequence[Question], segments: Tensor, labels: Tensor) -> Tensor:
        """The influence of the labels of segments (S, 3) less that of other labels (S, L) in their place, (Q, S).

        Positive if to change them would make the query's labels less likely; 0 where the tagger's constraints forbid
        the other labels.
        """
        asked = (SegmentLosses(segments), SegmentLosses(segments, labels))
        both = [member.scores(queries, *asked).chunk(2, 1) for member in self.members]
        return mean_scores([(given - other).nan_to_num(nan=0.0) for given, other in both])


def train_early(
    recipe: Recipe,
    sentences: Sequence[Sentence],
    examples: list[Example],
    seed: int,
    device: str | torch.device = "cpu",
    training: Callable[[int, Step], None] | None = None,
    progress: Progress | None = None,
) -> EarlyTagger:
    """A tagger trained for a quarter of its epochs, and its kernel; ``examples`` are the sentences, prepared."""
    early = recipe.untrained(seed).to(pick_device(device))
    report = None if training is None else lambda step: training(seed, step)
    epochs = max(math.floor(EARLY * (recipe.stop_after or recipe.options.epochs)), 1)
    train_tagger(early, sentences, (), replace(recipe.options, seed=seed), stop_after=epochs, progress=report)
    return EarlyTagger(early, examples, sentence_kernel(early, examples, recipe.options, progress))


def mean_scores(scores: Sequence[Tensor]) -> Tensor:
    """The mean of the scores of several taggers (Q, n), each row scaled to norm 1: their sizes have no common unit."""
    return torch.stack([one / one.norm(dim=1, keepdim=True).clamp(min=1e-300) for one in scores]).mean(0)
