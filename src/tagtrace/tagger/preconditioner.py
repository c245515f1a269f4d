"""An approximate inverse Hessian, the preconditioner of conjugate gradients.

Each token is taken alone: the Hessian's W part becomes (1/N) sum_t Cov_t x f_t f_t^T + lambda I with
Cov_t = diag(p_t) - p_t p_t^T, a (C, C) grid of (D + 1, D + 1) blocks, factored by Cholesky. That leaves out how
neighbouring labels covary, which conjugate gradients correct. Heads with more than ``MAX_FULL`` parameters keep only
the grid's diagonal, in the basis of labels that makes sum_t Cov_t diagonal: there the part left
out averages to zero. Transitions are scaled by how often they are expected, start and end scores by p (1 - p) of the
first and last label.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tagtrace._checks import TrainingError
from tagtrace.tagger.head import Head
from tagtrace.tagger.recursions import ScaledRun
from tagtrace.tagger.rows import Rows, unpad_rows

MAX_FULL = 10_000
NEGLIGIBLE = 1e-7
"""Tokens are weighted by p_c p_c'; those below this are left out (a good tagger is sure of most tokens)."""


class TokenPreconditioner:
    """v -> an approximation of (H + damping I)^-1 v, from the marginals of one forward-backward run per chunk.

    ``shift`` is lambda, or lambda + damping.
    """

    head: Head
    shift: float
    basis: Tensor
    edges: Tensor
    first: Tensor
    last: Tensor
    factor: Tensor

    @torch.no_grad()
    def __init__(self, head: Head, chunks: Sequence[Rows], runs: Sequence[ScaledRun], shift: float) -> None:
        self.head, self.shift = head, shift
        C, D = head.num_labels, head.dim + 1
        num_sentences = sum(len(chunk.lengths) for chunk in chunks)
        is_full = C * D <= MAX_FULL
        self.basis = torch.eye(C).to(head.weight) if is_full else _label_basis(chunks, runs)  # (C, C), by columns
        pairs = [(c, k) for c in range(C) for k in range(c, C) if is_full or c == k]
        blocks = {pair: head.weight.new_zeros(D, D) for pair in pairs}
        edges, first, last = head.weight.new_zeros(C, C), head.weight.new_zeros(C), head.weight.new_zeros(C)
        for chunk, recursion in zip(chunks, runs, strict=True):
            features = chunk.features.double()
            features = torch.cat([features, features.new_ones(len(features), 1)], 1)  # (n, D + 1)
            nodes = unpad_rows(recursion.nodes(), chunk.lengths)  # (n, C)
            means = nodes @ self.basis  # (n, C)
            for c, k in pairs:
                products = nodes @ (self.basis[:, c] * self.basis[:, k])  # (n,)
                blocks[c, k] += _moment(features, products - means[:, c] * means[:, k])
            edges += recursion.edge_sum(nodes.new_ones(len(chunk.lengths)))
            at_first, at_last = end_variances(recursion)
            first, last = first + at_first, last + at_last
        self.edges = edges / num_sentences + shift  # (C, C)
        self.first, self.last = first / num_sentences + shift, last / num_sentences + shift  # (C,)
        self.factor = _factor(self._grid(blocks, is_full).div_(num_sentences), shift)

    def _grid(self, blocks: dict[tuple[int, int], Tensor], is_full: bool) -> Tensor:
        """(1, C (D + 1), C (D + 1)), or for the diagonal alone (C, D + 1, D + 1)."""
        C = self.head.num_labels
        if not is_full:
            return torch.stack([blocks[c, c] for c in range(C)])
        rows = [torch.cat([blocks[min(c, k), max(c, k)] for k in range(C)], 1) for c in range(C)]
        return torch.cat(rows).unsqueeze(0)

    @torch.no_grad()
    def __call__(self, vectors: Tensor) -> Tensor:
        """For one vector (P,), or for Q of them at once, (Q, P)."""
        if vectors.dim() == 1:
            return self(vectors.unsqueeze(0)).squeeze(0)
        parts = self.head.unflatten(vectors)
        scaled = {name: part / self.shift for name, part in parts.items()}
        scaled["weight"] = self._solve(parts["weight"])
        if "transitions" in parts:
            scaled["transitions"] = parts["transitions"] / self.edges
        if "start" in parts:
            scaled["start"], scaled["end"] = parts["start"] / self.first, parts["end"] / self.last
        return torch.cat([part.flatten(1) for part in scaled.values()], 1)

    def _solve(self, weights: Tensor) -> Tensor:
        """The grid's inverse times (Q, C, D + 1)."""
        turned = (self.basis.T @ weights).reshape(len(weights), len(self.factor), -1)  # (Q, blocks, size)
        solved = torch.cholesky_solve(turned.permute(1, 2, 0), self.factor)  # (blocks, size, Q)
        return self.basis @ solved.permute(2, 0, 1).reshape(weights.shape)


def end_variances(recursion: ScaledRun) -> tuple[Tensor, Tensor]:
    """sum over sentences of p (1 - p) for their first labels and for their last, (C,) each: the Hessian's diagonal."""
    nodes = recursion.nodes()  # (B, T, C)
    last = nodes[torch.arange(len(nodes)), recursion.scores.lengths - 1]  # (B, C)
    first, last = (p * (1.0 - p).clamp(min=0.0) for p in (nodes[:, 0], last))
    return first.sum(0), last.sum(0)


def _label_basis(chunks: Sequence[Rows], runs: Sequence[ScaledRun]) -> Tensor:
    """The eigenvectors of sum_t (diag(p_t) - p_t p_t^T), (C, C), by columns."""
    nodes = [unpad_rows(recursion.nodes(), chunk.lengths) for chunk, recursion in zip(chunks, runs, strict=True)]
    covariance = torch.stack([torch.diag(part.sum(0)) - part.T @ part for part in nodes]).sum(0)
    return torch.linalg.eigh(covariance)[1]


def _factor(grid: Tensor, shift: float) -> Tensor:
    """The Cholesky factor of grid + shift I, with more on the diagonal if rounding makes it indefinite."""
    diagonal = grid.diagonal(dim1=-2, dim2=-1)  # a view
    largest = float(diagonal.amax())
    for more in (shift, 1e-12 * largest, 1e-9 * largest, 1e-6 * largest):
        diagonal += more
        factor, failed = torch.linalg.cholesky_ex(grid)
        if not bool(failed.any()):
            return factor
    raise TrainingError("the features are nearly linearly dependent at this l2; raise l2 or scale the features")


def _moment(features: Tensor, weights: Tensor) -> Tensor:
    """sum_t weights_t f_t f_t^T over the tokens whose weight is not negligible."""
    live = weights.abs() > NEGLIGIBLE
    kept = features[live]
    return kept.T @ (kept * weights[live].unsqueeze(1))
