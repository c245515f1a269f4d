"""Explain: the training segments that support and oppose a prediction, from an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.index import Index
from tagtrace.influence.curvature.choice import Curvature, exact_solver, index_solver, make_solver
from tagtrace.influence.curvature.solvers import Cholesky, Solver
from tagtrace.influence.edits.edit import Edit
from tagtrace.influence.edits.effect import Effect, effect
from tagtrace.influence.edits.refine import Refiner
from tagtrace.influence.edits.retrain import Retrainer, settled
from tagtrace.influence.query import Query
from tagtrace.influence.scoring.candidates import Candidates, Kind, find_candidates
from tagtrace.influence.scoring.filters import Filter
from tagtrace.influence.scoring.scorer import Score, Scorer
from tagtrace.influence.scoring.token_pass import TokenPass
from tagtrace.tagger.head import Head
from tagtrace.tagger.objective import Objective
from tagtrace.tagger.rows import Rows
from tagtrace.tagger.tagger import Progress

Rung = Literal["screen", "refine", "verify"]


@dataclass(frozen=True)
class Ranked:
    """A training segment and how much it supports (positive) or opposes (negative) the query."""

    sentence_number: int
    start: int
    stop: int
    score: float
    effect: Effect | None = None
    """What happens to the query without the segment's labels, on the rung below."""
    rung: Rung = "screen"
    document: str | None = None
    """The name of the document, where the whole of it is meant; the fields above are then its first sentence."""
    rest: tuple[tuple[int, int, int], ...] = ()
    """The document's other sentences, whole: (sentence, start, stop)."""

    @property
    def change(self) -> float | None:
        """The change of the query's loss without the segment's labels; None on the first rung."""
        return None if self.effect is None else self.effect.change

    def edits(self) -> list[Edit]:
        """What takes the segment's labels away: one edit a sentence."""
        return [Edit(self.sentence_number, self.start, self.stop), *(Edit(*part) for part in self.rest)]


@dataclass(frozen=True)
class Explanation:
    """The strongest supporters (best first) and opposers (worst first) of a query."""

    supporters: list[Ranked]
    opposers: list[Ranked]
    num_candidates: int = 0
    """Training segments that passed the filter."""


class Explainer:
    """Answers queries against one index; what can be prepared is prepared once."""

    def __init__(
        self,
        index: Index,
        curvature: Curvature = "auto",
        damping: float = 0.0,
        num_passes: int = 2,
        progress: Progress | None = None,
    ) -> None:
        """``num_passes`` over the training data are spent on each segment that is refined (``refine``). ``progress``
        counts the sentences that have gone into a dense Hessian, the longest of the preparations.
        """
        if num_passes < 0:
            raise OptionError(f"num_passes {num_passes}: must be at least 0")
        self.index, self.damping, self.num_passes, self.progress = index, damping, num_passes, progress
        self.curvature: Curvature = curvature
        self.head = index.head
        self._scorers: dict[tuple[Kind, int], Scorer] = {}

    @cached_property
    def rows(self) -> Rows:
        return self.index.rows(torch.float32)

    @cached_property
    def solver(self) -> Solver:
        """Of the curvature asked for; the inverse of a dense Hessian is kept in the index's folder."""
        return index_solver(self.index, self.curvature, self.damping, rows=lambda: self.rows, progress=self.progress)

    @cached_property
    def exact(self) -> Cholesky:
        """The inverted Hessian that refine and verify need."""
        if self.damping == 0 and isinstance(self.solver, Cholesky):
            return self.solver
        return exact_solver(self.index, rows=lambda: self.rows, progress=self.progress)

    def prepare(self, score: Score = "influence", rung: Rung = "screen") -> None:
        """Do now what queries with this score and rung would wait for: work out and invert the curvature."""
        if score in ("influence", "relative"):
            _ = self.solver
        if rung != "screen":
            _ = self.exact

    def explain(
        self,
        query: Query,
        score: Score = "influence",
        kind: Kind = "token",
        top: int = 10,
        *,
        max_length: int = 3,
        keep: Filter | None = None,
    ) -> Explanation:
        """Score every training segment of a kind that passes the filter, and keep the strongest on both sides."""
        if top < 1:
            raise OptionError(f"top {top}: must be at least 1")
        scorer = self._scorer(kind, max_length)
        which = torch.arange(len(scorer.candidates))
        if keep is not None:
            which = which[keep.keep(self.index, scorer.candidates, query)]
        num_candidates = len(which)
        which, values = scorer.score(query, score, which, top)
        supporters, opposers = (_strongest(values, which, top, sign) for sign in (1.0, -1.0))
        return Explanation(
            [_ranked(scorer.candidates, *one) for one in supporters],
            [_ranked(scorer.candidates, *one) for one in opposers],
            num_candidates,
        )

    def refine(self, query: Query, ranked: Ranked) -> Ranked:
        """The same segment with its sentence-exact effect on the query."""
        return self.refine_all(query, [ranked])[0]

    def refine_all(self, query: Query, ranked: Sequence[Ranked]) -> list[Ranked]:
        """As ``refine``, for many at once; what is too long to refine stays as it is, for ``verify``."""
        if not ranked:
            return []
        groups = [one.edits() for one in ranked]
        fits = [self.refiner.can_refine(group) for group in groups]
        short = [group for group, fit in zip(groups, fits, strict=True) if fit]
        effects = iter(self.refiner.effects(short, query))
        return [
            replace(one, effect=next(effects), rung="refine") if fit else one
            for one, fit in zip(ranked, fits, strict=True)
        ]

    def verify(self, query: Query, ranked: Ranked) -> Ranked:
        """The same segment with its effect on the query after exact retraining."""
        moved = self.optimum.at(self.retrainer.retrain(ranked.edits()).theta)
        return replace(ranked, effect=effect(query, self.optimum, moved), rung="verify")

    @cached_property
    def refiner(self) -> Refiner:
        return Refiner(self.optimum, self.rows, self.exact.inverse, self.objective, self.num_passes)

    @cached_property
    def retrainer(self) -> Retrainer:
        return Retrainer(self.objective, self.rows, self.optimum.flat(), self.exact)

    @cached_property
    def optimum(self) -> Head:
        """The index's head with its gradient brought down to rounding: what edits are compared with.

        The gradient that a refit leaves is that of the mean loss; among very many sentences, one label's is less.
        """
        fit = self.index.manifest.fit
        if not fit.refit:
            raise OptionError(
                f"{self.index.folder}: its head is not at its optimum (max |gradient| {fit.max_gradient:.1e}), where "
                "nothing can be said of edits; build the index without --no-refit"
            )
        return self.head.at(settled(self.objective, self.head.flat(), self.exact))

    @cached_property
    def objective(self) -> Objective:
        return Objective(self.head, self.rows, self.index.manifest.fit.l2)

    @cached_property
    def _kronecker(self) -> Solver:
        """Curvature with cheap self-influences, to find those worth an exact one."""
        return make_solver("kronecker", self.head, self.rows, self.index.manifest.fit.l2, self.damping)

    @cached_property
    def _passes(self) -> list[TokenPass]:
        return [TokenPass(self.head, shard) for shard in self.index.shards]

    def _scorer(self, kind: Kind, max_length: int) -> Scorer:
        key = (kind, max_length if kind == "segment" else 1)
        if key not in self._scorers:
            found = find_candidates(self.index, kind, max_length)
            self._scorers[key] = Scorer(self.index, found, self._passes, lambda: self.solver, lambda: self._kronecker)
        return self._scorers[key]


def _strongest(values: Tensor, which: Tensor, top: int, sign: float) -> list[tuple[int, float]]:
    """The numbers and values of the ``top`` candidates on one side of zero, strongest first."""
    best, places = (sign * values).topk(min(top, len(values)))
    numbers = which[places].tolist()
    return [(number, sign * value) for number, value in zip(numbers, best.tolist(), strict=True) if value > 0]


def _ranked(candidates: Candidates, number: int, score: float) -> Ranked:
    (sentence_number, start, stop), *rest = candidates.parts(number)
    name = candidates.documents[number] if candidates.documents else None
    return Ranked(sentence_number, start, stop, score, document=name, rest=tuple(rest))
