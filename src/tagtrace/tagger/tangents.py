"""How marginals move when scores move: the exact directional derivative of a forward-backward run.

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
    """A direction of the scores: emissions (B, T, C), transitions (C, C), start (C,), end (C,)."""

    emissions: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor


@dataclass(frozen=True)
class MarginalTangent:
    """Derivatives of the marginals: nodes (B, T, C); edge_sum (C, C), first and last (C,), summed over chains."""

    nodes: Tensor
    edge_sum: Tensor
    first: Tensor
    last: Tensor


def marginal_tangent(run: ScaledRun, tangent: Tangent) -> MarginalTangent:
    """The derivative of the node marginals, and of the summed edge, first and last marginals, along ``tangent``."""
    chains = run.chains
    moved = torch.where(chains.mask.unsqueeze(2), chains.sort(tangent.emissions), 0.0)  # de (T, B, C)
    ahead = _forward(run, tangent, moved)  # a' (T, B, C)
    behind = _backward(run, tangent, moved)  # b' (T, B, C)
    nodes = run.alpha * run.beta  # (T, B, C)
    log_z = (nodes[0] * (ahead[0] + behind[0])).sum(1, keepdim=True)  # (B, 1)
    node_tangent = nodes * (ahead + behind - log_z)
    left, right = run.edge_factors()  # (T - 1, B, C)
    from_left = (left * ahead[:-1]).flatten(0, 1).T @ right.flatten(0, 1)
    from_right = left.flatten(0, 1).T @ (right * (moved[1:] + behind[1:] - log_z)).flatten(0, 1)
    edges = left.flatten(0, 1).T @ right.flatten(0, 1)
    return MarginalTangent(
        nodes=chains.unsort(node_tangent.transpose(0, 1)),
        edge_sum=run.matrix * (from_left + from_right + edges * _finite(run, tangent.transitions)),
        first=node_tangent[0].sum(0),
        last=chains.last(node_tangent).sum(0),
    )


def _finite(run: ScaledRun, transitions: Tensor) -> Tensor:
    """Forbidden transitions do not move."""
    return torch.where(run.matrix > 0, transitions, 0.0)


def _forward(run: ScaledRun, tangent: Tangent, moved: Tensor) -> Tensor:
    weighted = run.matrix * _finite(run, tangent.transitions)  # M * dA
    ahead = torch.zeros_like(moved)
    ahead[0] = moved[0] + tangent.start
    for t in range(1, len(run.chains.active)):
        n = run.chains.active[t]
        alpha = run.alpha[t - 1, :n]  # (n, C)
        total = (alpha @ run.matrix).clamp_(min=TINY)
        ahead[t, :n] = moved[t, :n] + ((alpha * ahead[t - 1, :n]) @ run.matrix + alpha @ weighted) / total
    return ahead


def _backward(run: ScaledRun, tangent: Tangent, moved: Tensor) -> Tensor:
    weighted = (run.matrix * _finite(run, tangent.transitions)).T
    behind = torch.zeros_like(moved)
    lengths = run.chains.lengths
    behind[lengths - 1, torch.arange(len(lengths))] = tangent.end
    for t in range(len(run.chains.active) - 1, 0, -1):
        n = run.chains.active[t]
        right = run.psi[t, :n] * run.beta[t, :n]  # (n, C)
        total = (right @ run.matrix.T).clamp_(min=TINY)
        step = (right * (moved[t, :n] + behind[t, :n])) @ run.matrix.T + right @ weighted
        behind[t - 1, :n] = step / total
    return behind
