"""The exact Hessian of the training objective as a matrix, transitions and cross terms included.

    H = (1/N) sum_i Cov(sum_t onehot(y_t) f_t^T, edge counts, ends) + lambda I,   f_t = (F_t, 1)

The W part sums f_s Cov(y_s, y_t) f_t^T over all pairs of tokens of a sentence (``covariance``), for all pairs of labels
but those with one label, whose blocks follow: a token has one label, so its covariances sum to zero. The few columns of
transitions, start and end scores are Hessian products.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tagtrace.influence.covariance import label_covariances
from tagtrace.tagger.objective import HessianProduct
from tagtrace.tagger.recursions import ScaledRun, run
from tagtrace.tagger.rows import Rows, pad_rows
from tagtrace.tagger.tagger import Progress

CELLS = 2**24
"""Numbers held at once: covariances (tokens x longest chain x C^2) and features spread by them (tokens x C x D)."""

NEGLIGIBLE = 1e-15
"""Covariances below this are left out: they cannot change the Hessian by more than rounding does."""


@torch.no_grad()
def dense_hessian(product: HessianProduct, progress: Progress | None = None) -> Tensor:
    """H (P, P) in float64 at the theta ``product`` was made for; ``progress`` counts sentences."""
    head, objective = product.head, product.objective
    P, num_weights = head.num_parameters, head.weight.numel()
    hessian = head.weight.new_zeros(P, P)
    _fill_weights(hessian[:num_weights, :num_weights], product, progress)
    others = torch.arange(num_weights, P, device=hessian.device)
    if len(others):
        units = torch.zeros(len(others), P, dtype=hessian.dtype, device=hessian.device)
        units[torch.arange(len(others)), others] = 1.0
        columns = torch.cat([product(part) for part in units.split(16)])  # (others, P)
        hessian[others] = columns
        hessian[:, others] = columns.T
    hessian.diagonal()[:num_weights] += objective.l2
    return hessian


def _fill_weights(matrix: Tensor, product: HessianProduct, progress: Progress | None) -> None:
    """Add the W part of (1/N) sum_i Cov_i to ``matrix``, zeros (C (D + 1), C (D + 1))."""
    head, objective = product.head, product.objective
    C, D = head.num_labels, head.dim + 1
    block = matrix.unflatten(1, (C, D)).unflatten(0, (C, D))  # (C, D + 1, C, D + 1), a view
    order = _rarest_first(product)
    num_done = 0
    for chunk in objective.chunks:
        longest = int(chunk.lengths.max())
        for part in chunk.chunks(max(CELLS // (C * max(longest * C, D)), 1)):
            features = torch.cat([part.features.double(), part.features.new_ones(len(part.features), 1).double()], 1)
            _add_covariances(block, features, part, run(head(features[:, :-1], part.lengths)), order)
            num_done += len(part.lengths)
            if progress is not None:
                progress(num_done, objective.num_chains)
    matrix /= objective.num_chains
    _complete(block, order)


def _rarest_first(product: HessianProduct) -> list[int]:
    """Labels by sum_t p_t (1 - p_t): the fewer tokens a label concerns, the more blocks are made of those alone."""
    variance = torch.stack([(nodes - nodes.square()).sum((0, 1)) for nodes in (r.nodes() for r in product.runs)])
    return variance.sum(0).argsort().tolist()


def _add_covariances(block: Tensor, features: Tensor, part: Rows, chains: object, order: list[int]) -> None:
    """block[c, :, c'] += sum_{s, t} f_s Cov(y_s = c, y_t = c') f_t^T for c' not before c in ``order``, nor its last."""
    assert isinstance(chains, ScaledRun)
    covariances = label_covariances(chains)  # (B, T, C, T, C)
    padded = pad_rows(features, part.lengths)  # (B, T, D)
    for place, c in enumerate(order[:-1]):
        partners = order[place:-1]
        weights = covariances[:, :, c, :, partners]  # (B, T, T, K)
        live = weights.abs().amax((2, 3)) > NEGLIGIBLE  # (B, T): a sure token covaries with nothing
        some = live.any(1)  # (B,)
        spread = weights[some].transpose(2, 3).flatten(1, 2) @ padded[some]  # (B, T K, D)
        spread = spread.view(*live[some].shape, len(partners), padded.shape[2])[live[some]]  # (live, K, D)
        block[c][:, partners] += (padded[live].T @ spread.flatten(1)).unflatten(1, spread.shape[1:])


def _complete(block: Tensor, order: list[int]) -> None:
    """Fill in the blocks that symmetry and the sum over labels give."""
    *known, last = order
    for place, c in enumerate(known):
        for k in known[place + 1 :]:
            block[k, :, c] = block[c, :, k].T
    for c in known:
        block[c, :, last] = -block[c][:, known].sum(1)
        block[last, :, c] = block[c, :, last].T
        block[last, :, last] -= block[last, :, c]
