"""Verify: retrain the head exactly without, or with other, training labels, from a warm start.

Minimises J(theta) + (1/N) sum over edited chains (loss after - loss before) to max |gradient| <= tolerance. The
Hessian of J, already factored, starts a quasi-Newton iteration (L-BFGS with H^-1 as its first guess) that needs only
gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace._checks import TrainingError
from tagtrace.influence.edits import EditedChains, Group
from tagtrace.influence.solvers import Solver
from tagtrace.tagger.objective import Objective
from tagtrace.tagger.rows import Rows


@dataclass(frozen=True)
class Retrained:
    """The optimum with the edits made."""

    theta: Tensor
    max_gradient: float
    num_evaluations: int


class Retrainer:
    """Retrains after edits of ``rows``, starting at ``theta``, the optimum without them."""

    def __init__(self, objective: Objective, rows: Rows, theta: Tensor, solver: Solver) -> None:
        self.objective, self.rows, self.theta, self.solver = objective, rows, theta, solver

    def retrain(self, group: Group, tolerance: float = 1e-8, max_evaluations: int = 200) -> Retrained:
        """The optimum of J with the edits of ``group``; an error if it is not reached."""
        edited = EditedChains(self.rows, group)
        theta = self.theta.clone()
        value, gradient = self._evaluate(theta, edited)
        memory: list[tuple[Tensor, Tensor]] = []
        num_evaluations = 1
        while float(gradient.abs().max()) > tolerance:
            step = -self._inverse(gradient, memory)
            slope, rate = float(step @ gradient), 1.0
            while True:
                if num_evaluations == max_evaluations:
                    raise TrainingError(
                        f"retraining stopped at max |gradient| {float(gradient.abs().max()):.1e} "
                        f"after {num_evaluations} evaluations (wanted {tolerance:.0e})"
                    )
                moved = theta + rate * step
                new_value, new_gradient = self._evaluate(moved, edited)
                num_evaluations += 1
                if new_value <= value + 1e-4 * rate * slope + 1e-13 * abs(value):
                    break
                rate *= 0.5
            memory = [*memory[-9:], (moved - theta, new_gradient - gradient)]
            theta, value, gradient = moved, new_value, new_gradient
        return Retrained(theta, float(gradient.abs().max()), num_evaluations)

    def _evaluate(self, theta: Tensor, edited: EditedChains) -> tuple[float, Tensor]:
        """J with the edits, and its gradient."""
        whole = self.objective.evaluate(theta)
        head = self.objective.head
        with torch.enable_grad():
            scores = head(edited.features, edited.lengths)
            change = edited.losses_after(scores).sum() - edited.loss_before(scores)
            parts = torch.autograd.grad(change / self.objective.num_chains, list(head.parameters()))
        gradient = whole.gradient + torch.cat([part.flatten() for part in parts])
        return whole.value + float(change.detach()) / self.objective.num_chains, gradient

    def _inverse(self, gradient: Tensor, memory: list[tuple[Tensor, Tensor]]) -> Tensor:
        """H^-1 gradient, corrected by the curvature seen along the way (the L-BFGS two-loop recursion)."""
        useful = [(s, y, 1.0 / float(s @ y)) for s, y in memory if float(s @ y) > 0]
        rates = []
        for s, y, inverse in reversed(useful):
            rates.append(inverse * float(s @ gradient))
            gradient = gradient - rates[-1] * y
        direction = self.solver.solve(gradient.unsqueeze(0)).value[0]
        for (s, y, inverse), rate in zip(useful, reversed(rates), strict=True):
            direction = direction + (rate - inverse * float(y @ direction)) * s
        return direction
