"""An approximate inverse Hessian that costs about as much as one product with it: the preconditioner of ``block_cg``.

``KroneckerFactors`` approximate the W part by S x M,

    S = sum_t (diag(p_t) - p_t p_t^T) / sum_t u_t   (C, C),   M = (1/N) sum_t u_t f_t f_t^T   (D + 1, D + 1),

with u_t = 1 - sum_c p_t(c)^2: as if label and features were independent once weighted by the token's uncertainty.
Transitions are scaled by how often they are expected, start and end scores by p (1 - p) of the first and last label.

Transitions, start and end scores and biases can nearly replace one another, so an approximation that treats them
separately leaves many steps to conjugate gradients. Their columns of the Hessian are few. With Z those coordinates,
E = Z^T K Z and B an approximation of K^-1,

    M^-1 = Z E^-1 Z^T + (I - Z E^-1 Z^T K) B (I - K Z E^-1 Z^T)

is symmetric positive definite, and M^-1 K leaves every vector of Z unchanged (Mandel 1993, "balancing").
"""

from __future__ import annotations

import torch
from torch import Tensor

from tagtrace._checks import TrainingError
from tagtrace.tagger.convex.block_cg import LinearMap
from tagtrace.tagger.convex.hessian_product import HessianProduct, uncertainty
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import Rows

MAX_BALANCED = 256
"""Maximum number of biases and transitions that are taken exactly: the most expected ones."""
SURE = 1e-9
"""Tokens that are less uncertain than this are left out of M."""
BLOCK = 4096
"""Number of tokens whose features are converted at once."""


class KroneckerFactors:
    """S x M + shift I for W, and ``scales`` for the other parameters, of the Hessian that ``product`` multiplies with.

    ``shift`` is lambda, or lambda + damping.
    """

    head: Head
    shift: float
    label_basis: Tensor
    feature_basis: Tensor
    spectrum: Tensor
    """The eigenvalues of S x M, (C, D + 1)."""
    scales: dict[str, Tensor]
    """By the name of a parameter: the diagonal, shift included."""
    edges: Tensor
    """Expected transitions over N, (C, C)."""

    @torch.no_grad()
    def __init__(self, product: HessianProduct, shift: float) -> None:
        self.head, self.shift = product.head, shift
        C, D = self.head.num_labels, self.head.dim + 1
        zero = self.head.weight.new_zeros
        labels, moment, edges, first, last, total = zero(C, C), zero(D, D), zero(C, C), zero(C), zero(C), 0.0
        for chunk, chain in zip(product.objective.chunks, product.where.chains, strict=True):
            nodes, weights = chain.nodes, uncertainty(chain.nodes)  # (n, C), (n,)
            labels += torch.diag(nodes.sum(0)) - nodes.T @ nodes
            moment += _moment(chunk, weights)
            at_first, at_last = chain.end_variances()
            edges, first, last = edges + chain.edge_sum(), first + at_first, last + at_last
            total += float(weights.sum())
        N = product.objective.num_sentences
        covariance = labels / total if total > 0 else torch.zeros_like(labels)  # S (C, C); zero if there is one label
        label_values, self.label_basis = torch.linalg.eigh(covariance)
        feature_values, self.feature_basis = torch.linalg.eigh(moment / N)
        self.spectrum = label_values.clamp(min=0.0).unsqueeze(1) * feature_values.clamp(min=0.0)  # (C, D)
        self.edges = edges / N
        named = {"transitions": self.edges, "start": first / N, "end": last / N}
        self.scales = {name: named[name] + shift for name, _ in self.head.named_parameters() if name != "weight"}

    def __call__(self, vectors: Tensor) -> Tensor:
        """The matrix times each row of (Q, P)."""
        return self._apply(vectors, inverse=False)

    def inverse(self, vectors: Tensor) -> Tensor:
        """Its inverse times each row of (Q, P)."""
        return self._apply(vectors, inverse=True)

    @torch.no_grad()
    def _apply(self, vectors: Tensor, *, inverse: bool) -> Tensor:
        parts = self.head.unflatten(vectors)
        turned = self.label_basis.T @ parts["weight"] @ self.feature_basis  # (Q, C, D + 1)
        values = self.spectrum + self.shift
        turned = turned / values if inverse else turned * values
        scaled = [self.label_basis @ turned @ self.feature_basis.T]
        for name, scale in self.scales.items():
            scaled.append(parts[name] / scale if inverse else parts[name] * scale)
        return torch.cat([part.flatten(1) for part in scaled], 1)


class Balanced:
    """M^-1 for a ``product`` with K, ``approximate`` B and the ``coordinates`` Z (E,)."""

    approximate: LinearMap
    coordinates: Tensor
    factor: Tensor
    columns: Tensor

    @torch.no_grad()
    def __init__(self, product: LinearMap, approximate: LinearMap, coordinates: Tensor, size: int) -> None:
        self.approximate, self.coordinates = approximate, coordinates
        units = torch.zeros(len(coordinates), size, dtype=torch.float64, device=coordinates.device)
        units[torch.arange(len(coordinates)), coordinates] = 1.0
        self.columns = product(units)  # K Z, transposed: (E, P)
        exact = self.columns[:, coordinates]
        factor, failed = torch.linalg.cholesky_ex(0.5 * (exact + exact.T))
        if int(failed) != 0:
            raise TrainingError("the Hessian is not positive definite; raise l2 or scale the features")
        self.factor = factor

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


def balanced_kronecker(product: HessianProduct, damping: float = 0.0) -> Balanced:
    """The preconditioner of the Hessian that ``product`` multiplies with, plus ``damping`` I."""
    factors = KroneckerFactors(product, product.objective.l2 + damping)
    coordinates = _balanced_coordinates(product, factors.edges)
    return Balanced(
        lambda vectors: product(vectors) + damping * vectors,
        factors.inverse,
        coordinates,
        product.head.num_parameters,
    )


def _balanced_coordinates(product: HessianProduct, edges: Tensor) -> Tensor:
    """The places in theta of the biases, and of the transitions, start and end scores that are expected most often."""
    head = product.head
    C, D = head.weight.shape
    counts = {"transitions": edges, "start": edges.sum(1), "end": edges.sum(0)}
    expected = [counts[name].flatten() for name, _ in head.named_parameters() if name != "weight"]
    biases = torch.arange(C, device=edges.device) * D + D - 1
    if not expected:
        return biases
    others = torch.cat(expected)
    most = others.topk(min(max(MAX_BALANCED - C, 0), len(others))).indices
    return torch.cat([biases, C * D + most])


def _moment(chunk: Rows, weights: Tensor) -> Tensor:
    """sum_t u_t f_t f_t^T, (D + 1, D + 1) float64, for weights u (n,); products in float32."""
    live = (weights > SURE).nonzero().squeeze(1)
    D = chunk.features.shape[1] + 1
    total = weights.new_zeros(D, D)
    for some in live.split(len(live) if chunk.features.is_cuda and len(live) else BLOCK):
        features = chunk.features[some].float()
        features = torch.cat([features, features.new_ones(len(features), 1)], 1)  # (m, D + 1)
        total += features.T @ (features * weights[some].float().unsqueeze(1))
    return total
