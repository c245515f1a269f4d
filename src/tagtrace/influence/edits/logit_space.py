"""The logits of a few sentences as coordinates for changes of theta, for several groups of sentences at once.

A change d of theta moves the emissions of a sentence's tokens and the transitions: s = B d, with one row of B for each
(token, label), then for each transition (and start and end score). What an edit of a group's sentences does to theta
lies in the span of H^-1 B^T, so everything can be computed in M = m C + C^2 (+ 2 C) numbers for each group. m is the
number of tokens of the largest group; the unused logits of the others belong to padding tokens with zero features,
which no change moves.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tagtrace.influence.curvature.covariance import label_covariances
from tagtrace.tagger.convex.tangents import Tangent, marginal_tangent
from tagtrace.tagger.crf import Errors
from tagtrace.tagger.head import Head
from tagtrace.tagger.recursions import ScaledRun, run
from tagtrace.tagger.rows import pad_rows, unpad_rows
from tagtrace.tagger.scores import Scores


class LogitSpace:
    """B for G groups, of ``sizes`` (G,) sentences each, with features (n, D) and ``lengths`` (B,), under ``head``."""

    head: Head
    lengths: Tensor
    sizes: Tensor
    owner: Tensor
    counts: Tensor
    features: Tensor
    others: dict[str, Tensor]
    num_weights: int
    num_nodes: int
    size: int

    def __init__(self, head: Head, features: Tensor, lengths: Tensor, sizes: Tensor) -> None:
        self.head, self.lengths, self.sizes = head, lengths, sizes
        self.scores: Scores = head(features, lengths)
        device = features.device
        self.owner = torch.repeat_interleave(torch.arange(len(sizes)), sizes).to(device)  # each sentence's group, (B,)
        self.counts = torch.zeros_like(sizes).index_add(0, self.owner.cpu(), lengths)  # tokens of each group, (G,)
        with_bias = torch.cat([features, features.new_ones(len(features), 1)], 1)
        self.features = pad_rows(with_bias, self.counts)  # (G, m, D + 1)
        self.others = {name: part for name, part in head.named_parameters() if name != "weight"}
        self.num_weights = head.weight.numel()
        self.num_nodes = self.features.shape[1] * head.num_labels  # m C
        self.size = self.num_nodes + head.num_parameters - self.num_weights  # M

    def gram(self, inverse: Tensor) -> Tensor:
        """B K^-1 B^T of each group, (G, M, M), from K^-1 (P, P)."""
        C, D = self.head.weight.shape
        gram = inverse.new_zeros(len(self.sizes), self.size, self.size)
        gram[:, self.num_nodes :, self.num_nodes :] = inverse[self.num_weights :, self.num_weights :]
        nodes = gram[:, : self.num_nodes, : self.num_nodes].unflatten(2, (-1, C)).unflatten(1, (-1, C))
        edges = gram[:, : self.num_nodes, self.num_nodes :].unflatten(1, (-1, C))  # (G, m, C, E)
        ends = self.counts.cumsum(0).tolist()
        features = unpad_rows(self.features, self.counts)  # (n, D + 1)
        for c in range(C):
            mapped = features @ inverse[c * D : (c + 1) * D, c * D :]  # (n, P - c D)
            for group, (end, count) in enumerate(zip(ends, self.counts.tolist(), strict=True)):
                part = mapped[end - count : end]
                own = self.features[group, :count]  # (n_g, D + 1)
                across = part[:, : (C - c) * D].reshape(-1, D) @ own.T  # (n_g (C - c), n_g)
                nodes[group, :count, c, :count, c:] = across.view(count, C - c, count).transpose(1, 2)
                edges[group, :count, c] = part[:, (C - c) * D :]
        for c in range(1, C):
            nodes[:, :, c, :, :c] = nodes[:, :, :c, :, c].permute(0, 3, 1, 2)  # symmetric
        gram[:, self.num_nodes :, : self.num_nodes] = gram[:, : self.num_nodes, self.num_nodes :].mT
        return gram

    def seen_from(self, vectors: Tensor) -> Tensor:
        """B d of each group, (G, M), for d (G, P): the change of its logits."""
        weights = vectors[:, : self.num_weights].unflatten(1, self.head.weight.shape)  # (G, C, D + 1)
        nodes = self.features @ weights.mT  # (G, m, C)
        return torch.cat([nodes.flatten(1), vectors[:, self.num_weights :]], 1)

    def gathered(self, logits: Tensor) -> Tensor:
        """B^T l of each group, (G, P), for l (G, M): a gradient in the logits as a gradient in theta."""
        nodes = logits[:, : self.num_nodes].unflatten(1, (-1, self.head.num_labels))  # (G, m, C)
        return torch.cat([(nodes.mT @ self.features).flatten(1), logits[:, self.num_nodes :]], 1)

    def moved(self, shift: Tensor) -> Scores:
        """The sentences' scores with logits changed by ``shift`` (G, M); start and end scores go into emissions."""
        nodes = unpad_rows(shift[:, : self.num_nodes].unflatten(1, (-1, self.head.num_labels)), self.counts)  # (n, C)
        emissions = self.scores.emissions + pad_rows(nodes, self.lengths)  # (B, T, C)
        others = self._split(shift[:, self.num_nodes :])
        if "start" in others:
            emissions[:, 0] += others["start"][self.owner]
            emissions[torch.arange(len(emissions)), self.lengths - 1] += others["end"][self.owner]
        transitions = self.scores.transitions
        if "transitions" in others:
            transitions = transitions + others["transitions"][self.owner]  # (B, C, C)
        return Scores(emissions, transitions, self.scores.start, self.scores.end, self.lengths)

    def gradient(self, errors: Errors) -> Tensor:
        """Derivatives of the groups' losses in their logits, (G, M)."""
        nodes = pad_rows(unpad_rows(errors.nodes, self.lengths), self.counts).flatten(1)  # (G, m C)
        sums = {"transitions": errors.edges, "start": errors.first, "end": errors.last}
        return torch.cat([nodes, *(self._over_groups(sums[name]).flatten(1) for name in self.others)], 1)

    @torch.no_grad()
    def curvature(self) -> Tensor:
        """S: the Hessian of each group's joint losses in its logits, (G, M, M)."""
        recursion = run(self.scores)
        assert isinstance(recursion, ScaledRun)
        matrix = self.features.new_zeros(len(self.sizes), self.size, self.size)
        covariances = label_covariances(recursion)  # (B, T, C, T, C)
        first, C = [0] * len(self.sizes), self.head.num_labels
        for row, (group, length) in enumerate(zip(self.owner.tolist(), self.lengths.tolist(), strict=True)):
            inside = slice(first[group], first[group] + length * C)
            matrix[group, inside, inside] = covariances[row, :length, :, :length].reshape(length * C, length * C)
            first[group] += length * C
        nodes, others = self._edge_curvature(recursion)
        matrix[:, self.num_nodes :, : self.num_nodes] = nodes
        matrix[:, : self.num_nodes, self.num_nodes :] = nodes.mT
        matrix[:, self.num_nodes :, self.num_nodes :] = others
        return matrix

    def _edge_curvature(self, recursion: ScaledRun) -> tuple[Tensor, Tensor]:
        """Derivatives in transitions (start, end) of node marginals, (G, E, m C), and of edge marginals, (G, E, E)."""
        num_others = self.size - self.num_nodes
        units = self._split(torch.eye(num_others, dtype=torch.float64, device=self.features.device))
        still = self.features.new_zeros(*self.scores.emissions.shape[:2], num_others, self.head.num_labels)
        named = [units.get(n, still.new_zeros(num_others, *getattr(self.head, n).shape)) for n in _OTHERS]
        moved = marginal_tangent(recursion, Tangent(still, *named), apart=True)
        nodes = pad_rows(unpad_rows(moved.nodes, self.lengths), self.counts)  # (G, m, E, C)
        nodes = nodes.permute(0, 2, 1, 3).flatten(2)  # (G, E, m C)
        sums = {"transitions": moved.edge_sum, "start": moved.first, "end": moved.last}
        others = [self._over_groups(sums[name]).flatten(2) for name in self.others]
        return nodes, torch.cat(others, 2) if others else still.new_zeros(len(self.sizes), 0, 0)

    def _split(self, others: Tensor) -> dict[str, Tensor]:
        """(R, E) as named parts, e.g. ``transitions`` (R, C, C)."""
        parts = others.split([part.numel() for part in self.others.values()], 1)
        return {n: part.unflatten(1, p.shape) for (n, p), part in zip(self.others.items(), parts, strict=True)}

    def _over_groups(self, values: Tensor) -> Tensor:
        """(B, ...) summed over the sentences of each group, (G, ...)."""
        return values.new_zeros(len(self.sizes), *values.shape[1:]).index_add(0, self.owner, values)


_OTHERS = ("transitions", "start", "end")
