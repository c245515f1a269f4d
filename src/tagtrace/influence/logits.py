"""The logits of a few chains as coordinates for changes of theta.

A change d of theta moves the emissions of a chain's tokens and the transitions: s = B d, with one row of B for each
(token, label), then for each transition (and start and end score). What an edit of these chains does to theta lies in
the span of H^-1 B^T, so everything can be worked out in M = n C + C^2 (+ 2 C) numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tagtrace.influence.covariance import label_covariances
from tagtrace.tagger.head import Head
from tagtrace.tagger.recursions import ScaledRun, run
from tagtrace.tagger.rows import unpad_rows
from tagtrace.tagger.tangents import Tangent, marginal_tangent


class LogitSpace:
    """B for chains with features (n, D) and their lengths, under ``head`` (float64)."""

    def __init__(self, head: Head, features: Tensor, lengths: Tensor) -> None:
        self.head, self.lengths = head, lengths
        self.features = torch.cat([features, features.new_ones(len(features), 1)], 1)  # (n, D + 1)
        self.num_nodes = len(features) * head.num_labels  # n C
        self.num_weights = head.weight.numel()
        self.size = self.num_nodes + head.num_parameters - self.num_weights  # M

    def through(self, inverse: Tensor) -> Tensor:
        """B K^-1, (M, P), from K^-1 (P, P)."""
        C, D = self.head.weight.shape
        blocks = inverse[: self.num_weights].view(C, D, -1)  # (C, D + 1, P)
        nodes = torch.einsum("nd,cdp->ncp", self.features, blocks).flatten(0, 1)  # (n C, P)
        return torch.cat([nodes, inverse[self.num_weights :]])

    def seen_from(self, mapped: Tensor) -> Tensor:
        """mapped B^T, (R, M), for rows ``mapped`` (R, P): how vectors of theta move these logits."""
        C, D = self.head.weight.shape
        blocks = mapped[:, : self.num_weights].view(-1, C, D)
        nodes = torch.einsum("rcd,nd->rnc", blocks, self.features).flatten(1)  # (R, n C)
        return torch.cat([nodes, mapped[:, self.num_weights :]], 1)

    def gathered(self, logits: Tensor) -> Tensor:
        """B^T l, (P,), for l (M,): a gradient in the logits as a gradient in theta."""
        nodes = logits[: self.num_nodes].view(-1, self.head.num_labels)  # (n, C)
        return torch.cat([(nodes.T @ self.features).flatten(), logits[self.num_nodes :]])

    @torch.no_grad()
    def curvature(self) -> Tensor:
        """S: the Hessian of the chains' joint losses in their logits, (M, M); zero between chains but for edges."""
        chains = run(self.head(self.features[:, :-1], self.lengths))
        assert isinstance(chains, ScaledRun)
        matrix = self.features.new_zeros(self.size, self.size)
        covariances = label_covariances(chains)  # (B, T, C, T, C)
        first = 0
        for row, length in enumerate(self.lengths.tolist()):
            size = length * self.head.num_labels
            block = covariances[row, :length, :, :length].reshape(size, size)
            matrix[first : first + size, first : first + size] = block
            first += size
        nodes, others = self._edge_curvature(chains)
        matrix[self.num_nodes :, : self.num_nodes] = nodes
        matrix[: self.num_nodes, self.num_nodes :] = nodes.T
        matrix[self.num_nodes :, self.num_nodes :] = others
        return matrix

    def _edge_curvature(self, chains: ScaledRun) -> tuple[Tensor, Tensor]:
        """How marginals move with each transition (start, end) score: nodes (E, n C), and those scores' own (E, E)."""
        num_others = self.size - self.num_nodes
        units = self.features.new_zeros(num_others, self.head.num_parameters)
        units[:, self.num_weights :] = torch.eye(num_others, dtype=units.dtype, device=units.device)
        parts = self.head.unflatten(units)
        named = {n: parts.get(n, units.new_zeros(num_others, *getattr(self.head, n).shape)) for n in _OTHERS}
        B, T = len(self.lengths), int(self.lengths.max())
        still = units.new_zeros(B, T, num_others, self.head.num_labels)
        moved = marginal_tangent(chains, Tangent(still, named["transitions"], named["start"], named["end"]))
        nodes = unpad_rows(moved.nodes, self.lengths).transpose(0, 1).flatten(1)  # (E, n C)
        sums = {"transitions": moved.edge_sum, "start": moved.first, "end": moved.last}
        others = [sums[name].flatten(1) for name in _OTHERS if name in parts]
        return nodes, torch.cat(others, 1) if others else units.new_zeros(0, 0)


_OTHERS = ("transitions", "start", "end")
