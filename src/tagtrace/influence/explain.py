"""Explain: the training segments that support and oppose a prediction, from an index."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.index import Index
from tagtrace.influence.candidates import Kind, candidates
from tagtrace.influence.curvature import Curvature, make_solver
from tagtrace.influence.edits import Edit
from tagtrace.influence.query import Query
from tagtrace.influence.refine import Refiner
from tagtrace.influence.retrain import Retrainer
from tagtrace.influence.screen import Screen
from tagtrace.influence.solvers import Cholesky, Solver
from tagtrace.influence.tokens import TokenPass
from tagtrace.tagger.objective import Objective
from tagtrace.tagger.rows import Rows

Score = Literal["influence", "cosine", "neighbour"]
Rung = Literal["screen", "refine", "verify"]


@dataclass(frozen=True)
class Ranked:
    """A training segment and how much it supports (positive) or opposes (negative) the query."""

    chain: int
    start: int
    stop: int
    score: float
    change: float | None = None
    """The change of the query's loss without the segment's labels, on the rung below."""
    rung: Rung = "screen"


@dataclass(frozen=True)
class Explanation:
    """The strongest supporters (best first) and opposers (worst first) of a query."""

    supporters: list[Ranked]
    opposers: list[Ranked]


class Explainer:
    """Answers queries against one index; what can be prepared is prepared once."""

    def __init__(self, index: Index, curvature: Curvature = "auto", damping: float = 0.0) -> None:
        self.index, self.damping = index, damping
        self.curvature: Curvature = curvature
        self.head = index.head

    @cached_property
    def rows(self) -> Rows:
        return self.index.rows(torch.float32)

    @cached_property
    def solver(self) -> Solver:
        return make_solver(self.curvature, self.head, self.rows, self.index.manifest.fit.l2, self.damping)

    @cached_property
    def exact(self) -> Cholesky:
        """The factored Hessian that refine and verify need."""
        if isinstance(self.solver, Cholesky) and self.damping == 0:
            return self.solver
        solver = make_solver("dense", self.head, self.rows, self.index.manifest.fit.l2)
        assert isinstance(solver, Cholesky)
        return solver

    def explain(self, query: Query, score: Score = "influence", kind: Kind = "token", top: int = 10) -> Explanation:
        """Screen every training segment of a kind and keep the strongest on both sides."""
        if score not in get_args(Score):
            raise OptionError(f"score {score!r}: expected one of {', '.join(get_args(Score))}")
        if score != "influence" and kind != "token":
            raise OptionError(f"the score {score} is there for tokens; use --score influence for segments {kind}")
        segments, values = self._scores(query, score, kind)
        count = min(top, len(values))
        best, worst = (values.topk(count, largest=largest) for largest in (True, False))
        sides = []
        for side, sign in ((best, 1.0), (worst, -1.0)):
            picked = [(int(i), float(v)) for v, i in zip(*side, strict=True) if sign * float(v) > 0]
            sides.append([_ranked(segments[i], value) for i, value in picked])
        return Explanation(*sides)

    def _scores(self, query: Query, score: Score, kind: Kind) -> tuple[Tensor, Tensor]:
        """Candidates (S, 3) and their scores (S,)."""
        segments = candidates(self.rows, self.index.labels, kind)
        if score == "neighbour":
            return segments, self._neighbours(query)
        gradient = query.gradient(self.head).unsqueeze(0)  # (1, P)
        if score == "cosine":
            values = [p.products(gradient)[0] / p.norms().clamp(min=1e-20) for p in self._passes]
            return segments, torch.cat(values) / float(gradient.norm())
        direction = self.solver.solve(gradient).value
        if kind != "token":
            return segments, Screen(self.head, self.rows, segments).influence(direction)[0].float()
        products = torch.cat([p.products(direction)[0] for p in self._passes])
        return segments, products / self.index.num_chains

    @cached_property
    def _passes(self) -> list[TokenPass]:
        return [TokenPass(self.head, shard) for shard in self.index.shards]

    def _neighbours(self, query: Query) -> Tensor:
        """Cosine similarity of features with the mean feature of the query's segment, (N,)."""
        mean = query.features[query.start : query.stop].float().mean(0)
        parts = []
        for shard in self.index.shards:
            for features in shard.features.split(16_384):
                rows = features.float()
                parts.append(rows @ mean / rows.norm(dim=1).clamp(min=1e-20))
        return torch.cat(parts) / mean.norm().clamp(min=1e-20)

    def refine(self, query: Query, ranked: Ranked) -> Ranked:
        """The same segment with the sentence-exact change of the query's loss."""
        refiner = Refiner(self.head, self.rows, self.exact.inverse)
        effect = refiner.effects([Edit(ranked.chain, ranked.start, ranked.stop)], [query])[0]
        return Ranked(ranked.chain, ranked.start, ranked.stop, ranked.score, effect.change, "refine")

    def verify(self, query: Query, ranked: Ranked) -> Ranked:
        """The same segment with the change of the query's loss after exact retraining."""
        theta = self.head.flat()
        objective = Objective(self.head, self.rows, self.index.manifest.fit.l2)
        retrainer = Retrainer(objective, self.rows, theta, self.exact)
        moved = self.head.at(retrainer.retrain([Edit(ranked.chain, ranked.start, ranked.stop)], tolerance=1e-7).theta)
        change = float((query.loss(moved) - query.loss(self.head)).detach())
        return Ranked(ranked.chain, ranked.start, ranked.stop, ranked.score, change, "verify")


def _ranked(segment: Tensor, score: float) -> Ranked:
    chain, start, stop = segment.tolist()
    return Ranked(chain, start, stop, score)
