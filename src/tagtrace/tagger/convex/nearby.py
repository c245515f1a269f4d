"""Gradients of the objective at many points near one theta, sharing passes over the features.

The logits at theta are known exactly. A move d changes them by F d, and the gradient changes by
(1/N) sum (p(theta + d) - p(theta)) f^T: small differences, so float32 is enough for the products
of features, and they lose nothing. Tokens whose marginals do not change are left out of the sum.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tagtrace.tagger.convex.chains import Chain, CompiledChain, Independent, make_chain, spread
from tagtrace.tagger.convex.objective import Evaluation, Objective, logits
from tagtrace.tagger.convex.products import compiled_loops, gather, project
from tagtrace.tagger.convex.threads import share
from tagtrace.tagger.head import Head
from tagtrace.tagger.recursions import SAFE_SCALE, SAFE_SPREAD, run
from tagtrace.tagger.rows import Rows, pad_rows, unpad_rows
from tagtrace.tagger.scores import Scores

CELLS, DEVICE_CELLS = 2**22, 2**27
"""Maximum number of values (tokens x labels x moves) in memory at once, for a thread or on a GPU."""
STILL = 1e-9
"""Marginals that change by less than this share of the largest change in their chunk are left out."""


def nearby_gradients(objective: Objective, where: Evaluation, moves: Tensor) -> Tensor:
    """The gradients of J at theta + d for the moves d (Q, P), (Q, P)."""
    if objective.head.num_labels == 1:  # no probability can change
        return where.gradient + objective.l2 * moves
    longest = max(len(chunk.labels) for chunk in objective.chunks)
    cells = DEVICE_CELLS if moves.is_cuda else CELLS
    together = max(cells // (longest * objective.head.num_labels), 1)
    return torch.cat([_gradients(objective, where, some) for some in moves.split(together)])


@torch.no_grad()
def _gradients(objective: Objective, where: Evaluation, moves: Tensor) -> Tensor:
    heads, here = [objective.head.at(where.theta + move) for move in moves], objective.head.at(where.theta)
    weight = objective.head.unflatten(moves)["weight"]  # (Q, C, D + 1)
    weight = weight[:, 1:] - weight[:, :1]

    def add(some: range) -> Tensor:
        total = _Total(objective.head, heads, weight)
        for number in some:
            chunk = objective.chunks[number]
            total.add(chunk, where.chains[number], logits(chunk.features, here.weight.detach()))
        return total.flat()

    parts = share(add, len(objective.chunks), is_cuda=moves.is_cuda)
    return where.gradient + torch.stack(parts).sum(0) / objective.num_sentences + objective.l2 * moves


class _Total:
    """The change of the summed gradient for ``heads``, whose W differs by ``weight`` (Q, C - 1, D + 1)."""

    def __init__(self, head: Head, heads: list[Head], weight: Tensor) -> None:
        self.heads = heads
        self.dtype = torch.float64 if weight.is_cuda else torch.float32
        turned = weight.transpose(0, 1).contiguous()  # (C - 1, Q, D + 1)
        self.table = turned.flatten(0, 1).to(self.dtype)
        named = {name: part.new_zeros(len(heads), *part.shape) for name, part in head.named_parameters()}
        self.others = {name: part for name, part in named.items() if name != "weight"}
        self.sums = torch.zeros_like(turned)

    def flat(self) -> Tensor:
        """(Q, P)"""
        weight = torch.cat([-self.sums.sum(0, keepdim=True), self.sums]).transpose(0, 1)  # (Q, C, D + 1)
        return torch.cat([part.flatten(1) for part in (weight, *self.others.values())], 1)

    def add(self, chunk: Rows, before: Chain, emissions: Tensor) -> None:
        """Add a chunk; ``before`` and ``emissions`` (n, C) are those at theta."""
        moved = project(chunk.features, self.table[:, :-1].contiguous()).add_(self.table[:, -1])  # (n, (C - 1) Q)
        change = self._change(before, emissions, moved.unflatten(1, self.sums.shape[:2]), chunk.lengths)
        if "start" in self.others:
            for name, rows in (("start", before.first_rows), ("end", before.last_rows)):
                ends = change[rows.to(change.device)].double().sum(0).T  # (Q, C - 1)
                self.others[name] += torch.cat([-ends.sum(1, keepdim=True), ends], 1)
        change = change.to(self.dtype)
        limit = STILL * float(change.abs().max())
        for sums, part in zip(self.sums, change.unbind(1), strict=True):  # (Q, D + 1), (n, Q)
            rows = None if part.is_cuda else (part.abs().amax(1) > limit).nonzero().squeeze(1)
            some = part if rows is None else part[rows]
            sums[:, :-1] += gather(chunk.features, some, rows)
            sums[:, -1] += some.sum(0)

    def _change(self, before: Chain, emissions: Tensor, moved: Tensor, lengths: Tensor) -> Tensor:
        """p(theta + d) - p(theta) above the first label for logits that move by (n, C - 1, Q); adds the edges'."""
        if isinstance(before, CompiledChain):
            found = self._compiled_change(before, emissions, moved)
            if found is not None:
                return found
        after = emissions.unsqueeze(1).repeat(1, len(self.heads), 1)  # (n, Q, C)
        after[..., 1:] += moved.transpose(1, 2)
        if isinstance(before, Independent):
            nodes = after.softmax(2)
        elif emissions.is_cuda:
            nodes, edges = _stacked(self.heads, after, lengths)
            self._add_edges(edges - before.edge_sum())
        else:
            chains = [make_chain(head, after[:, q].contiguous(), lengths) for q, head in enumerate(self.heads)]
            self._add_edges(torch.stack([chain.edge_sum() for chain in chains]) - before.edge_sum())
            nodes = torch.stack([chain.nodes for chain in chains], 1)
        return (nodes - before.nodes.unsqueeze(1))[..., 1:].transpose(1, 2)

    def _compiled_change(self, before: CompiledChain, emissions: Tensor, moved: Tensor) -> Tensor | None:
        """The same in compiled loops; None if probabilities could underflow."""
        loops, scores = compiled_loops(), [torch.stack(parts) for parts in zip(*self._edge_scores(), strict=True)]
        assert loops is not None
        if spread(emissions, *scores) + 2.0 * float(moved.abs().max()) > SAFE_SPREAD:
            return None
        tables = [(part - part.flatten(1).amax(1).view(-1, *[1] * (part.dim() - 1))).exp() for part in scores]
        edges, found = torch.zeros_like(tables[0]), moved.clone()  # (Q, C, C), (n, C - 1, Q)
        potentials = (emissions - emissions.amax(1, keepdim=True)).exp()  # (n, C)
        given = [part.numpy() for part in (potentials, found, before.nodes)]
        after = [part.numpy() for part in (*tables, edges)]
        if loops.nearby_marginals(*given, before.starts, before.lengths.numpy(), *after) <= SAFE_SCALE:
            return None
        self._add_edges(edges - before.edge_sum())
        return found

    def _edge_scores(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        return [head.edge_scores() for head in self.heads]

    def _add_edges(self, change: Tensor) -> None:
        """(Q, C, C)"""
        if "transitions" in self.others:
            self.others["transitions"] += change


def _stacked(heads: list[Head], emissions: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Marginals (n, Q, C) and summed edge marginals (Q, C, C), all heads in one recursion, for a GPU."""
    tables = [torch.stack(parts) for parts in zip(*(head.edge_scores() for head in heads), strict=True)]
    edges, start, end = tables  # (Q, C, C), (Q, C), (Q, C)
    Q, B, C = len(heads), len(lengths), edges.shape[1]
    last = (lengths.cumsum(0) - 1).to(emissions.device)
    emissions = emissions.clone()
    emissions[last - lengths.to(last.device) + 1] += start
    emissions[last] += end
    flat = emissions.transpose(0, 1).flatten(0, 1)  # (Q n, C)
    zero = torch.zeros_like(start[0])
    scores = Scores(pad_rows(flat, lengths.repeat(Q)), edges.repeat_interleave(B, 0), zero, zero, lengths.repeat(Q))
    found = run(scores)
    nodes = unpad_rows(found.nodes(), lengths.repeat(Q)).view(Q, -1, C).transpose(0, 1)
    return nodes, found.edge_sums().view(Q, B, C, C).sum(1)
