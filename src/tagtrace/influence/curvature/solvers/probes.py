"""How far a solve is off, without the matrix: from random vectors z and their products K z.

For any x and b, z^T (K x - b) = (K z)^T x - z^T b costs next to nothing, and over normal z its mean square is
|K x - b|^2.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace.influence.curvature.operators import Operator

NUM_PROBES = 32
"""The estimate is then within a third of the truth nearly always, and below a fifth of it practically never."""


EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True)
class Probes:
    """z and K z, (R, P) each."""

    vectors: Tensor
    products: Tensor

    @classmethod
    def of(cls, operator: Operator) -> Probes:
        """Products by the operator itself: they also tell a matrix that is not the operator's."""
        generator = torch.Generator().manual_seed(0)
        vectors = torch.randn(NUM_PROBES, operator.size, generator=generator, dtype=torch.float64)
        vectors = vectors.to(operator.device)
        return cls(vectors, torch.cat([operator(part) for part in vectors.split(16)]))

    def residual(self, value: Tensor, right: Tensor) -> Tensor:
        """|K x - b| / |b| for each row of x and b (Q, P), estimated, (Q,)."""
        seen = value @ self.products.T - right @ self.vectors.T  # (Q, R)
        return seen.square().mean(1).sqrt() / right.norm(dim=1).clamp(min=1e-300)

    def rounding(self, value: Tensor, right: Tensor) -> Tensor:
        """What float64 alone leaves of that residual, about, (Q,): eps |K| |x| / |b|, |K| from the probes."""
        size = self.products.norm(dim=1).square().mean().sqrt()
        return EPS * size * value.norm(dim=1) / right.norm(dim=1).clamp(min=1e-300)
