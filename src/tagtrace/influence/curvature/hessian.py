"""The exact Hessian of the training objective as a matrix, transitions and cross terms included.

    H = (1/N) sum_i Cov(sum_t onehot(y_t) f_t^T, edge counts, ends) + lambda I,   f_t = (F_t, 1)

The W part sums f_s Cov(y_s, y_t) f_t^T over all pairs of tokens of a sentence, for all pairs of labels except those
with one label. Their blocks follow from the others: a token has one label, so its covariances sum to zero. The few
columns of transitions, start and end scores are Hessian products.

The posterior of a sentence is a Markov chain with steps Q_t(i, j) = p(y_t = j | y_{t-1} = i, x), so

    Cov(y_s, y_t) = Cov(y_s, y_{t-1}) Q_t,   s < t:

covariances are followed from lag to lag, and dropped once they are negligible, as those behind them are then. A Gram
matrix of few uncertain tokens carries most of H, and is computed in float64; the weights of the others are so small
that float32 changes nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tagtrace._progress import Progress
from tagtrace.tagger.convex.chains import Chain, Independent
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.recursions import TINY
from tagtrace.tagger.rows import Rows

NEGLIGIBLE = 1e-12
"""Covariances below this are left out; ``Probes`` of the exact Hessian show whether that is small enough."""
COARSE = 1e-6
"""The same for a matrix that only preconditions, which is multiplied in float32."""
HEAVY = 1e-3
"""Weights above this are multiplied in float64."""
SMALL = 20_000
"""Up to this many tokens, everything is multiplied in float64."""
WAITING = 2**15
"""Number of pairs of tokens that are added together."""
CELLS, DEVICE_CELLS = 2**22, 2**27
"""Maximum number of values (tokens x labels x features) in memory at once, on the CPU and on a GPU."""


@torch.no_grad()
def dense_hessian(product: HessianProduct, progress: Progress | None = None, *, is_coarse: bool = False) -> Tensor:
    """H (P, P) in float64 at the theta ``product`` was made for; ``progress`` counts sentences.

    ``is_coarse``: to a percent or so, for a preconditioner.
    """
    head, objective = product.head, product.objective
    P, num_weights = head.num_parameters, head.weight.numel()
    hessian = head.weight.new_zeros(P, P)
    _fill_weights(hessian[:num_weights, :num_weights], product, progress, _limits(product, is_coarse))
    others = torch.arange(num_weights, P, device=hessian.device)
    if len(others):
        units = torch.zeros(len(others), P, dtype=hessian.dtype, device=hessian.device)
        units[torch.arange(len(others)), others] = 1.0
        columns = product(units)  # (others, P)
        hessian[others] = columns
        hessian[:, others] = columns.T
    hessian.diagonal()[:num_weights] += objective.l2
    return hessian


Limits = tuple[float, float]
"""Weights below the first are left out, weights above the second are multiplied in float64."""


def _limits(product: HessianProduct, is_coarse: bool) -> Limits:
    if is_coarse:
        return COARSE, torch.inf
    num_tokens = sum(len(chunk.labels) for chunk in product.objective.chunks)
    return (NEGLIGIBLE, HEAVY) if num_tokens > SMALL else (1e-3 * NEGLIGIBLE, 0.0)


def _fill_weights(matrix: Tensor, product: HessianProduct, progress: Progress | None, limits: Limits) -> None:
    """Add the W part of (1/N) sum_i Cov_i to ``matrix``, zeros (C (D + 1), C (D + 1))."""
    head, objective = product.head, product.objective
    C, D = head.num_labels, head.dim + 1
    block = matrix.unflatten(1, (C, D)).unflatten(0, (C, D))  # (C, D + 1, C, D + 1), a view
    order = _rarest_first(product)
    same, later = (_Pairs(block, order, limits, is_same) for is_same in (True, False))
    num_done = 0
    for chunk, chain in zip(objective.chunks, product.where.chains, strict=True):
        _add_chunk(same, later, chunk, chain)
        num_done += len(chunk.lengths)
        if progress is not None:
            progress(num_done, objective.num_sentences)
    same.flush()
    later.flush()
    matrix /= objective.num_sentences
    _complete(block, order)


def _rarest_first(product: HessianProduct) -> list[int]:
    """Labels by sum_t p_t (1 - p_t): the rarer a label is, the more blocks are computed from its few tokens alone."""
    variance = torch.stack([(chain.nodes - chain.nodes.square()).sum(0) for chain in product.where.chains])
    return variance.sum(0).argsort().tolist()


def _add_chunk(same: _Pairs, later: _Pairs, chunk: Rows, chain: Chain) -> None:
    """Add every pair of tokens of the chunk's sentences whose labels covary: a token with itself, then later ones."""
    nodes, device = chain.nodes, chain.nodes.device
    ends = torch.repeat_interleave(chain.last_rows, chain.lengths).to(device)  # (n,)
    steps = _posterior_steps(chain)  # (n, C, C), or None
    first = torch.arange(len(nodes), device=device)  # s
    covariance = _own_covariance(nodes)  # (n, C, C)
    lag = 0
    while len(first):
        live = covariance.abs().amax((1, 2)) > same.limits[0]
        first, covariance = first[live], covariance[live]
        (later if lag else same).add(chunk.features[first], chunk.features[first + lag], covariance)
        lag += 1
        if steps is None:
            break
        goes_on = first + lag <= ends[first]
        first, covariance = first[goes_on], covariance[goes_on]
        covariance = covariance @ steps[first + lag]


def _own_covariance(nodes: Tensor) -> Tensor:
    """diag(p) - p p^T of each token, (n, C, C), without cancellation where a label is nearly certain."""
    found = -nodes.unsqueeze(2) * nodes.unsqueeze(1)
    found.diagonal(dim1=1, dim2=2).zero_()
    found.diagonal(dim1=1, dim2=2).copy_(-found.sum(2))
    return found


def _posterior_steps(chain: Chain) -> Tensor | None:
    """Q_t (n, C, C) of the step into each row; None if tokens do not depend on each other."""
    if isinstance(chain, Independent):
        return None
    _, right, matrix = chain.edge_factors()  # (n, C), (C, C)
    weights = matrix * right.unsqueeze(1)
    return weights / weights.sum(2, keepdim=True).clamp(min=TINY)


class _Pairs:
    """Pairs of tokens s, t, many at a time: block[c, :, k] += sum f_s Cov(y_s = c, y_t = k) f_t^T, and the same turned.

    Only for k not before c in ``order``, nor its last label. ``is_same``: each token with itself.
    """

    def __init__(self, block: Tensor, order: list[int], limits: Limits, is_same: bool) -> None:
        self.block, self.known, self.limits, self.is_same = block, order[:-1], limits, is_same
        self.waiting: list[tuple[Tensor, Tensor, Tensor]] = []
        self.count = 0

    def add(self, first: Tensor, second: Tensor, covariance: Tensor) -> None:
        """Features (m, D) of both, and Cov(y_s, y_t) (m, C, C)."""
        if len(first):
            self.waiting.append((first, second, covariance))
            self.count += len(first)
        if self.count >= WAITING:
            self.flush()

    def flush(self) -> None:
        """Add all pairs that wait."""
        if not self.waiting:
            return
        first, second, covariance = (torch.cat(parts) for parts in zip(*self.waiting, strict=True))
        self.waiting, self.count = [], 0
        for place, c in enumerate(self.known):
            weights = covariance[:, c, self.known[place:] if self.is_same else self.known]  # (m, K)
            sizes = weights.abs().amax(1)
            small = torch.float64 if first.is_cuda else torch.float32
            heavy, live = sizes > self.limits[1], sizes > self.limits[0]
            for chosen, dtype in ((heavy, torch.float64), (live & ~heavy, small)):
                rows = chosen.nonzero().squeeze(1)
                if len(rows):
                    self._add(_gram(first[rows], second[rows], weights[rows], dtype), c, place)

    def _add(self, product: Tensor, c: int, place: int) -> None:
        """Add X (D, K, D) to the blocks of label c; of two different tokens, also its transpose."""
        if self.is_same:
            self.block[c][:, self.known[place:]] += product
            return
        for other, k in enumerate(self.known):
            if other >= place:
                self.block[c, :, k] += product[:, other]
            if other <= place:
                self.block[k, :, c] += product[:, other].T


def _gram(first: Tensor, second: Tensor, weights: Tensor, dtype: torch.dtype) -> Tensor:
    """sum_m f_s w f_t^T for features (m, D) and weights (m, K), (D + 1, K, D + 1) in float64."""
    K, D = weights.shape[1], first.shape[1] + 1
    total = torch.zeros(D, K * D, dtype=dtype, device=first.device)
    cells = DEVICE_CELLS if first.is_cuda else CELLS
    size = max(cells // (K * D), 1)
    for start in range(0, len(first), size):
        some = slice(start, start + size)
        left, right = _with_bias(first[some], dtype), _with_bias(second[some], dtype)  # (m, D)
        spread = weights[some].to(dtype).unsqueeze(2) * right.unsqueeze(1)  # (m, K, D)
        total.addmm_(left.T, spread.flatten(1))
    return total.double().unflatten(1, (K, D))


def _with_bias(features: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.cat([features.to(dtype), features.new_ones(len(features), 1, dtype=dtype)], 1)


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
