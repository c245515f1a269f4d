"""Cholesky: the operator as a matrix, factored once; for P up to about 15,000."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from tagtrace.influence.operators import Operator
from tagtrace.influence.solvers.solution import Solution, SolveError, Solver


class Cholesky(Solver):
    """K = L L^T, then two triangular solves a right-hand side."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.matrix = operator.dense()  # (P, P)
        factor, failed = torch.linalg.cholesky_ex(self.matrix)
        if int(failed) != 0:
            raise SolveError("the curvature is not positive definite; add damping or refit with a larger l2")
        self.factor = factor

    def try_solve(self, right: Tensor) -> Solution:
        right = right.double()
        value = torch.cholesky_solve(right.T, self.factor).T
        residual = (value @ self.matrix - right).norm(dim=1) / right.norm(dim=1).clamp(min=1e-300)
        return Solution(value, residual, 1, "exact")

    @cached_property
    def inverse(self) -> Tensor:
        """K^-1 (P, P), for uses that need many of its blocks."""
        return torch.cholesky_inverse(self.factor)
