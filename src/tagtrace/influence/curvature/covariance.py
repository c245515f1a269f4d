"""Covariances between the labels of any two tokens of a sentence: the Hessian of log Z in its emissions.

The posterior of a linear chain is a Markov chain with transition matrices

    Q_t(i, j) = p(y_t = j | y_{t-1} = i, x) = M(i, j) psi_t(j) beta_t(j) / sum_j' ...,

so p(y_s = i, y_t = j) = (diag(p_s) Q_{s+1} ... Q_t)(i, j) for s < t: one small product for each step.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tagtrace.tagger.recursions import TINY, ScaledRun


def label_covariances(run: ScaledRun) -> Tensor:
    """Cov(onehot(y_s), onehot(y_t)), (B, T, C, T, C), sentences in the caller's order, zero in the padding."""
    nodes = run.nodes()  # (B, T, C)
    B, T, C = nodes.shape
    steps = _posterior_steps(run)  # (B, T - 1, C, C)
    covariances = nodes.new_zeros(B, T, C, T, C)
    joint = torch.diag_embed(nodes)  # (B, T, C, C): p(y_s, y_{s + lag}), lag 0
    for lag in range(T):
        if lag > 0:
            joint = joint[:, : T - lag] @ steps[:, lag - 1 :]
        both = joint - nodes[:, : T - lag].unsqueeze(3) * nodes[:, lag:].unsqueeze(2)
        first = torch.arange(T - lag, device=nodes.device)
        # advanced indices are split by a slice, so the paired positions come first
        covariances[:, first, :, first + lag] = both.transpose(0, 1)
        covariances[:, first + lag, :, first] = both.transpose(0, 1).transpose(2, 3)
    return covariances


def _posterior_steps(run: ScaledRun) -> Tensor:
    """Q_t(i, j) for t = 1 .. T - 1, (B, T - 1, C, C), zero where a sentence has ended."""
    steps = posterior_step(run.matrix, run.psi[1:] * run.beta[1:])  # (T - 1, B, C, C)
    return run.ordered.unsort(steps.transpose(0, 1))


def posterior_step(matrix: Tensor, right: Tensor) -> Tensor:
    """Q_t, (..., C, C), from M (C, C) and psi_t beta_t (..., C)."""
    weights = matrix * right.unsqueeze(-2)
    return weights / weights.sum(-1, keepdim=True).clamp(min=TINY)
