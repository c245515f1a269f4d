"""Curvature as a linear operator K on vectors of the size of theta, many at once: (Q, P) -> (Q, P).

| operator | K |
|---|---|
| ``Identity`` | I (the paper's choice for transformers) |
| ``Hessian`` | the exact Hessian of the objective, by products |
| ``Kronecker`` | S x M for W, a diagonal for the rest: an approximation that is cheap to invert |

Damping adds ``damping`` times I to any of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property

import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace._progress import Progress
from tagtrace.tagger.convex.block_cg import LinearMap
from tagtrace.tagger.convex.coarse_inverse import MAX_MATRIX, CoarseInverse
from tagtrace.tagger.convex.dense_hessian import dense_hessian
from tagtrace.tagger.convex.hessian_product import ROUGH, HessianProduct
from tagtrace.tagger.convex.preconditioner import KroneckerFactors, balanced_kronecker


def check_damping(damping: float) -> None:
    """Raise OptionError unless damping keeps operators positive definite."""
    if not (math.isfinite(damping) and damping >= 0):
        raise OptionError(f"damping {damping}: must be a number, at least 0")


class Operator(ABC):
    """A symmetric positive definite linear map on vectors of length ``size``."""

    device: torch.device
    size: int
    damping: float

    def __init__(self, size: int, damping: float, device: torch.device) -> None:
        check_damping(damping)
        self.size, self.damping, self.device = size, damping, device

    @abstractmethod
    def __call__(self, vectors: Tensor) -> Tensor:
        """(K + damping I) v for each row v of ``vectors`` (Q, P)."""

    def fast(self, vectors: Tensor) -> Tensor:
        """About the same, as fast as possible; for solvers that compare with exact products in the end."""
        return self(vectors)

    def dense(self, progress: Progress | None = None) -> Tensor:  # noqa: ARG002
        """The matrix (P, P); ``progress`` counts sentences."""
        return self(torch.eye(self.size, dtype=torch.float64, device=self.device))


class Identity(Operator):
    """I: gradients are compared as they are."""

    def __init__(self, size: int, damping: float = 0.0, device: torch.device | None = None) -> None:
        super().__init__(size, damping, device or torch.device("cpu"))

    def __call__(self, vectors: Tensor) -> Tensor:
        return (1.0 + self.damping) * vectors

    def inverse(self, vectors: Tensor) -> Tensor:
        """Each row divided by 1 + damping."""
        return vectors / (1.0 + self.damping)


class Hessian(Operator):
    """The Hessian of J at the theta ``product`` was made for; a matrix only if ``dense`` is called."""

    def __init__(self, product: HessianProduct, damping: float = 0.0) -> None:
        super().__init__(product.head.num_parameters, damping, product.head.weight.device)
        self.product = product

    def __call__(self, vectors: Tensor) -> Tensor:
        return self.product(vectors) + self.damping * vectors

    def fast(self, vectors: Tensor) -> Tensor:
        return self.fast_product(vectors) + self.damping * vectors

    @cached_property
    def fast_product(self) -> HessianProduct:
        """Products in float32 without tokens whose labels are certain; on a GPU, the exact ones, which are fast."""
        if self.device.type == "cuda":
            return self.product
        return HessianProduct(self.product.objective, self.product.where, torch.float32, ROUGH)

    @cached_property
    def preconditioner(self) -> LinearMap:
        """An approximate inverse: of a coarse matrix, or Kronecker factors if there are too many parameters."""
        if self.size <= MAX_MATRIX:
            try:
                return CoarseInverse(self.fast_product, self.damping)
            except ValueError:  # it left out too much
                pass
        return balanced_kronecker(self.fast_product, self.damping)

    def dense(self, progress: Progress | None = None) -> Tensor:
        matrix = dense_hessian(self.product, progress)
        matrix.diagonal().add_(self.damping)
        return matrix


class Kronecker(Operator):
    """S x M + (lambda + damping) I for W; for the other parameters a diagonal (``KroneckerFactors``)."""

    factors: KroneckerFactors

    def __init__(self, product: HessianProduct, damping: float = 0.0) -> None:
        super().__init__(product.head.num_parameters, damping, product.head.weight.device)
        self.factors = KroneckerFactors(product, product.objective.l2 + damping)

    def __call__(self, vectors: Tensor) -> Tensor:
        return self.factors(vectors)

    def inverse(self, vectors: Tensor) -> Tensor:
        """(K + damping I)^-1 v for each row v."""
        return self.factors.inverse(vectors)
