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

import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace._progress import Progress
from tagtrace.influence.curvature.hessian import dense_hessian
from tagtrace.tagger.head import Head
from tagtrace.tagger.objective import HessianProduct
from tagtrace.tagger.preconditioner import end_variances
from tagtrace.tagger.rows import unpad_rows


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

    def dense(self, progress: Progress | None = None) -> Tensor:
        matrix = dense_hessian(self.product, progress)
        matrix.diagonal().add_(self.damping)
        return matrix


class Kronecker(Operator):
    """S x M + (lambda + damping) I for W; for the other parameters a diagonal, plus lambda and damping.

    S = sum_t (diag(p_t) - p_t p_t^T) / sum_t u_t and M = (1/N) sum_t u_t f_t f_t^T with u_t = 1 - sum_c p_t(c)^2: each
    token's curvature, as if label and features were independent once weighted by the token's uncertainty. The
    diagonal has the expected counts of transitions, and p (1 - p) of first and last labels, over N.
    """

    label_values: Tensor
    label_basis: Tensor
    feature_values: Tensor
    feature_basis: Tensor
    spectrum: Tensor
    shift: float
    scales: dict[str, Tensor]

    @torch.no_grad()
    def __init__(self, product: HessianProduct, damping: float = 0.0) -> None:
        super().__init__(product.head.num_parameters, damping, product.head.weight.device)
        self.head: Head = product.head
        self.shift = product.objective.l2 + damping
        C, D = self.head.num_labels, self.head.dim + 1
        labels, moment = self.head.weight.new_zeros(C, C), self.head.weight.new_zeros(D, D)
        edges, total = self.head.weight.new_zeros(C, C), 0.0
        first, last = self.head.weight.new_zeros(C), self.head.weight.new_zeros(C)
        for chunk, recursion in zip(product.objective.chunks, product.runs, strict=True):
            features = chunk.features.double()
            features = torch.cat([features, features.new_ones(len(features), 1)], 1)
            nodes = unpad_rows(recursion.nodes(), chunk.lengths)  # (n, C)
            uncertainty = (1.0 - nodes.square().sum(1, keepdim=True)).clamp(min=0.0)  # (n, 1)
            labels += torch.diag(nodes.sum(0)) - nodes.T @ nodes
            moment += features.T @ (features * uncertainty)
            edges += recursion.edge_sum(nodes.new_ones(len(chunk.lengths)))
            at_first, at_last = end_variances(recursion)
            first, last = first + at_first, last + at_last
            total += float(uncertainty.sum())
        num_sentences = product.objective.num_sentences
        covariance = labels / total if total > 0 else torch.zeros_like(labels)  # S (C, C); zero if there is one label
        self.label_values, self.label_basis = torch.linalg.eigh(covariance)
        self.feature_values, self.feature_basis = torch.linalg.eigh(moment / num_sentences)
        self.spectrum = self.label_values.clamp(min=0.0).unsqueeze(1) * self.feature_values.clamp(min=0.0)  # (C, D)
        named = {"transitions": edges, "start": first, "end": last}
        self.scales = {name: value / num_sentences + self.shift for name, value in named.items()}

    def __call__(self, vectors: Tensor) -> Tensor:
        return self._apply(vectors, inverse=False)

    def inverse(self, vectors: Tensor) -> Tensor:
        """(K + damping I)^-1 v for each row v."""
        return self._apply(vectors, inverse=True)

    def _apply(self, vectors: Tensor, *, inverse: bool) -> Tensor:
        parts = self.head.unflatten(vectors)
        scaled = {"weight": self._rotate(parts["weight"], self.spectrum + self.shift, inverse)}
        for name in parts:
            if name != "weight":
                scaled[name] = parts[name] / self.scales[name] if inverse else parts[name] * self.scales[name]
        return torch.cat([part.flatten(1) for part in scaled.values()], 1)

    def _rotate(self, weights: Tensor, values: Tensor, inverse: bool) -> Tensor:
        """Scale (Q, C, D + 1) in the eigenbasis."""
        turned = self.label_basis.T @ weights @ self.feature_basis
        turned = turned / values if inverse else turned * values
        return self.label_basis @ turned @ self.feature_basis.T
