"""Verify: retrain the head exactly after edits of training labels, from a warm start.

Minimises F(theta) = J(theta) + (1/N) sum over edited sentences (loss after - loss before) to max |gradient| <=
tolerance, and to a thousandth of the gradient at the start, because one label of millions changes J very little. The
Hessian of J, already inverted, starts a quasi-Newton iteration (L-BFGS with H^-1 as its first guess) that needs only
gradients. Far from the start the Hessian is different: every ``RENEW`` evaluations J's Hessian at the current theta
replaces H, by conjugate gradients preconditioned with H^-1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace._checks import TrainingError
from tagtrace.influence.curvature.operators import Hessian
from tagtrace.influence.curvature.solvers import ConjugateGradient, Solver
from tagtrace.influence.edits.edit import EditedSentences, Group
from tagtrace.influence.edits.lbfgs import MEMORY, pair, two_loops
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.objective import Objective
from tagtrace.tagger.rows import RowParts, Rows

RENEW = 30
"""Number of evaluations after which the Hessian is taken at the current theta."""
SHARE = 1e-3
"""Maximum of |gradient|, as a share of that at the start."""
ROUNDING = 1e-13
"""Gradients below this are rounding errors."""


@dataclass(frozen=True)
class Retrained:
    """The optimum after the edits."""

    theta: Tensor
    max_gradient: float
    num_evaluations: int


class Retrainer:
    """Retrains after edits of ``rows``, starting at ``theta``, the optimum without them."""

    objective: Objective
    rows: Rows | RowParts
    theta: Tensor
    solver: Solver

    def __init__(self, objective: Objective, rows: Rows | RowParts, theta: Tensor, solver: Solver) -> None:
        self.objective, self.rows, self.theta, self.solver = objective, rows, theta, solver

    def retrain(self, group: Group, tolerance: float = 1e-8, max_evaluations: int = 400) -> Retrained:
        """The optimum of F with the edits of ``group``; raises TrainingError if it is not reached."""
        edited = EditedSentences(self.rows, group)
        here = self._evaluate(self.theta.clone(), edited)
        goal = max(min(tolerance, SHARE * here.max_gradient), ROUNDING)
        inverse, memory, num_evaluations = self._given_inverse, list[tuple[Tensor, Tensor, Tensor]](), 1
        renew_at = RENEW
        while here.max_gradient > goal:
            if num_evaluations >= renew_at:
                inverse, memory = self._inverse_at(here.theta), []
                renew_at = num_evaluations + RENEW
            step = -two_loops(here.gradient.unsqueeze(0), memory, inverse)[0]
            there, num_tries = self._downhill(here, step, edited, max_evaluations - num_evaluations)
            num_evaluations += num_tries
            if there is None:
                if here.max_gradient <= tolerance:  # as exact as rounding allows
                    break
                raise TrainingError(
                    f"retraining stopped at max |gradient| {here.max_gradient:.1e} after {num_evaluations} evaluations "
                    f"(wanted {goal:.0e}); edit fewer labels at once, or build the index with a larger l2"
                )
            moved, bent = there.theta - here.theta, there.gradient - here.gradient
            memory = [*memory[1 - MEMORY :], pair(moved.unsqueeze(0), bent.unsqueeze(0))]
            here = there
        return Retrained(here.theta, here.max_gradient, num_evaluations)

    def first_step(self, group: Group) -> Tensor:
        """theta after the first step of retraining, (P,): -H^-1 times the gradient of F, halved until F falls.

        H is the Hessian of J, which does not depend on labels; the step is first-order group influence that cannot
        diverge.
        """
        edited = EditedSentences(self.rows, group)
        here = self._evaluate(self.theta.clone(), edited)
        step = -self._given_inverse(here.gradient.unsqueeze(0))[0]
        there, _ = self._downhill(here, step, edited, 40)
        return here.theta if there is None else there.theta

    def _downhill(self, here: _Point, step: Tensor, edited: EditedSentences, most: int) -> tuple[_Point | None, int]:
        """A point along the step, halved until F falls (Armijo's rule), or None; and the number of evaluations."""
        slope, rate = float(step @ here.gradient), 1.0
        for num_tries in range(1, min(most, 40) + 1):
            there = self._evaluate(here.theta + rate * step, edited)
            if there.value <= here.value + 1e-4 * rate * slope + 1e-13 * abs(here.value):
                return there, num_tries
            rate *= 0.5
        return None, max(min(most, 40), 0)

    def _evaluate(self, theta: Tensor, edited: EditedSentences) -> _Point:
        """F and its gradient."""
        whole, head = self.objective.evaluate(theta), self.objective.head.at(theta)
        with torch.enable_grad():
            scores = head(edited.features, edited.lengths)
            change = edited.losses_after(scores).sum() - edited.loss_before(scores)
            parts = torch.autograd.grad(change / self.objective.num_sentences, list(head.parameters()))
        gradient = whole.gradient + torch.cat([part.flatten() for part in parts])
        return _Point(theta, whole.value + float(change.detach()) / self.objective.num_sentences, gradient)

    def _given_inverse(self, vectors: Tensor) -> Tensor:
        """H^-1 v for rows v (Q, P), about."""
        return self.solver.approximate(vectors)

    def _inverse_at(self, theta: Tensor) -> Callable[[Tensor], Tensor]:
        """The same with J's Hessian at ``theta``."""
        hessian = Hessian(HessianProduct(self.objective, theta))
        return ConjugateGradient(hessian, self._given_inverse, max_steps=50).approximate


@dataclass(frozen=True)
class _Point:
    """theta (P,), F there and its gradient (P,)."""

    theta: Tensor
    value: float
    gradient: Tensor

    @property
    def max_gradient(self) -> float:
        return float(self.gradient.abs().max())


def settled(objective: Objective, theta: Tensor, solver: Solver, max_steps: int = 20) -> Tensor:
    """The optimum of J near ``theta`` as exactly as rounding allows, by Newton steps with the Hessian of ``solver``."""
    here = objective.evaluate(theta)
    for _ in range(max_steps):
        if here.max_gradient <= ROUNDING:
            break
        there = objective.evaluate(here.theta - solver.approximate(here.gradient.unsqueeze(0))[0])
        if there.max_gradient > 0.5 * here.max_gradient:
            break
        here = there
    return here.theta
