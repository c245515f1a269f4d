"""Cholesky: the operator as a matrix, factored and inverted once; for P up to about 15,000.

A solve with the factor reads it twice, and slowly for one right-hand side; with the inverse it is one product, and
refine needs the inverse too. So that is what is kept, and ``Probes`` to tell how good each solve is.
"""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from tagtrace.influence.operators import Operator
from tagtrace.influence.solvers.probes import Probes
from tagtrace.influence.solvers.solution import Solution, SolveError, Solver
from tagtrace.tagger.tagger import Progress

WORST_RESIDUAL = 1e-6
"""Relative; a solve that ends above it has failed."""


class Cholesky(Solver):
    """K = L L^T, then x = K^-1 b. ``progress`` counts the sentences that went into the matrix."""

    inverse: Tensor
    """K^-1 (P, P)"""
    probes: Probes

    def __init__(self, operator: Operator, progress: Progress | None = None) -> None:
        self.operator = operator
        factor, failed = torch.linalg.cholesky_ex(operator.dense(progress))
        if int(failed) != 0:
            raise SolveError("the curvature is not positive definite; add damping or refit with a larger l2")
        self.inverse = torch.cholesky_inverse(factor).T  # symmetric, and by rows
        self.probes = Probes.of(operator)

    @classmethod
    def of_inverse(cls, inverse: Tensor, probes: Probes) -> Self:
        """From K^-1 (P, P) as it was worked out before."""
        solver = cls.__new__(cls)
        solver.operator, solver.inverse, solver.probes = None, inverse, probes
        return solver

    @torch.no_grad()
    def try_solve(self, right: Tensor) -> Solution:
        right = right.to(self.inverse)
        value = right @ self.inverse
        residual = self.probes.residual(value, right)
        is_good = bool((residual <= WORST_RESIDUAL).all())
        return Solution(value, residual, 1, "exact" if is_good else "not converged")
