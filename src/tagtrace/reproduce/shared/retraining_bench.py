"""Predicted and actual changes of a query's loss after edits of training labels, each checked by exact retraining."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

import numpy as np
import torch

from tagtrace.data import Sentence, segments
from tagtrace.influence import Edit, Query, Refiner, Retrainer, Screen
from tagtrace.influence.curvature.operators import Hessian
from tagtrace.influence.curvature.solvers import Cholesky
from tagtrace.tagger import Tagger
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.objective import Objective
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import Rows

REFINED = {"sentence_exact": 0, "refine_once": 1, "refine": 3}
"""Sentence-exact estimates, with the number of passes over the training data that each makes at most."""
METHODS = ("identity", "first_order", *REFINED)
L2 = 1.0
"""Strength of the penalty relative to the sum of losses."""
Kind = Literal["token", "entity"]
Point = dict[str, Any]
"""One edit and one query: the actual change of the query's loss, and the change that each method predicted."""


@dataclass(frozen=True)
class Edits:
    """Which edits are made for each query."""

    kind: Literal["remove", "relabel", "group"] = "remove"
    top: int = 20
    """Number of segments with the largest absolute first-order influence, or number of groups."""
    group: int = 10
    """Number of segments in a group."""
    pool: int = 50
    """Number of the most influential segments from which groups are drawn."""


class Bench:
    """Predicts the effects of edits by every method, and checks them by retraining."""

    tagger: Tagger
    head: Head
    rows: Rows
    segments: torch.Tensor
    solver: Cholesky
    refiners: dict[str, Refiner]
    factor_seconds: float
    retrainer: Retrainer
    screen: Screen
    worst_gradient: float

    def __init__(
        self, tagger: Tagger, train: Sequence[Sentence], kind: Kind = "token", refined: Mapping[str, int] = REFINED
    ) -> None:
        self.tagger, self.head = tagger, tagger.head
        self.rows = tagger.rows(train).to(tagger.device)
        self.segments = training_segments(train, kind)
        objective = Objective(self.head, self.rows, L2)
        start = time.monotonic()
        self.solver = Cholesky(Hessian(HessianProduct(objective, self.head.flat())))
        self.refiners = {
            name: Refiner(self.head, self.rows, self.solver, objective, num_passes)
            for name, num_passes in refined.items()
        }
        self.factor_seconds = time.monotonic() - start
        self.retrainer = Retrainer(objective, self.rows, self.head.flat(), self.solver)
        self.screen = Screen(self.head, self.rows, self.segments)
        self.seconds: dict[str, float] = dict.fromkeys((*refined, "retrain"), 0.0)
        self.worst_gradient = 0.0

    def run(
        self, queries: Sequence[Query], edits: Edits, generator: random.Random, report: Callable[[str], None]
    ) -> dict[str, Any]:
        """All points, and how well each method agrees with retraining."""
        points: list[Point] = []
        for number, query in enumerate(queries):
            points += self.compare(number, query, edits, generator)
            report(f"query {number + 1}/{len(queries)}")
        return {
            "points_kept": len(points),
            "parameters": self.head.num_parameters,
            "factor_seconds": self.factor_seconds,
            "milliseconds": {name: 1e3 * seconds / len(points) for name, seconds in self.seconds.items()},
            "retrain_worst_max_gradient": self.worst_gradient,
            **{name: agreement(points, name) for name in METHODS if name in points[0]},
            "points": points,
        }

    def compare(self, number: int, query: Query, edits: Edits, generator: random.Random) -> list[Point]:
        """One point for each edit of the query's most influential segments."""
        gradient = query.gradient(self.head).unsqueeze(0)  # (1, P)
        first = self.screen.influence(self.solver.solve(gradient).value)[0]
        plain = self.screen.influence(gradient)[0]
        before = float(query.loss(self.head).detach())
        choices = choose(first, edits, generator)
        groups = [[self.edit(index, edits.kind) for index in chosen] for chosen in choices]
        predicted = {name: self.refined(name, groups, query) for name in self.refiners}
        points: list[Point] = []
        for place, (chosen, group) in enumerate(zip(choices, groups, strict=True)):
            actual = self.retrained_loss(group, query) - before
            point: Point = {"query": number, "segments": self.segments[chosen].tolist(), "actual": actual}
            point |= {name: changes[place] for name, changes in predicted.items()}
            if edits.kind != "relabel":  # first order is computed for removals only
                point |= {"identity": float(plain[chosen].sum()), "first_order": float(first[chosen].sum())}
            points.append(point)
        return points

    def retrained_loss(self, group: list[Edit], query: Query) -> float:
        """The query's loss after exact retraining with the edits."""
        start = time.monotonic()
        retrained = self.retrainer.retrain(group, tolerance=1e-8)
        self.seconds["retrain"] += time.monotonic() - start
        self.worst_gradient = max(self.worst_gradient, retrained.max_gradient)
        return float(query.loss(self.head.at(retrained.theta)).detach())

    def refined(self, name: str, groups: list[list[Edit]], query: Query) -> list[float]:
        """The changes of the query's loss that a refiner predicts."""
        start = time.monotonic()
        effects = self.refiners[name].effects(groups, query)
        self.seconds[name] += time.monotonic() - start
        return [effect.change for effect in effects]

    def edit(self, index: int, kind: str) -> Edit:
        """The edit of one training segment: its labels removed, or replaced by the next most likely."""
        number, start, stop = self.segments[index].tolist()
        return Edit(number, start, stop, self.next_likely(number, start, stop) if kind == "relabel" else None)

    def next_likely(self, sentence_number: int, start: int, stop: int) -> tuple[int, ...]:
        """For each token the most likely label other than its own, given the labels around the segment."""
        lengths = self.rows.lengths
        first = int(lengths[:sentence_number].sum())
        part = slice(first, first + int(lengths[sentence_number]))
        query = Query(self.rows.features[part].double(), self.rows.labels[part], start, stop)
        likely = query.probabilities(self.head)
        likely[torch.arange(stop - start), query.labels[start:stop]] = -1.0
        return tuple(likely.argmax(1).tolist())


def choose(influence: torch.Tensor, edits: Edits, generator: random.Random) -> list[list[int]]:
    """The most influential segments one at a time, or groups of them drawn from the pool."""
    if edits.kind != "group":
        return [[index] for index in influence.abs().topk(edits.top).indices.tolist()]
    pool = influence.abs().topk(edits.pool).indices.tolist()
    return [generator.sample(pool, edits.group) for _ in range(edits.top)]


def training_segments(sentences: Sequence[Sentence], kind: Kind) -> torch.Tensor:
    """Every token, or every entity of two or more tokens, as (sentence number, start, stop)."""
    found: list[tuple[int, int, int]] = []
    for number, sentence in enumerate(sentences):
        if kind == "token":
            found += [(number, t, t + 1) for t in range(len(sentence))]
        else:
            found += [(number, s.start, s.stop) for s in segments(sentence.labels, "iob2") if s.stop - s.start > 1]
    return torch.tensor(found)


def mispredicted(tagger: Tagger, sentences: Sequence[Sentence]) -> list[Query]:
    """A query with the gold label for every token whose predicted label is wrong."""
    rows = tagger.rows(sentences)
    features, labels = (t.split(rows.lengths.tolist()) for t in (rows.features, rows.labels))
    return [
        Query(features[i].double(), labels[i], t, t + 1)
        for i, (sentence, path) in enumerate(zip(sentences, tagger.predict(sentences), strict=True))
        for t in range(len(sentence))
        if path[t] != sentence.labels[t]
    ]


def agreement(points: Sequence[Point], name: str) -> dict[str, float]:
    """Pearson, Spearman, least-squares slope of actual on predicted, and largest error, over all points."""
    predicted, actual = _columns(points, name)
    return {
        "pearson": float(np.corrcoef(predicted, actual)[0, 1]),
        "spearman": spearman(predicted, actual),
        "slope": float(np.polyfit(predicted, actual, 1)[0]),
        "largest_error": float(np.abs(predicted - actual).max()),
        "range": float(actual.max() - actual.min()),
    }


def agreement_per_query(points: Sequence[Point], name: str) -> float:
    """Spearman's correlation of predicted and actual changes among the edits of one query, averaged over queries.

    Over all points, queries whose loss changes a lot with any edit make every method look better; a user who asks about
    one prediction sees only the order of its edits.
    """
    by_query: dict[int, list[Point]] = {}
    for point in points:
        by_query.setdefault(point["query"], []).append(point)
    return fmean(spearman(*_columns(some, name)) for some in by_query.values())


def spearman(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's correlation of the ranks; equal values are ranked in their given order."""
    return float(np.corrcoef(first.argsort().argsort(), second.argsort().argsort())[0, 1])


def _columns(points: Sequence[Point], name: str) -> tuple[np.ndarray, np.ndarray]:
    return np.array([point[name] for point in points]), np.array([point["actual"] for point in points])
