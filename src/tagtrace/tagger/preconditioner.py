"""An approximate inverse Hessian that conjugate gradients start from.

Each token is taken alone: the Hessian's W part becomes (1/N) sum_t (diag(p_t) - p_t p_t^T) x f_t f_t^T + lambda I, a
(C, C) grid of (D + 1, D + 1) blocks, factored by Cholesky. That leaves out how neighbouring labels covary, which
conjugate gradients put right. Heads with more than ``MAX_FULL`` parameters keep only the grid's diagonal.
Transitions and start and end scores are scaled by how often they are expected.
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
"""Tokens weigh p_c p_c'; a good tagger is sure of most, and those below this are left out."""


class TokenPreconditioner:
    """v -> an approximation of H^-1 v, from the marginals of one forward-backward run a chunk."""

    @torch.no_grad()
    def __init__(self, head: Head, chunks: Sequence[Rows], runs: Sequence[ScaledRun], l2: float) -> None:
        self.head, self.l2 = head, l2
        C, D = head.num_labels, head.dim + 1
        num_chains = sum(len(chunk.lengths) for chunk in chunks)
        is_full = C * D <= MAX_FULL
        pairs = [(c, k) for c in range(C) for k in range(c, C) if is_full or c == k]
        blocks = {pair: head.weight.new_zeros(D, D) for pair in pairs}
        edges = head.weight.new_zeros(C, C)
        for chunk, chains in zip(chunks, runs, strict=True):
            features = chunk.features.double()
            features = torch.cat([features, features.new_ones(len(features), 1)], 1)  # (n, D + 1)
            nodes = unpad_rows(chains.nodes(), chunk.lengths)  # (n, C)
            for c, k in pairs:
                blocks[c, k] += _moment(features, nodes[:, c] * (float(c == k) - nodes[:, k]))
            edges += chains.edge_sum(nodes.new_ones(len(chunk.lengths)))
        self.edges = edges / num_chains + l2  # (C, C)
        self.factor = _factor(self._grid(blocks, is_full).div_(num_chains), l2)

    def _grid(self, blocks: dict[tuple[int, int], Tensor], is_full: bool) -> Tensor:
        """(1, C (D + 1), C (D + 1)) or, of the diagonal alone, (C, D + 1, D + 1)."""
        C = self.head.num_labels
        if not is_full:
            return torch.stack([blocks[c, c] for c in range(C)])
        rows = [torch.cat([blocks[min(c, k), max(c, k)] for k in range(C)], 1) for c in range(C)]
        return torch.cat(rows).unsqueeze(0)

    @torch.no_grad()
    def __call__(self, vector: Tensor) -> Tensor:
        parts = self.head.unflatten(vector)
        right = parts["weight"].reshape(len(self.factor), -1, 1)
        scaled = {name: part / self.l2 for name, part in parts.items()}
        scaled["weight"] = torch.cholesky_solve(right, self.factor)
        if "transitions" in parts:
            scaled["transitions"] = parts["transitions"] / self.edges
        if "start" in parts:
            scaled["start"], scaled["end"] = parts["start"] / self.edges.sum(1), parts["end"] / self.edges.sum(0)
        return torch.cat([part.flatten() for part in scaled.values()])


def _factor(grid: Tensor, l2: float) -> Tensor:
    """The Cholesky factor of grid + l2 I, with more on the diagonal where rounding makes it indefinite."""
    diagonal = grid.diagonal(dim1=-2, dim2=-1)  # a view
    largest = float(diagonal.amax())
    for shift in (l2, 1e-12 * largest, 1e-9 * largest, 1e-6 * largest):
        diagonal += shift
        factor, failed = torch.linalg.cholesky_ex(grid)
        if not bool(failed.any()):
            return factor
    raise TrainingError("the features are too nearly dependent for this l2; raise l2 or scale the features")


def _moment(features: Tensor, weights: Tensor) -> Tensor:
    """sum_t weights_t f_t f_t^T over the tokens that weigh anything."""
    live = weights.abs() > NEGLIGIBLE
    kept = features[live]
    return kept.T @ (kept * weights[live].unsqueeze(1))
