"""The exact Hessian of the training objective as a matrix, transitions and cross terms included.

    H = (1/N) sum_i Cov(sum_t onehot(y_t) f_t^T, edge counts, ends) + lambda I,   f_t = (F_t, 1)

The W part sums f_s Cov(y_s, y_t) f_t^T over all pairs of tokens of a sentence. A token's covariance with itself is

    sum over pairs of labels c < k of p(c) p(k) (e_c - e_k)(e_c - e_k)^T,

and the posterior of a sentence is a Markov chain with steps Q_t(i, j) = p(y_t = j | y_{t-1} = i, x), so

    Cov(y_s, y_t) = Cov(y_s, y_{t-1}) Q_t,   s < t:

covariances are followed from lag to lag, and dropped once they are negligible, as those behind them are then. Most
tokens hesitate between two labels at most, so most pairs of labels are negligible too: each pair of labels has a Gram
matrix of the few tokens with that pair. The blocks of one label follow from the others, because a token has one label
and its covariances sum to zero. The few columns of transitions, start and end scores are Hessian products.

A few uncertain tokens carry most of H: they are multiplied in float64; the weights of the others are so small that
float32 changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace._progress import Progress
from tagtrace.tagger.convex.chains import Chain, Independent
from tagtrace.tagger.convex.hessian_product import HEAVY, SMALL, HessianProduct, uncertainty
from tagtrace.tagger.convex.products import converted
from tagtrace.tagger.recursions import TINY

WAITING, DEVICE_WAITING = 2**13, 2**18
"""Number of tokens whose pairs are added together, on the CPU and on a GPU."""
PAIRS, DEVICE_PAIRS = 2**17, 2**24
"""Number of pairs after which they are added, or 64 for each pair of labels if that is more."""
BLOCK, DEVICE_BLOCK = 2**10, 2**16
"""Number of pairs of tokens whose features are converted at once."""
TOGETHER = 32
"""Number of columns that are computed together."""
STRIPE = 192
"""A symmetric product is computed in stripes of this many columns, each from the diagonal down."""


@dataclass(frozen=True)
class Precision:
    """Covariances up to ``negligible`` are left out, those above ``heavy`` are multiplied in float64."""

    negligible: float
    heavy: float
    certain: float = 0.0
    """Tokens with u = 1 - sum_c p(c)^2 up to this are left out."""


EXACT, EXACT_SMALL = Precision(1e-12, HEAVY), Precision(1e-15, 0.0)
"""``Probes`` of the exact Hessian show whether this is precise enough."""

Blocks = Callable[[int, int], Tensor]
"""The block (D + 1, D + 1) of two labels, the second not larger than the first, to be written to."""


@torch.no_grad()
def dense_hessian(product: HessianProduct, progress: Progress | None = None) -> Tensor:
    """H (P, P) float64 at the theta ``product`` was made for; ``progress`` counts sentences."""
    head, objective = product.head, product.objective
    (C, D), P = head.weight.shape, head.num_parameters
    num_tokens = sum(len(chunk.labels) for chunk in objective.chunks)
    hessian = head.weight.new_zeros(P, P)
    blocks = hessian[: C * D, : C * D].unflatten(1, (C, D)).unflatten(0, (C, D))  # (C, D + 1, C, D + 1), a view
    fill_weights(product, lambda c, k: blocks[c, :, k], EXACT if num_tokens > SMALL else EXACT_SMALL, progress)
    for c in range(C):
        for k in range(c):
            blocks[k, :, c] = blocks[c, :, k].T
    if C * D < P:
        columns = other_columns(product)  # (others, P)
        hessian[C * D :] = columns
        hessian[:, C * D :] = columns.T
    return hessian


def other_columns(product: HessianProduct) -> Tensor:
    """The rows of H of transitions, start and end scores, (others, P)."""
    P, num_weights = product.head.num_parameters, product.head.weight.numel()
    units = torch.zeros(P - num_weights, P, dtype=torch.float64, device=product.head.weight.device)
    units[torch.arange(P - num_weights), torch.arange(num_weights, P)] = 1.0
    return torch.cat([product(some) for some in units.split(TOGETHER)])


@torch.no_grad()
def fill_weights(
    product: HessianProduct, blocks: Blocks, precision: Precision, progress: Progress | None = None
) -> None:
    """Compute the W part of H in ``blocks``, which are zeros."""
    objective = product.objective
    order = _rarest_first(product)
    grams = _Grams(blocks, order, precision.heavy)
    num_done = 0
    for chunk, chain in zip(objective.chunks, product.where.chains, strict=True):
        grams.add(chunk.features, _chunk_pairs(chain, order, precision))
        num_done += len(chunk.lengths)
        if progress is not None:
            progress(num_done, objective.num_sentences)
    grams.flush()
    _complete(blocks, order)
    for c in range(len(order)):
        for k in range(c + 1):
            blocks(c, k).div_(objective.num_sentences)
        blocks(c, c).diagonal().add_(objective.l2)


def _rarest_first(product: HessianProduct) -> list[int]:
    """Labels by sum_t p_t (1 - p_t): the blocks of the last, which is involved in most pairs, are not computed."""
    variance = torch.stack([(chain.nodes - chain.nodes.square()).sum(0) for chain in product.where.chains])
    return variance.sum(0).argsort().tolist()


@dataclass(frozen=True)
class _Pairs:
    """Rows of two tokens s <= t, a code for two labels c and k as places in the order, and a weight; (m,) each, in few
    bytes: there are many pairs.

    The code is c C + k, and c < k with the weight p(c) p(k), if s = t; otherwise C^2 + c C + k, with the weight
    Cov(y_s = c, y_t = k).
    """

    first: Tensor
    second: Tensor
    code: Tensor
    weight: Tensor


def _joined(parts: list[_Pairs]) -> _Pairs:
    names = ("first", "second", "code", "weight")
    return _Pairs(*(torch.cat([getattr(part, name) for part in parts]) for name in names))


def _chunk_pairs(chain: Chain, order: list[int], precision: Precision) -> _Pairs:
    """Every pair of tokens and labels of the chain's sentences that is not left out."""
    C, device = len(order), chain.nodes.device
    nodes = chain.nodes
    is_live = uncertainty(nodes) > precision.certain  # (n,)
    first = is_live.nonzero().squeeze(1)  # s
    nodes = nodes[first][:, order]  # (m, C)
    mixed = nodes.unsqueeze(2) * nodes.unsqueeze(1)  # (m, C, C)
    found = [_above(mixed.triu(1), first, first, 0, precision.negligible)]
    steps = _posterior_steps(chain, order)  # (n, C, C), or None
    if steps is None:
        return found[0]
    ends = torch.repeat_interleave(chain.last_rows, chain.lengths).to(device)  # (n,)
    covariance, lag = _own_covariance(mixed), 1
    while True:
        goes_on = (covariance.abs().amax((1, 2)) > precision.negligible) & (first + lag <= ends[first])
        first = first[goes_on]
        if len(first) == 0:
            return _joined(found)
        covariance = covariance[goes_on] @ steps[first + lag]
        live = is_live[first + lag]
        found.append(_above(covariance[live], first[live], first[live] + lag, C * C, precision.negligible))
        lag += 1


def _above(weights: Tensor, first: Tensor, second: Tensor, code: int, negligible: float) -> _Pairs:
    """The pairs of labels of (m, C, C) that are not negligible; of two tokens, without those of the last label."""
    C = weights.shape[1]
    known = weights[:, :-1, :-1] if code else weights
    row, c, k = (known.abs() > negligible).nonzero(as_tuple=True)
    return _Pairs(first[row].int(), second[row].int(), (code + c * C + k).int(), weights[row, c, k])


def _own_covariance(mixed: Tensor) -> Tensor:
    """diag(p) - p p^T from p p^T (n, C, C), without cancellation where a label is nearly certain."""
    found = -mixed
    found.diagonal(dim1=1, dim2=2).zero_()
    found.diagonal(dim1=1, dim2=2).copy_(-found.sum(2))
    return found


def _posterior_steps(chain: Chain, order: list[int]) -> Tensor | None:
    """Q_t (n, C, C) of the step into each row; None if tokens do not depend on each other."""
    if isinstance(chain, Independent):
        return None
    _, right, matrix = chain.edge_factors()  # (n, C), (C, C)
    weights = matrix[order][:, order] * right[:, order].unsqueeze(1)
    return weights / weights.sum(2, keepdim=True).clamp(min=TINY)


class _Grams:
    """Adds f_s w f_t^T to the ``blocks`` of two labels for pairs of tokens, those of many tokens at a time.

    Weights above ``heavy`` are multiplied in float64. The last label in ``order`` has no blocks.
    """

    def __init__(self, blocks: Blocks, order: list[int], heavy: float) -> None:
        self.blocks, self.order, self.heavy = blocks, order, heavy
        self.features: list[Tensor] = []
        self.pairs: list[_Pairs] = []
        self.count = 0

    def add(self, features: Tensor, pairs: _Pairs) -> None:
        """Pairs of the rows of features (n, D)."""
        if len(pairs.code) == 0:
            return
        is_used = torch.zeros(len(features), dtype=torch.bool, device=features.device)
        is_used[pairs.first], is_used[pairs.second] = True, True
        places = is_used.cumsum(0) - 1 + self.count
        self.features.append(features[is_used])
        first, second = (places[some].int() for some in (pairs.first, pairs.second))
        self.pairs.append(_Pairs(first, second, pairs.code, pairs.weight))
        self.count += len(self.features[-1])
        num_pairs = sum(len(some.code) for some in self.pairs)
        limits = (DEVICE_WAITING, DEVICE_PAIRS) if features.is_cuda else (WAITING, PAIRS)
        if self.count >= limits[0] or num_pairs >= max(limits[1], 64 * len(self.order) ** 2):
            self.flush()

    def flush(self) -> None:
        """Add all pairs that wait."""
        if not self.pairs:
            return
        features, pairs = torch.cat(self.features), _joined(self.pairs)
        self.features, self.pairs, self.count = [], [], 0
        order, C = pairs.code.argsort(stable=True), len(self.order)
        counts = pairs.code.bincount(minlength=2 * C * C).tolist()
        light = torch.float64 if features.is_cuda else torch.float32  # on a GPU, float64 is fast enough
        for code, rows in enumerate(order.split(counts)):
            is_heavy = pairs.weight[rows].abs() > self.heavy
            for some, dtype in ((rows[is_heavy], torch.float64), (rows[~is_heavy], light)):
                if len(some):
                    chosen = (pairs.first[some], pairs.second[some], pairs.weight[some])
                    self._put(_gram(features, *chosen, dtype, code < C * C), code)

    def _put(self, gram: Tensor, code: int) -> None:
        """Add X (D + 1, D + 1) to the blocks of two labels."""
        C = len(self.order)
        places = divmod(code % (C * C), C)
        first, second = (self.order[place] for place in places)
        if code < C * C:
            self.blocks(first, first).add_(gram)
            if places[1] < C - 1:
                self.blocks(second, second).add_(gram)
                self.blocks(max(first, second), min(first, second)).sub_(gram)
        elif first == second:
            self.blocks(first, first).add_(gram).add_(gram.T)
        elif first > second:
            self.blocks(first, second).add_(gram)
        else:
            self.blocks(second, first).add_(gram.T)


def _gram(
    features: Tensor, first: Tensor, second: Tensor, weights: Tensor, dtype: torch.dtype, is_same: bool
) -> Tensor:
    """sum_m f_s w f_t^T for rows and weights (m,), (D + 1, D + 1); ``is_same``: of each token with itself."""
    D = features.shape[1]
    total = torch.zeros(D + 1, D + 1, dtype=dtype, device=features.device)
    stripe = STRIPE if is_same and not features.is_cuda else D
    weights = weights.to(dtype)
    for start in range(0, len(first), DEVICE_BLOCK if features.is_cuda else BLOCK):
        some = slice(start, start + (DEVICE_BLOCK if features.is_cuda else BLOCK))
        right = converted(features, second[some].long(), dtype)  # (m, D)
        left = right if is_same else converted(features, first[some].long(), dtype)
        total[D, :D] += weights[some] @ right
        left = left * weights[some].unsqueeze(1)
        total[:D, D] += left.sum(0)
        for column in range(0, D, stripe):
            below, part = slice(column if is_same else 0, D), slice(column, min(column + stripe, D))
            total[below, part].addmm_(left[:, below].T, right[:, part])
    total[D, D] = weights.sum()
    return total.tril() + total.tril(-1).T if is_same else total


def _complete(blocks: Blocks, order: list[int]) -> None:
    """Fill in the blocks of the last label: those of a label sum to zero."""
    *known, last = order
    for c in known:
        total = sum((blocks(c, k) if c >= k else blocks(k, c).T for k in known), torch.zeros_like(blocks(c, c)))
        if last > c:
            blocks(last, c).copy_(-total.T)
        else:
            blocks(c, last).copy_(-total)
        blocks(last, last).add_(total)
