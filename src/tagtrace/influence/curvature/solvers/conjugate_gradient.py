"""Preconditioned block conjugate gradients, many right-hand sides at once (``tagger.convex.block_cg``).

The steps use the operator's fast products. The residual that is reported, and solved for again until it is small
enough, is that of its exact ones; for many right-hand sides at once it is estimated (``Probes``) where it is expected
to be small enough.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.influence.curvature.operators import Operator
from tagtrace.influence.curvature.solvers.probes import Probes
from tagtrace.influence.curvature.solvers.solution import Solution, Solver
from tagtrace.tagger.convex.block_cg import LinearMap, block_cg, solve_refined
from tagtrace.tagger.convex.memory import give_back

ROUGH = 1e-2
"""Relative residual of ``approximate``."""
MANY, NUM_PROBES = 32, 16
"""From so many right-hand sides on, so many probes are cheaper than a product for each; an estimate by 16 is below half
of the truth for one in a thousand."""


class ConjugateGradient(Solver):
    """Stops when every |K x - b| <= tolerance |b|, or after ``max_steps``."""

    operator: Operator | None
    system: Operator
    precondition: LinearMap
    tolerance: float
    max_steps: int

    advice = "allow more steps, add damping, or use the dense solver"

    def __init__(
        self,
        operator: Operator,
        precondition: LinearMap | None = None,
        tolerance: float = 1e-8,
        max_steps: int = 500,
    ) -> None:
        if not tolerance > 0 or max_steps < 1:
            raise OptionError("conjugate gradients: tolerance must be above 0 and max_steps at least 1")
        self.operator = self.system = operator
        self.precondition = precondition or torch.Tensor.clone
        self.tolerance, self.max_steps = tolerance, max_steps

    @cached_property
    def probes(self) -> Probes:
        return Probes.of(self.system, NUM_PROBES)

    def approximate(self, right: Tensor) -> Tensor:
        right = right.double().to(self.system.device)
        return block_cg(self.system.fast, self.precondition, right, ROUGH, self.max_steps).value

    def try_solve(self, right: Tensor) -> Solution:
        right = right.double().to(self.system.device)
        size = right.abs().amax(1, keepdim=True)  # (Q, 1): float32 has no room for gradients of very certain labels
        size[size == 0] = 1.0
        right = right / size
        estimate = self.probes.residual if len(right) >= MANY else None
        found = solve_refined(
            self.system, self.system.fast, self.precondition, right, self.tolerance, self.max_steps, estimate=estimate
        )
        give_back()
        has_converged = bool((found.residual <= 2 * self.tolerance).all())
        status = "converged" if has_converged else "not converged"
        return Solution(found.value * size, found.residual, found.num_steps, status)
