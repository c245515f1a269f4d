"""Cholesky: the operator as a matrix, factored and inverted once; for P up to about 15,000.

A solve with the factor reads it twice, and slowly for one right-hand side; with the inverse it is one product, and
refine needs the inverse too. So the inverse is kept, with ``Probes`` to estimate the error of each solve. The operator
is not kept, because it refers to the training data.

However x is computed, rounding it to float64 leaves a residual of about eps |K| |x| (measured: a step of iterative
refinement reduces it by a factor of 1.4 to 2.4), and the small weights of a large Hessian are multiplied in float32.
Where K is ill-conditioned, neither is nothing: a residual up to ``WORST`` is accepted, as for conjugate gradients.
"""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from tagtrace._progress import Progress
from tagtrace.influence.curvature.operators import Operator
from tagtrace.influence.curvature.solvers.probes import Probes
from tagtrace.influence.curvature.solvers.solution import Solution, SolveError, Solver
from tagtrace.tagger.convex.products import by_loops, symmetric_product

WORST = 1e-4
"""Largest residual of a solve."""


class Cholesky(Solver):
    """K = L L^T, then x = K^-1 b. ``progress`` counts the sentences that went into the matrix."""

    operator: Operator | None

    inverse: Tensor
    """K^-1 (P, P)"""
    probes: Probes

    def __init__(self, operator: Operator, progress: Progress | None = None) -> None:
        self.operator = None
        factor, failed = torch.linalg.cholesky_ex(operator.dense(progress))
        if int(failed) != 0:
            raise SolveError("the curvature is not positive definite; add damping or refit with a larger l2")
        self.inverse = torch.cholesky_inverse(factor).T  # symmetric, and by rows
        self.probes = Probes.of(operator)

    @classmethod
    def of_inverse(cls, inverse: Tensor, probes: Probes) -> Self:
        """From a K^-1 (P, P) that was computed before."""
        solver = cls.__new__(cls)
        solver.operator, solver.inverse, solver.probes = None, inverse, probes
        return solver

    def to(self, device: torch.device) -> Cholesky:
        """The same on a device."""
        probes = Probes(self.probes.vectors.to(device), self.probes.products.to(device))
        return Cholesky.of_inverse(self.inverse.to(device), probes)

    def try_solve(self, right: Tensor) -> Solution:
        is_query = len(right) == 1 and self.inverse.device.type == "cpu"
        return by_loops(lambda: self._solve(right)) if is_query else self._solve(right)

    @torch.no_grad()
    def _solve(self, right: Tensor) -> Solution:
        right = right.to(self.inverse)
        value = symmetric_product(self.inverse, right)
        residual = self.probes.residual(value, right)
        is_good = bool((residual <= WORST).all())
        return Solution(value, residual, 1, "exact" if is_good else "not converged")
