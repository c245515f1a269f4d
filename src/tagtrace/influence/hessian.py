"""The exact Hessian of the training objective as a matrix, transitions and cross terms included.

    H = (1/N) sum_i Cov(sum_t onehot(y_t) f_t^T, edge counts, ends) + lambda I,   f_t = (F_t, 1)

The W part sums f_s Cov(y_s, y_t) f_t^T over all pairs of tokens of a sentence (``covariance``); the few columns of
transitions, start and end scores are Hessian products.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tagtrace.influence.covariance import label_covariances
from tagtrace.tagger.objective import HessianProduct
from tagtrace.tagger.recursions import ScaledRun, run
from tagtrace.tagger.rows import Rows, pad_rows

CELLS = 2**24
"""Covariances held at once: (tokens x longest chain x C^2) of a chunk."""


NEGLIGIBLE = 1e-15
"""Covariances below this are left out: they cannot change the Hessian by more than rounding does."""


@torch.no_grad()
def dense_hessian(product: HessianProduct) -> Tensor:
    """H (P, P) in float64 at the theta ``product`` was made for."""
    head, objective = product.head, product.objective
    P, num_weights = head.num_parameters, head.weight.numel()
    hessian = head.weight.new_zeros(P, P)
    hessian[:num_weights, :num_weights] = _weight_block(product)
    others = torch.arange(num_weights, P, device=hessian.device)
    if len(others):
        units = torch.zeros(len(others), P, dtype=hessian.dtype, device=hessian.device)
        units[torch.arange(len(others)), others] = 1.0
        columns = torch.cat([product(part) for part in units.split(16)])  # (others, P)
        hessian[others] = columns
        hessian[:, others] = columns.T
    weights = torch.arange(num_weights)
    hessian[weights, weights] += objective.l2
    return hessian


def _weight_block(product: HessianProduct) -> Tensor:
    """The W part of (1/N) sum_i Cov_i, (C (D + 1), C (D + 1))."""
    head = product.head
    C, D = head.num_labels, head.dim + 1
    block = head.weight.new_zeros(C, D, C, D)
    for chunk in product.objective.chunks:
        longest = int(chunk.lengths.max())
        for part in chunk.chunks(max(CELLS // (longest * C * C), 1)):
            features = torch.cat([part.features.double(), part.features.new_ones(len(part.features), 1).double()], 1)
            _add_covariances(block, features, part, run(head(features[:, :-1], part.lengths)))
    for c in range(C):
        block[c + 1 :, :, c] = block[c, :, c + 1 :].permute(1, 2, 0)  # symmetric
    return block.view(C * D, C * D) / product.objective.num_chains


def _add_covariances(block: Tensor, features: Tensor, part: Rows, chains: object) -> None:
    """block[c, :, c'] += sum_{s, t} f_s Cov(y_s = c, y_t = c') f_t^T for c' >= c."""
    assert isinstance(chains, ScaledRun)
    covariances = label_covariances(chains)  # (B, T, C, T, C)
    padded = pad_rows(features, part.lengths)  # (B, T, D)
    flat = padded.flatten(0, 1)  # (B T, D)
    for c in range(block.shape[0]):
        weights = covariances[:, :, c, :, c:]  # (B, T, T, C - c)
        live = (weights.abs().amax((2, 3)) > NEGLIGIBLE).flatten()  # a sure token covaries with nothing
        spread = weights.transpose(2, 3).flatten(1, 2) @ padded  # (B, T (C - c), D)
        spread = spread.unflatten(1, (padded.shape[1], -1)).flatten(0, 1)[live]  # (live, C - c, D)
        block[c, :, c:] += (flat[live].T @ spread.flatten(1)).unflatten(1, spread.shape[1:])
