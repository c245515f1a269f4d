"""Scores of training segments against a query; g_q and g_k are the gradients of their conditional losses.

| score | formula |
|---|---|
| ``influence`` | g_q^T K^-1 g_k / N: the first-order change of the query's loss without the segment's labels |
| ``cosine`` | g_q . g_k / (norms of both): gradients compared by direction, without curvature |
| ``relative`` | g_q^T K^-1 g_k / sqrt(g_k^T K^-1 g_k): influence without the advantage of outliers |
| ``neighbour`` | cosine of the mean features of the two segments |
| ``neighbour-dot`` | their dot product |
| ``neighbour-label`` | the cosine where the training segment has the query's label (``filters``), minus it otherwise |

These are about the head; ``whole`` goes through the encoder too (``whole``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from tagtrace.index import Index
from tagtrace.influence.curvature.solvers import Cholesky, Direct, Solver
from tagtrace.influence.options import check_choice
from tagtrace.influence.query import Query
from tagtrace.influence.scoring.candidates import Candidates
from tagtrace.influence.scoring.filters import has_label_of, segment_sums
from tagtrace.influence.scoring.gpu_scan import can_scan, strongest_tokens
from tagtrace.influence.scoring.norms import feature_norms, gradient_norms, self_influence
from tagtrace.influence.scoring.screen import NUM_LEADING, Screen, floor_of
from tagtrace.influence.scoring.token_pass import TokenPass
from tagtrace.tagger.convex.products import by_loops
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import RowParts

Score = Literal["whole", "influence", "cosine", "relative", "neighbour", "neighbour-dot", "neighbour-label"]

MAX_WORK = 1e11
"""Maximum number of multiply-adds for exact self-influences; beyond it, only a shortlist gets them."""
SHORTLIST = 1000
SHORTLIST_ITERATED = 100
"""Minimum length of the shortlist on each side; it is shorter if each candidate needs iterations over the data."""


class Scorer:
    """Scores candidates of an index; what does not depend on the query is computed once.

    ``solver`` and ``kronecker`` return the curvature to score with and a cheap one; they are called when needed.
    """

    index: Index
    candidates: Candidates
    passes: Sequence[TokenPass]
    head: Head
    solver: Callable[[], Solver]
    kronecker: Callable[[], Solver]

    def __init__(
        self,
        index: Index,
        candidates: Candidates,
        passes: Sequence[TokenPass],
        solver: Callable[[], Solver],
        kronecker: Callable[[], Solver],
    ) -> None:
        self.index, self.candidates, self.passes = index, candidates, passes
        self.head, self.solver, self.kronecker = passes[0].head, solver, kronecker

    def score(
        self, query: Query, score: Score, which: Tensor, top: int, direction: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Scores of the candidates ``which`` (k,): their numbers and values.

        These may be fewer: all that may be among the ``top`` of either side. ``direction`` is K^-1 g of the query (P,),
        if it is known.
        """
        check_choice("score", score, Score)
        if len(which) == 0:
            return which, torch.zeros(0)
        if score in ("relative", "influence") and direction is None:
            direction = self.solver().solve(query.gradient(self.head).unsqueeze(0)).value[0]
        if score == "relative" and direction is not None:
            return self._relative(direction, which, top)
        if score == "influence" and direction is not None:
            which, values = self._strong_products(direction, which, top)
            return which, values / self.index.num_sentences
        if score == "cosine":
            return which, self._cosines(query.gradient(self.head))[which]
        return which, self._neighbours(query, score)[which]

    def _cosines(self, gradient: Tensor) -> Tensor:
        """g_q . g_k over both norms, for every candidate, (K,)."""
        unit = gradient / gradient.abs().max().clamp(min=1e-300)  # the norm of very small numbers would be 0
        return _quotient(self._products(unit), self._norms * float(unit.norm()))

    @cached_property
    def every(self) -> Tensor:
        """The numbers of all candidates, (K,)."""
        return torch.arange(len(self.candidates))

    def _strong_products(self, direction: Tensor, which: Tensor, top: int) -> tuple[Tensor, Tensor]:
        """V . g_k for V (P,) and those of the candidates ``which`` that may be among the ``top`` of either side."""
        size = float(direction.abs().max().clamp(min=1e-300))
        everything = len(which) == len(self.candidates)
        if self.candidates.kind == "token" and everything and len(self.passes) == 1 and can_scan(self.passes[0]):
            which, values = (part.cpu().flatten() for part in strongest_tokens(self.passes[0], direction / size, top))
            which, order = which.unique(return_inverse=True)  # a token may be among the strongest of both sides
            return which, torch.zeros(len(which), dtype=torch.float64).scatter(0, order, values.double()) * size
        if self.candidates.kind != "token" and self.candidates.owner is None:
            return self._screen.strong_products(direction, which, top)
        if self.candidates.kind != "token" or len(which) <= max(NUM_LEADING, top) or not self.passes[0].has_loops:
            return which, self._products(direction)[which]
        leading = self._leading if everything else which[self._norms[which].topk(NUM_LEADING).indices]
        return by_loops(lambda: self._strong_tokens(direction / size, leading.sort().values, which, top, size))

    def _strong_tokens(
        self, direction: Tensor, leading: Tensor, which: Tensor, top: int, size: float
    ) -> tuple[Tensor, Tensor]:
        """Those of ``which`` that are as strong as the ``top`` of the ``leading`` ones, and their scores times size."""
        first = self._scored(direction, leading, 0.0)
        floor = floor_of(first, top)
        values = self._scored(direction, which, max(floor, 0.0))
        kept = (values.abs() >= floor).nonzero().squeeze(1) if floor > 0 else torch.arange(len(values))
        return which[kept], values[kept].double() * size

    @cached_property
    def _leading(self) -> Tensor:
        """The tokens with the largest gradients."""
        return self._norms.topk(min(NUM_LEADING, len(self._norms))).indices

    def _scored(self, direction: Tensor, which: Tensor, floor: float) -> Tensor:
        """V . g_t of tokens ``which``, in order of the data; 0 if it is below ``floor`` on either side."""
        parts, start = list[Tensor](), 0
        for one in self.passes:
            count = len(one.shard.labels)
            if len(which) == len(self.candidates):
                parts.append(one.scores(direction, None, floor))
            else:
                inside = which[(which >= start) & (which < start + count)] - start
                parts.append(one.scores(direction, inside, floor))
            start += count
        return torch.cat(parts)

    def _products(self, direction: Tensor) -> Tensor:
        """V . g_k of every candidate for V (P,), (K,)."""
        if self.candidates.kind == "token":
            size = float(direction.abs().max().clamp(min=1e-300))  # gradients of certain queries underflow in float32
            products = torch.cat([one.products((direction / size).unsqueeze(0))[0] for one in self.passes])
            return products.double().cpu() * size
        return self.candidates.total(self._screen.products(direction.unsqueeze(0))[0])

    @cached_property
    def _screen(self) -> Screen:
        return Screen(self.head, self.rows, self.candidates.segments, torch.float32)

    @cached_property
    def rows(self) -> RowParts:
        """Features and labels of the training sentences, on the device of the passes."""
        return RowParts(tuple(one.shard.rows() for one in self.passes))

    @cached_property
    def _norms(self) -> Tensor:
        if self.candidates.kind == "token":
            return torch.cat([one.norms() for one in self.passes]).cpu()
        return gradient_norms(self.head, self.rows, self.candidates)

    @cached_property
    def _exact(self) -> Tensor:
        """g_k^T K^-1 g_k of every candidate, (K,)."""
        return self_influence(self.head, self.rows, self.candidates, self.solver())

    @cached_property
    def _rough(self) -> Tensor:
        """The same with Kronecker factors."""
        return self_influence(self.head, self.rows, self.candidates, self.kronecker())

    def _relative(self, direction: Tensor, which: Tensor, top: int) -> tuple[Tensor, Tensor]:
        solver, products = self.solver(), self._products(direction)
        if len(self.candidates) * self._work(solver) <= MAX_WORK:
            return which, _quotient(products, self._exact.sqrt())[which]
        if len(which) * self._work(solver) > MAX_WORK:
            count = max(10 * top, SHORTLIST if isinstance(solver, Cholesky) else SHORTLIST_ITERATED)
            which = which[shortlist(_quotient(products, self._rough.sqrt())[which], count)]
        exact = self_influence(self.head, self.rows, self.candidates.select(which), solver)
        return which, _quotient(products[which], exact.sqrt())

    def _work(self, solver: Solver) -> float:
        """The approximate number of multiply-adds for g^T K^-1 g of one candidate."""
        if isinstance(solver, Direct):
            return 0.0
        if isinstance(solver, Cholesky):
            return float(self.head.num_parameters) ** 2
        return 40.0 * self.index.num_tokens * self.head.weight.numel()

    def _neighbours(self, query: Query, score: Score) -> Tensor:
        """Products of mean features, (K,), or their cosines."""
        mean = query.features[query.start : query.stop].double().mean(0)  # (D,)
        dots = torch.cat([one.feature_products(mean) for one in self.passes]).double().cpu()  # (N,)
        if self.candidates.kind != "token":
            lengths = self.candidates.segments[:, 2] - self.candidates.segments[:, 1]
            sums = self.candidates.total(segment_sums(self.index, self.candidates, dots))
            dots = sums / self.candidates.total(lengths)
        if score == "neighbour-dot":
            return dots
        cosines = _quotient(dots, self._feature_norms * float(mean.norm()))
        if score == "neighbour":
            return cosines
        return torch.where(has_label_of(self.index, self.candidates, query), cosines, -cosines)

    @cached_property
    def _feature_norms(self) -> Tensor:
        if self.candidates.kind == "token":
            return torch.cat([one.feature_norms for one in self.passes]).cpu()
        return feature_norms(self.rows, self.candidates, self.head.dim)


def shortlist(values: Tensor, count: int) -> Tensor:
    """The places of the ``count`` largest and the ``count`` smallest values, in order."""
    count = min(count, len(values))
    return torch.cat([values.topk(count).indices, values.topk(count, largest=False).indices]).unique()


def _quotient(values: Tensor, sizes: Tensor) -> Tensor:
    """values / sizes in float64, zero where the size is zero."""
    return torch.where(sizes > 0, values.double() / sizes.double().clamp(min=1e-300), 0.0)
