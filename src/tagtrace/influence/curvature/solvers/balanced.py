"""A preconditioner that is exact in a few coordinates and approximate in the rest.

Transitions, start and end scores and biases can nearly replace one another, so an approximation that treats them
separately leaves many steps to conjugate gradients. Their columns of K are few. With Z those coordinates, E = Z^T K Z
and B an approximation of K^-1,

    M^-1 = Z E^-1 Z^T + (I - Z E^-1 Z^T K) B (I - K Z E^-1 Z^T)

is symmetric positive definite, and M^-1 K leaves every vector of Z unchanged (Mandel 1993, "balancing").
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tagtrace.influence.curvature.operators import Operator

Precondition = Callable[[Tensor], Tensor]


class Balanced:
    """M^-1 for ``operator`` K, ``approximate`` B and the ``coordinates`` Z (E,)."""

    factor: Tensor
    approximate: Precondition
    coordinates: Tensor
    columns: Tensor

    @torch.no_grad()
    def __init__(self, operator: Operator, approximate: Precondition, coordinates: Tensor) -> None:
        self.approximate, self.coordinates = approximate, coordinates
        units = torch.zeros(len(coordinates), operator.size, dtype=torch.float64, device=operator.device)
        units[torch.arange(len(coordinates)), coordinates] = 1.0
        self.columns = torch.cat([operator(part) for part in units.split(16)])  # K Z, transposed: (E, P)
        self.factor = torch.linalg.cholesky(self.columns[:, coordinates])

    @torch.no_grad()
    def __call__(self, vectors: Tensor) -> Tensor:
        """M^-1 v for each row v of ``vectors`` (Q, P)."""
        exact = self._solve(vectors[:, self.coordinates])  # (Q, E)
        rest = self.approximate(vectors - exact @ self.columns)  # (Q, P)
        rest[:, self.coordinates] += exact - self._solve(rest @ self.columns.T)
        return rest

    def _solve(self, right: Tensor) -> Tensor:
        """E^-1 times each row of (Q, E)."""
        return torch.cholesky_solve(right.T, self.factor).T
