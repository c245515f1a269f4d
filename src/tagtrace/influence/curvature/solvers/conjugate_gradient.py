"""Preconditioned conjugate gradients, many right-hand sides at once.

Each right-hand side has its own recurrence. They share the operator's passes over the data, which take most of the
time. A right-hand side that has converged is not updated further.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.influence.curvature.operators import Operator
from tagtrace.influence.curvature.solvers.solution import Solution, Solver, relative_residual


class ConjugateGradient(Solver):
    """Stops when every |K x - b| <= tolerance |b|, or after ``max_steps``."""

    operator: Operator | None
    system: Operator
    precondition: Callable[[Tensor], Tensor]
    tolerance: float
    max_steps: int

    advice = "allow more steps, add damping, or use the dense solver"

    def __init__(
        self,
        operator: Operator,
        precondition: Callable[[Tensor], Tensor] | None = None,
        tolerance: float = 1e-8,
        max_steps: int = 500,
    ) -> None:
        if not tolerance > 0 or max_steps < 1:
            raise OptionError("conjugate gradients: tolerance must be above 0 and max_steps at least 1")
        self.operator = self.system = operator
        self.precondition = precondition or torch.Tensor.clone
        self.tolerance, self.max_steps = tolerance, max_steps

    @torch.no_grad()
    def try_solve(self, right: Tensor) -> Solution:
        right = right.double()
        value, residual = torch.zeros_like(right), right.clone()  # (Q, P)
        z = self.precondition(residual)
        direction, energy = z, (residual * z).sum(1)  # (Q, P), (Q,)
        goal = self.tolerance * right.norm(dim=1)  # (Q,)
        num_steps = 0
        live = (residual.norm(dim=1) > goal).nonzero().squeeze(1)
        while len(live) and num_steps < self.max_steps:
            product = self.system(direction[live])
            rate = (energy[live] / (direction[live] * product).sum(1)).unsqueeze(1)
            value[live] += rate * direction[live]
            residual[live] -= rate * product
            z = self.precondition(residual[live])
            renewed = (residual[live] * z).sum(1)
            direction[live] = z + (renewed / energy[live]).unsqueeze(1) * direction[live]
            energy[live] = renewed
            num_steps += 1
            live = live[residual[live].norm(dim=1) > goal[live]]
        true_residual = relative_residual(self.system, value, right)
        has_converged = bool((true_residual <= 2 * self.tolerance).all())
        return Solution(value, true_residual, num_steps, "converged" if has_converged else "not converged")
