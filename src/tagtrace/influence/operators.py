"""Curvature as a linear operator K on vectors theta-like, many at once: (Q, P) -> (Q, P).

| operator | K |
|---|---|
| ``Identity`` | I (the paper's choice for transformers) |
| ``Hessian`` | the exact Hessian of the objective, by products |
| ``Kronecker`` | S x M for W, a diagonal for the rest: an approximation that is cheap to invert |

Damping adds ``damping`` times I to any of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.influence.hessian import dense_hessian
from tagtrace.tagger.head import Head
from tagtrace.tagger.objective import HessianProduct
from tagtrace.tagger.rows import unpad_rows
from tagtrace.tagger.tagger import Progress


class Operator(ABC):
    """A symmetric positive definite linear map on vectors of length ``size``."""

    size: int
    damping: float

    def __init__(self, size: int, damping: float, device: torch.device) -> None:
        if damping < 0:
            raise OptionError(f"damping {damping}: must be at least 0")
        self.size, self.damping, self.device = size, damping, device

    @abstractmethod
    def __call__(self, vectors: Tensor) -> Tensor:
        """(K + damping I) v for each row v of ``vectors`` (Q, P)."""

    def dense(self, progress: Progress | None = None) -> Tensor:  # noqa: ARG002
        """The matrix (P, P); ``progress`` counts sentences where that takes long."""
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
    """The Hessian of J at the theta ``product`` was made for; never formed unless asked."""

    def __init__(self, product: HessianProduct, damping: float = 0.0) -> None:
        super().__init__(product.head.num_parameters, damping, product.head.weight.device)
        self.product = product

    def __call__(self, vectors: Tensor) -> Tensor:
        return self.product(vectors) + self.damping * vectors

    def dense(self, progress: Progress | None = None) -> Tensor:
        matrix = dense_hessian(self.product, progress)
        matrix.diagonal().add_(self.damping)
        return matrix


class Kronecker(Operator):
    """S x M + (lambda + damping) I for W; expected counts plus lambda and damping for the other parameters.

    S = sum_t (diag(p_t) - p_t p_t^T) / sum_t u_t and M = (1/N) sum_t u_t f_t f_t^T with u_t = 1 - sum_c p_t(c)^2: each
    token's curvature, as if label and feature were independent once weighed by the token's uncertainty.
    """

    @torch.no_grad()
    def __init__(self, product: HessianProduct, damping: float = 0.0) -> None:
        super().__init__(product.head.num_parameters, damping, product.head.weight.device)
        self.head: Head = product.head
        self.shift = product.objective.l2 + damping
        C, D = self.head.num_labels, self.head.dim + 1
        labels, moment = self.head.weight.new_zeros(C, C), self.head.weight.new_zeros(D, D)
        edges, total = self.head.weight.new_zeros(C, C), 0.0
        for chunk, chains in zip(product.objective.chunks, product.runs, strict=True):
            features = chunk.features.double()
            features = torch.cat([features, features.new_ones(len(features), 1)], 1)
            nodes = unpad_rows(chains.nodes(), chunk.lengths)  # (n, C)
            uncertainty = 1.0 - nodes.square().sum(1, keepdim=True)  # (n, 1)
            labels += torch.diag(nodes.sum(0)) - nodes.T @ nodes
            moment += features.T @ (features * uncertainty)
            edges += chains.edge_sum(nodes.new_ones(len(chunk.lengths)))
            total += float(uncertainty.sum())
        num_chains = product.objective.num_chains
        self.label_values, self.label_basis = torch.linalg.eigh(labels / max(total, 1e-300))
        self.feature_values, self.feature_basis = torch.linalg.eigh(moment / num_chains)
        self.spectrum = self.label_values.clamp(min=0.0).unsqueeze(1) * self.feature_values.clamp(min=0.0)  # (C, D)
        self.edges = edges / num_chains  # (C, C)

    def __call__(self, vectors: Tensor) -> Tensor:
        return self._apply(vectors, inverse=False)

    def inverse(self, vectors: Tensor) -> Tensor:
        """(K + damping I)^-1 v for each row v."""
        return self._apply(vectors, inverse=True)

    def _apply(self, vectors: Tensor, *, inverse: bool) -> Tensor:
        parts = self.head.unflatten(vectors)
        scales = {"transitions": self.edges, "start": self.edges.sum(1), "end": self.edges.sum(0)}
        scaled = {"weight": self._rotate(parts["weight"], self.spectrum + self.shift, inverse)}
        for name in parts:
            if name != "weight":
                scale = scales[name] + self.shift
                scaled[name] = parts[name] / scale if inverse else parts[name] * scale
        return torch.cat([part.flatten(1) for part in scaled.values()], 1)

    def _rotate(self, weights: Tensor, values: Tensor, inverse: bool) -> Tensor:
        """Scale (Q, C, D + 1) in the eigenbasis."""
        turned = self.label_basis.T @ weights @ self.feature_basis
        turned = turned / values if inverse else turned * values
        return self.label_basis @ turned @ self.feature_basis.T
