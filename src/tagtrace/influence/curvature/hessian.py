"""The exact Hessian of the training objective as a matrix, transitions and cross terms included.

    H = (1/N) sum_i Cov(sum_t onehot(y_t) f_t^T, edge counts, ends) + lambda I,   f_t = (F_t, 1)

The W part sums f_s Cov(y_s, y_t) f_t^T over all pairs of tokens of a sentence (``covariance``), for all pairs of labels
except those with one label. Their blocks follow from the others: a token has one label, so its covariances sum to zero.
The few columns of transitions, start and end scores are Hessian products.

A long sentence has too many pairs of tokens for memory. Its posterior is a Markov chain with steps Q_t
(``covariance``), so Cov(y_s, y_t) = Cov(y_s, y_{t-1}) Q_t for s < t, and the sums over s follow from one another:

    v_t = sum_{s <= t} f_s Cov(y_s, y_t) = v_{t-1} Q_t + f_t Cov(y_t),   W part = X + X^T,
    X = sum_t (v_t - f_t Cov(y_t) / 2) f_t^T.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from tagtrace._progress import Progress
from tagtrace.influence.curvature.covariance import label_covariances, posterior_step
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.recursions import ScaledRun, run
from tagtrace.tagger.rows import Rows, pad_rows

CELLS = 2**24
"""Maximum size of tensors in memory: covariances (tokens x longest sentence x C^2) and features (tokens x C x D).

A sentence whose covariances are larger takes the recursion."""

NEGLIGIBLE = 1e-12
"""Covariances below this are left out; ``Probes`` of the exact Hessian show whether that is small enough."""


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
        columns = product(units)  # (others, P)
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
        for part in _parts(chunk.sorted_by_length(), C, D):
            features = torch.cat([part.features.double(), part.features.new_ones(len(part.features), 1).double()], 1)
            recursion = run(head(features[:, :-1], part.lengths))
            assert isinstance(recursion, ScaledRun)
            if int(part.lengths[0]) > _longest_at_once(C):
                _add_long_sentence(block, features, recursion, order)
            else:
                _add_covariances(block, features, part, recursion, order)
            num_done += len(part.lengths)
            if progress is not None:
                progress(num_done, objective.num_sentences)
    matrix /= objective.num_sentences
    _complete(block, order)


def _longest_at_once(C: int) -> int:
    """Length of the longest sentence whose covariances fit in memory."""
    return math.isqrt(CELLS) // C


def _parts(chunk: Rows, C: int, D: int) -> Iterator[Rows]:
    """The sentences of ``chunk`` in order, a few at a time; each long one alone."""
    limit = _longest_at_once(C)
    num_short = int((chunk.lengths <= limit).sum())  # the first: ``chunk`` is sorted by length
    num_tokens = int(chunk.lengths[:num_short].sum())
    if num_short:
        short = Rows(chunk.features[:num_tokens], chunk.labels[:num_tokens], chunk.lengths[:num_short])
        yield from short.chunks(max(CELLS // (C * max(int(short.lengths.max()) * C, D)), 1))
    if num_short < len(chunk.lengths):
        yield from Rows(chunk.features[num_tokens:], chunk.labels[num_tokens:], chunk.lengths[num_short:]).chunks(1)


def _rarest_first(product: HessianProduct) -> list[int]:
    """Labels by sum_t p_t (1 - p_t): the rarer a label is, the more blocks are computed from its few tokens alone."""
    variance = torch.stack([(chain.nodes - chain.nodes.square()).sum(0) for chain in product.where.chains])
    return variance.sum(0).argsort().tolist()


def _add_covariances(block: Tensor, features: Tensor, part: Rows, recursion: ScaledRun, order: list[int]) -> None:
    """block[c, :, c'] += sum_{s, t} f_s Cov(y_s = c, y_t = c') f_t^T for c' not before c in ``order``, nor its last."""
    covariances = label_covariances(recursion)  # (B, T, C, T, C)
    padded = pad_rows(features, part.lengths)  # (B, T, D)
    for place, c in enumerate(order[:-1]):
        partners = order[place:-1]
        weights = covariances[:, :, c, :, partners]  # (B, T, T, K)
        live = weights.abs().amax((2, 3)) > NEGLIGIBLE  # (B, T): a certain token covaries with nothing
        some = live.any(1)  # (B,)
        spread = weights[some].transpose(2, 3).flatten(1, 2) @ padded[some]  # (B, T K, D)
        spread = spread.view(*live[some].shape, len(partners), padded.shape[2])[live[some]]  # (live, K, D)
        block[c][:, partners] += (padded[live].T @ spread.flatten(1)).unflatten(1, spread.shape[1:])


def _add_long_sentence(block: Tensor, features: Tensor, recursion: ScaledRun, order: list[int]) -> None:
    """As ``_add_covariances`` for one sentence, features (T, D), by the recursion over its tokens."""
    known = order[:-1]
    T, D = features.shape
    least = NEGLIGIBLE * float(features.abs().max())
    sums = features.new_zeros(D, len(known), len(order))  # v_t, of the known labels at s and all at t
    for some in torch.arange(T).split(max(CELLS // (D * len(order) ** 2), 1)):
        halves = features.new_empty(len(some), D, len(known), len(known))
        for place, t in enumerate(some.tolist()):
            own = _label_covariance(recursion, t)[known]  # (K, C)
            spread = features[t].view(-1, 1, 1) * own  # f_t Cov(y_t), (D, K, C)
            step = posterior_step(recursion.matrix, recursion.psi[t, 0] * recursion.beta[t, 0])  # Q_t (C, C)
            sums = sums @ step + spread if t else spread
            halves[place] = (sums - 0.5 * spread)[..., known]
        live = halves.abs().amax((1, 2, 3)) > least  # (n,): a certain token covaries with nothing
        _add_halves(block, halves[live], features[some.to(live.device)][live], known)


def _add_halves(block: Tensor, halves: Tensor, features: Tensor, known: list[int]) -> None:
    """Add X and X^T, X = sum_t halves_t f_t^T for halves (n, D, K, K) and features (n, D)."""
    for i, c in enumerate(known):
        product = (halves[:, :, i].permute(1, 2, 0).flatten(0, 1) @ features).unflatten(0, (-1, len(known)))
        block[c][:, known[i:]] += product[:, i:]  # (D, K - i, D)
        for j, k in enumerate(known[: i + 1]):
            block[k, :, c] += product[:, j].T


def _label_covariance(recursion: ScaledRun, t: int) -> Tensor:
    """Cov(onehot(y_t)) of the first sentence, (C, C)."""
    p = recursion.alpha[t, 0] * recursion.beta[t, 0]
    return torch.diag(p) - torch.outer(p, p)


def _complete(block: Tensor, order: list[int]) -> None:
    """Fill in the blocks that follow from symmetry and from the sum over labels."""
    *known, last = order
    for place, c in enumerate(known):
        for k in known[place + 1 :]:
            block[k, :, c] = block[c, :, k].T
    for c in known:
        block[c, :, last] = -block[c][:, known].sum(1)
        block[last, :, c] = block[c, :, last].T
        block[last, :, last] -= block[last, :, c]
