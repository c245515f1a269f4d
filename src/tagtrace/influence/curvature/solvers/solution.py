"""The interface of solvers, and the result of a solve."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from tagtrace._checks import TagtraceError
from tagtrace.influence.curvature.operators import Operator

WORST_RESIDUAL = 1e-6
"""Relative; a solve by formula or by an inverse with a larger residual has failed, unless rounding explains it."""


class SolveError(TagtraceError):
    """A linear system was not solved to the required accuracy."""


@dataclass(frozen=True)
class Solution:
    """K^-1 b for Q right-hand sides b, with the residual of each."""

    value: Tensor
    """(Q, P)"""
    residual: Tensor
    """|K x - b| / |b|, (Q,), computed, or estimated by ``Probes``."""
    num_steps: int
    status: Literal["exact", "converged", "not converged"]


class Solver(ABC):
    """Solves (K + damping I) x = b for one operator and any b."""

    operator: Operator | None
    """K + damping I, if the solver keeps it."""
    advice: str = "add damping or refit with a larger l2"
    """What to try if a solve fails."""

    @abstractmethod
    def try_solve(self, right: Tensor) -> Solution:
        """The best solution found for right-hand sides (Q, P), whatever its status."""

    def approximate(self, right: Tensor) -> Tensor:
        """K^-1 b to a percent or better, for iterations that correct it, (Q, P)."""
        return self.try_solve(right).value

    def solve(self, right: Tensor) -> Solution:
        """As ``try_solve``, but raises SolveError if the solve failed."""
        solution = self.try_solve(right)
        if solution.status == "not converged" or not bool(solution.value.isfinite().all()):
            worst = float(solution.residual.max())
            steps = f" after {solution.num_steps} steps" if solution.num_steps > 1 else ""
            raise SolveError(f"the curvature solve ended at a relative residual of {worst:.1e}{steps}; {self.advice}")
        return solution


def relative_residual(operator: Operator, value: Tensor, right: Tensor) -> Tensor:
    """|K x - b| / |b| for each row, (Q,); 0 where b is 0 and solved."""
    return (operator(value) - right).norm(dim=1) / right.norm(dim=1).clamp(min=1e-300)
