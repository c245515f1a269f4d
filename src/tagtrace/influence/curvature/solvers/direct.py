"""Direct: operators that have an inverse in closed form, the identity and Kronecker factors."""

from __future__ import annotations

from torch import Tensor

from tagtrace.influence.curvature.operators import Identity, Kronecker, Operator
from tagtrace.influence.curvature.solvers.solution import WORST_RESIDUAL, Solution, Solver, relative_residual


class Direct(Solver):
    """x = K^-1 b by formula."""

    invertible: Identity | Kronecker

    def __init__(self, operator: Identity | Kronecker) -> None:
        self.operator: Operator | None = operator
        self.invertible = operator

    def try_solve(self, right: Tensor) -> Solution:
        right = right.double()
        value = self.invertible.inverse(right)
        residual = relative_residual(self.invertible, value, right)
        is_good = bool((residual <= WORST_RESIDUAL).all())
        return Solution(value, residual, 0, "exact" if is_good else "not converged")
