"""Gradients of the objective at many points near one theta, sharing passes over the features.

The logits at theta are known exactly. A move d changes them by F d, and the gradient changes by
(1/N) sum (p(theta + d) - p(theta)) f^T: small differences, so float32 is enough for the products
of features, and they lose nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tagtrace.tagger.convex.chains import Chain, make_chain
from tagtrace.tagger.convex.objective import Evaluation, Objective
from tagtrace.tagger.convex.products import gather, project
from tagtrace.tagger.head import Head
from tagtrace.tagger.recursions import run
from tagtrace.tagger.rows import pad_rows, unpad_rows
from tagtrace.tagger.scores import Scores

CELLS, DEVICE_CELLS = 2**22, 2**27
"""Maximum number of values (tokens x labels x moves) in memory at once, on the CPU and on a GPU."""


def nearby_gradients(objective: Objective, where: Evaluation, moves: Tensor) -> Tensor:
    """The gradients of J at theta + d for the moves d (Q, P), (Q, P)."""
    longest = max(len(chunk.labels) for chunk in objective.chunks)
    cells = DEVICE_CELLS if moves.is_cuda else CELLS
    together = max(cells // (longest * objective.head.num_labels), 1)
    return torch.cat([_gradients(objective, where, some) for some in moves.split(together)])


@torch.no_grad()
def _gradients(objective: Objective, where: Evaluation, moves: Tensor) -> Tensor:
    heads = [objective.head.at(where.theta + move) for move in moves]
    parts = objective.head.unflatten(moves)
    changes = {name: torch.zeros_like(part) for name, part in parts.items()}
    dtype = torch.float64 if moves.is_cuda else torch.float32
    weight = (parts["weight"][:, 1:] - parts["weight"][:, :1]).flatten(0, 1).to(dtype)  # (Q (C - 1), D + 1)
    for chunk, before, emissions in zip(objective.chunks, where.chains, where.emissions, strict=True):
        moved = project(chunk.features, weight[:, :-1].contiguous()).add_(weight[:, -1])  # (n, Q (C - 1))
        moved = moved.unflatten(1, (len(moves), -1))  # (n, Q, C - 1)
        difference = _change(heads, emissions, moved, chunk.lengths, before, changes)  # (n, Q, C)
        flat = difference[..., 1:].to(dtype).flatten(1)  # (n, Q (C - 1))
        rows = torch.cat([gather(chunk.features, flat), flat.sum(0).unsqueeze(1)], 1).double()
        rows = rows.unflatten(0, (len(moves), -1))  # (Q, C - 1, D + 1)
        changes["weight"] += torch.cat([-rows.sum(1, keepdim=True), rows], 1)
        if "start" in changes:
            changes["start"] += difference[before.first_rows.to(difference.device)].sum(0)
            changes["end"] += difference[before.last_rows.to(difference.device)].sum(0)
    flat = torch.cat([part.flatten(1) for part in changes.values()], 1)
    return where.gradient + flat / objective.num_sentences + objective.l2 * moves


def _change(
    heads: list[Head],
    emissions: Tensor,
    moved: Tensor,
    lengths: Tensor,
    before: Chain,
    changes: dict[str, Tensor],
) -> Tensor:
    """p(theta + d) - p(theta) for logits that move by ``moved`` (n, Q, C - 1), (n, Q, C); edges go to ``changes``."""
    logits = emissions.unsqueeze(1).repeat(1, len(heads), 1)  # (n, Q, C)
    logits[..., 1:] += moved
    if emissions.is_cuda and "transitions" in changes:
        nodes, edges = _stacked(heads, logits, lengths)
        changes["transitions"] += edges - before.edge_sum()
        return nodes - before.nodes.unsqueeze(1)
    found = torch.empty_like(logits)
    for q, head in enumerate(heads):
        after = make_chain(head, logits[:, q].contiguous(), lengths)
        found[:, q] = after.nodes - before.nodes
        if "transitions" in changes:
            changes["transitions"][q] += after.edge_sum() - before.edge_sum()
    return found


def _stacked(heads: list[Head], logits: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Marginals (n, Q, C) and summed edge marginals (Q, C, C), all heads in one recursion, for a GPU."""
    tables = [torch.stack(parts) for parts in zip(*(head.edge_scores() for head in heads), strict=True)]
    edges, start, end = tables  # (Q, C, C), (Q, C), (Q, C)
    Q, B, C = len(heads), len(lengths), edges.shape[1]
    last = (lengths.cumsum(0) - 1).to(logits.device)
    logits = logits.clone()
    logits[last - lengths.to(last.device) + 1] += start
    logits[last] += end
    flat = logits.transpose(0, 1).flatten(0, 1)  # (Q n, C)
    zero = torch.zeros_like(start[0])
    scores = Scores(pad_rows(flat, lengths.repeat(Q)), edges.repeat_interleave(B, 0), zero, zero, lengths.repeat(Q))
    found = run(scores)
    nodes = unpad_rows(found.nodes(), lengths.repeat(Q)).view(Q, -1, C).transpose(0, 1)
    return nodes, found.edge_sums().view(Q, B, C, C).sum(1)
