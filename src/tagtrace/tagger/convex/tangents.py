"""How marginals change with the scores: the exact directional derivative of a forward-backward run.

Write a_t = log alpha_t and b_t = log beta_t for the logarithms of the forward and backward probabilities, and a
dot for the derivative along one direction (de, dA, dstart, dend) of the scores. Then

    a'_t(j) = de_t(j) + sum_i P(y_{t-1} = i | y_t = j, x up to t) (a'_{t-1}(i) + dA(i, j)),
    b'_{t-1}(i) = sum_j P(y_t = j | y_{t-1} = i, x from t) (dA(i, j) + de_t(j) + b'_t(j)),
    (log Z)' = sum_j p(y_t = j) (a'_t(j) + b'_t(j))   at any t,
    p(y_t = j)' = p(y_t = j) (a'_t(j) + b'_t(j) - (log Z)'),

and likewise for edges. Conditionals are ratios of the scaled probabilities, so each step is again a small
matrix product. Gradients of the joint loss are marginals minus constants: this is the CRF's Hessian product.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace.tagger.recursions import TINY, ScaledRun


@dataclass(frozen=True)
class Tangent:
    """Q directions of the scores: emissions (B, T, Q, C), transitions (Q, C, C), start (Q, C), end (Q, C)."""

    emissions: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor


@dataclass(frozen=True)
class MarginalTangent:
    """Derivatives of the marginals: nodes (B, T, Q, C), and sums over sentences: edges (Q, C, C), first, last (Q, C).

    If sentences are kept apart: edges (B, Q, C, C), first and last (B, Q, C).
    """

    nodes: Tensor
    edge_sum: Tensor
    first: Tensor
    last: Tensor


def marginal_tangent(run: ScaledRun, tangent: Tangent, *, apart: bool = False) -> MarginalTangent:
    """The derivative of the node marginals and of the summed edge, first and last marginals along each direction.

    The sentences share their transitions, ``run.matrix`` (C, C). The sums are over all sentences, or with ``apart``
    over each.
    """
    ordered = run.ordered
    moved = torch.where(ordered.mask[..., None, None], ordered.sort(tangent.emissions), 0.0)  # de (T, B, Q, C)
    transitions = torch.where(run.matrix > 0, tangent.transitions, 0.0)  # forbidden ones do not change
    ahead = _forward(run, moved, transitions, tangent.start)  # a' (T, B, Q, C)
    behind = _backward(run, moved, transitions, tangent.end)  # b' (T, B, Q, C)
    nodes = (run.alpha * run.beta).unsqueeze(2)  # (T, B, 1, C)
    log_z = (nodes[0] * (ahead[0] + behind[0])).sum(2, keepdim=True)  # (B, Q, 1)
    node_tangent = nodes * (ahead + behind - log_z)
    left, right = run.edge_factors()  # (T - 1, B, C)
    kept = "b" if apart else ""
    from_left = torch.einsum(f"tbi,tbqi,tbj->{kept}qij", left, ahead[:-1], right)
    from_right = torch.einsum(f"tbj,tbqj,tbi->{kept}qij", right, moved[1:] + behind[1:] - log_z, left)
    edges = torch.einsum(f"tbi,tbj->{kept}ij", left, right).unsqueeze(-3)  # (1, C, C) or (B, 1, C, C)
    sums = (run.matrix * (from_left + from_right + edges * transitions), node_tangent[0], ordered.last(node_tangent))
    if apart:
        edge_sum, first, last = (ordered.unsort(part) for part in sums)
    else:
        edge_sum, first, last = sums[0], sums[1].sum(0), sums[2].sum(0)
    return MarginalTangent(ordered.unsort(node_tangent.transpose(0, 1)), edge_sum, first, last)


def _forward(run: ScaledRun, moved: Tensor, transitions: Tensor, start: Tensor) -> Tensor:
    """a' (T, B, Q, C)"""
    weighted = run.matrix * transitions  # (Q, C, C)
    ahead = torch.zeros_like(moved)
    ahead[0] = moved[0] + start
    for t in range(1, len(run.ordered.active)):
        n = run.ordered.active[t]
        alpha = run.alpha[t - 1, :n]  # (n, C)
        total = (alpha @ run.matrix).clamp_(min=TINY).unsqueeze(1)
        step = (alpha.unsqueeze(1) * ahead[t - 1, :n]) @ run.matrix + torch.einsum("ni,qij->nqj", alpha, weighted)
        ahead[t, :n] = moved[t, :n] + step / total
    return ahead


def _backward(run: ScaledRun, moved: Tensor, transitions: Tensor, end: Tensor) -> Tensor:
    """b' (T, B, Q, C)"""
    weighted = run.matrix * transitions  # (Q, C, C)
    behind = torch.zeros_like(moved)
    behind[run.ordered.last_step, run.ordered.rows] = end
    for t in range(len(run.ordered.active) - 1, 0, -1):
        n = run.ordered.active[t]
        right = run.psi[t, :n] * run.beta[t, :n]  # (n, C)
        total = (right @ run.matrix.T).clamp_(min=TINY).unsqueeze(1)
        step = (right.unsqueeze(1) * (moved[t, :n] + behind[t, :n])) @ run.matrix.T
        behind[t - 1, :n] = (step + torch.einsum("nj,qij->nqi", right, weighted)) / total
    return behind
