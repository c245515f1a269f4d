"""A tiny head at its optimum, with everything that refining and retraining need."""

from __future__ import annotations

import torch

from tagtrace.data import LabelSet
from tagtrace.influence import Query, Refiner, Retrainer
from tagtrace.influence.curvature.operators import Hessian
from tagtrace.influence.curvature.solvers import Cholesky
from tagtrace.tagger import Head, HeadOptions, RefitOptions, Rows, refit_head
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.objective import Objective
from tests.strategies import LABELS, random_rows

L2 = 0.8


class Fitted:
    """A head fitted to ``rows``, its objective and its inverted Hessian."""

    def __init__(
        self,
        options: HeadOptions,
        rows: Rows,
        labels: LabelSet = LABELS,
        l2: float = L2,
        tolerance: float = 1e-11,
    ) -> None:
        torch.manual_seed(0)
        self.rows = rows
        head = Head(rows.features.shape[1], labels, options)
        self.head = refit_head(head, rows, RefitOptions(l2, tolerance)).head
        self.objective = Objective(self.head, rows, l2)
        self.theta = self.head.flat()
        self.solver = Cholesky(Hessian(HessianProduct(self.objective, self.theta)))

    def retrainer(self) -> Retrainer:
        return Retrainer(self.objective, self.rows, self.theta, self.solver)

    def refiner(self, num_passes: int = 0) -> Refiner:
        return Refiner(self.head, self.rows, self.solver, self.objective, num_passes)

    def query(self, seed: int = 9, start: int = 1, stop: int = 2) -> Query:
        other = random_rows(seed, (4,))
        return Query(other.features.double(), other.labels, start, stop)


def copies_of(rows: Rows, copies: int) -> Rows:
    return Rows(rows.features.repeat(copies, 1), rows.labels.repeat(copies), rows.lengths.repeat(copies))
