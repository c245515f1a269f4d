"""Influence through the whole tagger: which training labels move a prediction when encoder and head are trained again.

Training again starts from other random numbers, so what is explained is not one tagger but its recipe: a few taggers
are trained by it, with different seeds, for the first quarter of their epochs. Early on, gradients still show what each
sentence teaches; later most losses are nearly zero. Scores of the seeds are averaged. On each of these taggers

    score = g_q^T S^(1/2) (F + lambda I)^-1 S^(1/2) g_z

for the conditional loss of a training segment z (``gradient_kernel``). The gradient of a segment is never computed:
with V = S^(1/2) (F + lambda I)^-1 S^(1/2) g_q, the score is the derivative along V of the segment's loss, for all
segments at once the difference of two passes over the training data, with the weights theta + h V and theta - h V.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from tagtrace._checks import OptionError, check_type
from tagtrace._progress import Progress
from tagtrace.data.sentence import Sentence
from tagtrace.influence.query import Query
from tagtrace.influence.whole.gradient_kernel import GradientKernel, sentence_kernel
from tagtrace.influence.whole.layers import (
    MAX_TOKENS,
    QueryGradient,
    conditional_gradient,
    moved_along,
    weighted_gradient,
)
from tagtrace.tagger import crf
from tagtrace.tagger.recipe import EncoderMaker, Recipe
from tagtrace.tagger.tagger import Example, Tagger, batch_losses, length_batches, padded_labels
from tagtrace.tagger.training import Step, train_tagger

EARLY = 0.25
"""Share of its epochs that a tagger is trained for; at least one."""
STEP = 0.02
"""How much the scores of the query's labels change in a step along V, about."""


@dataclass(frozen=True)
class EarlyTagger:
    """One tagger, the first epochs of its training, and the kernel of its training sentences."""

    tagger: Tagger
    examples: list[Example]
    kernel: GradientKernel

    def products(self, gradient: QueryGradient) -> Tensor:
        """g_q^T S g_i for every training sentence i, (N,)."""
        return self._along(self._scaled(gradient.parts), gradient, None)

    def sentence_scores(self, query: Query) -> Tensor:
        """The influence of every training sentence on a query, (N,)."""
        return self.kernel.scores(self.products(self.gradient(query)).unsqueeze(0))[0]

    def segment_scores(self, query: Query, segments: Tensor) -> Tensor:
        """The influence of the labels of segments (S, 3): sentence number, start, stop; (S,)."""
        gradient = self.gradient(query)
        weights = self.kernel.coefficients(self.products(gradient).unsqueeze(0))[0]
        taught = weighted_gradient(self.tagger, self.examples, weights)
        left = {name: part - taught.get(name, 0.0) for name, part in gradient.parts.items()}
        direction = {name: part / self.kernel.damping for name, part in self._scaled(left).items()}
        return self._along(direction, gradient, segments)

    def gradient(self, query: Query) -> QueryGradient:
        """The gradient of the query's conditional loss."""
        if query.sentence is None:
            raise OptionError("this query has no sentence to encode; make it with make_query")
        example = Example(self.tagger.encoder.prepare(query.sentence), query.labels.tolist(), len(query.labels))
        return conditional_gradient(self.tagger, example, query.start, query.stop)

    def _scaled(self, gradient: dict[str, Tensor]) -> dict[str, Tensor]:
        """S g"""
        return {name: part * self.kernel.scales[name].to(part) for name, part in gradient.items()}

    def _along(self, direction: dict[str, Tensor], gradient: QueryGradient, segments: Tensor | None) -> Tensor:
        """The derivative along V of the losses of sentences, or segments, by central differences.

        The query's loss changes with slope V . g_q, at most sum |dCL/d emissions| times the change of its emissions:
        from both follows how far a step moves these, however certain the labels are.
        """
        slope = abs(_inner(direction, gradient.parts))
        if slope == 0.0 or gradient.size == 0.0:
            return torch.zeros(len(self.examples) if segments is None else len(segments), dtype=torch.float64)
        step = STEP * gradient.size / slope
        sides = list[Tensor]()
        for sign in (1.0, -1.0):
            with moved_along(self.tagger, direction, sign * step):
                sides.append(_losses(self.tagger, self.examples, segments))
        return (sides[0] - sides[1]) / (2.0 * step)


def _inner(left: dict[str, Tensor], right: dict[str, Tensor]) -> float:
    return sum(float((part.double() * right[name].double()).sum()) for name, part in left.items())


@torch.no_grad()
def _losses(tagger: Tagger, examples: Sequence[Example], segments: Tensor | None) -> Tensor:
    """The losses of the examples' known labels, (N,), or the conditional losses of segments (S, 3), (S,); float64."""
    found = torch.zeros(len(examples) if segments is None else len(segments), dtype=torch.float64)
    for indices in length_batches([example.length for example in examples], MAX_TOKENS):
        batch = [examples[i] for i in indices]
        scores = tagger.scores(batch)
        if segments is None:
            found[indices] = batch_losses(scores, batch).double().cpu()
            continue
        places = torch.full((len(examples),), -1)
        places[indices] = torch.arange(len(indices))
        mine = (places[segments[:, 0]] >= 0).nonzero().squeeze(1)
        if len(mine):
            local = torch.cat([places[segments[mine, 0]].unsqueeze(1), segments[mine, 1:]], 1)
            found[mine] = crf.conditional_loss(scores, padded_labels(batch), local).double().cpu()
    return found


@dataclass(frozen=True)
class WholeInfluence:
    """Influence through the whole tagger, averaged over a few seeds of its recipe."""

    members: tuple[EarlyTagger, ...]

    @classmethod
    def build(
        cls,
        tagger: Tagger,
        sentences: Sequence[Sentence],
        num_seeds: int = 3,
        *,
        encoder: EncoderMaker | None = None,
        training: Callable[[int, Step], None] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Train ``num_seeds`` taggers by the recipe of ``tagger`` and compute their kernels.

        ``encoder`` makes an untrained encoder from a seed (default: of the tagger's kind and options). ``training`` is
        called with a seed's number and a step, ``progress`` with the number of layers done.
        """
        check_type("tagger", tagger, Tagger, "give load_tagger(folder)")
        if num_seeds < 1:
            raise OptionError(f"num_seeds {num_seeds}: must be at least 1")
        recipe = Recipe.of(tagger, encoder)
        options, members = recipe.options, list[EarlyTagger]()
        for seed in range(options.seed, options.seed + num_seeds):
            early = recipe.untrained(seed).to(tagger.device)
            report = None if training is None else lambda step, seed=seed: training(seed, step)
            epochs = max(math.floor(EARLY * (recipe.stop_after or options.epochs)), 1)
            train_tagger(early, sentences, (), replace(options, seed=seed), stop_after=epochs, progress=report)
            examples = [early.prepare(sentence) for sentence in early.labelled(sentences, "training")]
            members.append(EarlyTagger(early, examples, sentence_kernel(early, examples, options, progress)))
        return cls(tuple(members))

    def sentence_scores(self, query: Query) -> Tensor:
        """The influence of every training sentence on a query, (N,): positive if it supports the query's labels."""
        return mean_scores([member.sentence_scores(query) for member in self.members])

    def segment_scores(self, query: Query, segments: Tensor) -> Tensor:
        """The influence of the labels of segments (S, 3): sentence number, start, stop; (S,)."""
        return mean_scores([member.segment_scores(query, segments) for member in self.members])


def mean_scores(scores: Sequence[Tensor]) -> Tensor:
    """The mean of the scores of several taggers (n,), each scaled to norm 1: their sizes have no common unit."""
    return torch.stack([one / one.norm().clamp(min=1e-300) for one in scores]).mean(0)
