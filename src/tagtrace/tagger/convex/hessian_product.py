"""Products with the Hessian of the objective at one theta, for many vectors at once.

H v = (1/N) sum_t dp_t f_t^T for W, and likewise for transitions, plus lambda v, where dp is the derivative of the
marginals when the logits move along B v (``chains``). A label that is certain, or certainly not that of its token,
neither moves nor makes others move: Cov(y_s = c, y_t = k)^2 <= Var(y_s = c) Var(y_t = k), with Var = p (1 - p). Labels
of a smaller variance than ``negligible`` are left out: most, in a tagger that is sure of most tokens. The solvers that
use rough products (``block_cg``) compare their result with exact ones, which leave out nothing, and multiply small
variances in float32 and the others in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace._checks import TrainingError
from tagtrace.tagger.convex.chains import SAFE_SINGLE, Chain, Directions
from tagtrace.tagger.convex.objective import Evaluation, Objective
from tagtrace.tagger.convex.products import MAX_THIN, gather, project
from tagtrace.tagger.convex.threads import share
from tagtrace.tagger.head import Head

BYTES, DEVICE_BYTES = 2**22, 2**30
"""Maximum size of the values (tokens x labels x vectors) in memory at once, for a thread or on a GPU."""
ROUGH = 1e-7
"""``negligible`` for products that are compared with exact ones, which leave out nothing."""
MOST = 0.7
"""Share of labels that move, above which they are multiplied together."""
HEAVY, SMALL = 1e-3, 8_000
"""Larger variances are multiplied in float64 in exact products; up to so many tokens, all of them."""


@dataclass(frozen=True)
class _Moving:
    """Tokens of which some labels move, and the dtype of products with their features."""

    labels: slice
    places: Tensor | None
    """(m,) of the chain's n tokens; None if all of them move."""
    rows: Tensor | None
    """(m,) of the features; None if these are all of them."""
    dtype: torch.dtype

    @property
    def where(self) -> tuple[slice | Tensor, slice]:
        """In (n, C, Q)."""
        return slice(None) if self.places is None else self.places, self.labels


class _Block:
    """Sentences of one chunk: their ``features``, their ``chain``, and what moves in it."""

    features: Tensor
    chain: Chain
    places: Tensor
    rows: Tensor
    """(m,) of the chain's tokens and of the features: the tokens that move."""
    variance: Tensor
    """Var(y_t = c) of these, (m, C)."""
    dtype: torch.dtype
    negligible: float
    heavy: float
    """Larger variances are multiplied in ``dtype``, others in float32."""

    def __init__(self, features: Tensor, chain: Chain, dtype: torch.dtype, negligible: float, heavy: float) -> None:
        self.features, self.dtype, self.negligible, self.heavy = features, dtype, negligible, heavy
        variance = label_variance(chain.nodes)  # (n, C)
        if negligible > 0:
            self.chain, self.places, self.rows = chain.restricted(variance.amax(1) > negligible, dtype)
            self.variance = variance[self.rows].float()
        else:
            self.chain, self.variance = chain, variance.float()
            self.places = self.rows = torch.arange(len(variance), device=variance.device)

    def moving(self, num_vectors: int) -> list[_Moving]:
        """What moves: all labels together for few vectors, or if most labels move, because features are read once."""
        labels, is_live = self.variance.shape[1] - 1, self.variance[:, 1:] > self.negligible
        is_thin = labels * num_vectors <= MAX_THIN or int(is_live.sum()) > MOST * is_live.numel()
        return self._together() if is_thin or self.features.is_cuda else self._apart()

    def _together(self) -> list[_Moving]:
        """All labels but the first."""
        every = slice(1, self.variance.shape[1])
        return self._of(every, self.variance.amax(1), 0.0)

    def _apart(self) -> list[_Moving]:
        """One label at a time: fewer products."""
        labels = range(1, self.variance.shape[1])
        return [some for k in labels for some in self._of(slice(k, k + 1), self.variance[:, k], self.negligible)]

    def _of(self, labels: slice, variance: Tensor, limit: float) -> list[_Moving]:
        """Tokens with a ``variance`` (m,) above the limit; in exact products, in two dtypes."""
        is_live, is_heavy = variance > limit, variance > self.heavy
        kinds = ((is_live & is_heavy, self.dtype), (is_live & ~is_heavy, torch.float32))
        return [self._some(labels, mask, dtype) for mask, dtype in kinds if bool(mask.any())]

    def _some(self, labels: slice, mask: Tensor, dtype: torch.dtype) -> _Moving:
        if bool(mask.all()) and len(mask) == len(self.features) == self.chain.num_tokens:
            return _Moving(labels, None, None, dtype)
        some = mask.nonzero().squeeze(1)
        return _Moving(labels, self.places[some], self.rows[some], dtype)


class HessianProduct:
    """v -> H v at the theta of an evaluation, computed in ``dtype``."""

    objective: Objective
    where: Evaluation
    head: Head
    dtype: torch.dtype
    blocks: list[_Block]

    def __init__(
        self,
        objective: Objective,
        where: Evaluation | Tensor,
        dtype: torch.dtype = torch.float64,
        negligible: float = 0.0,
    ) -> None:
        where = where if isinstance(where, Evaluation) else objective.evaluate(where)
        if not where.is_scaled:
            raise TrainingError("the scores of one token differ by hundreds; raise l2 or scale the features down")
        if min(chain.smallest for chain in where.chains) < SAFE_SINGLE:
            dtype = torch.float64  # probabilities would underflow in float32
        self.objective, self.where, self.dtype = objective, where, dtype
        self.head = objective.head.at(where.theta)
        parts = zip(objective.chunks, where.chains, strict=True)
        is_small = sum(len(chunk.labels) for chunk in objective.chunks) <= SMALL
        is_mixed = dtype == torch.float64 and not is_small
        limits = (negligible, HEAVY if is_mixed else 0.0)
        found = [_Block(chunk.features, chain, dtype, *limits) for chunk, chain in parts]
        self.blocks = [block for block in found if block.chain.num_tokens]

    @torch.no_grad()
    def __call__(self, vectors: Tensor) -> Tensor:
        """H v for v (P,), or for Q of them at once, (Q, P); float64."""
        if vectors.dim() == 1:
            return self(vectors.unsqueeze(0)).squeeze(0)
        if len(vectors) == 0:
            return vectors.clone()
        longest = max((block.chain.num_tokens for block in self.blocks), default=1)
        size = (DEVICE_BYTES if vectors.is_cuda else BYTES) // self.dtype.itemsize
        together = max(size // (longest * self.head.num_labels), 1)
        found = torch.cat([self._products(some) for some in vectors.split(together)])
        return found / self.objective.num_sentences + self.objective.l2 * vectors

    def _products(self, vectors: Tensor) -> Tensor:
        """The sums over tokens for (Q, P)."""
        parts = {name: part.movedim(0, -1) for name, part in self.head.unflatten(vectors).items()}  # (..., Q)
        weight = parts["weight"][1:] - parts["weight"][:1]  # (C - 1, D + 1, Q)
        directions = self._directions(parts, len(vectors))

        def add(some: range) -> Tensor:
            total = weight.new_zeros(weight.shape[0], len(vectors), weight.shape[1])  # (C - 1, Q, D + 1)
            others = {name: torch.zeros_like(part) for name, part in parts.items() if name != "weight"}
            for block in self.blocks[some.start : some.stop]:
                moved = block.chain.tangent(_moved_logits(block, weight, self.dtype), directions)
                _add_back(total, block, moved.nodes)
                for name, value in (("transitions", moved.edges), ("start", moved.first), ("end", moved.last)):
                    if name in others:
                        others[name] += value
            found = [-total.sum(0), *total, *(part.movedim(-1, 0).flatten(1) for part in others.values())]
            return torch.cat(found, 1)

        found = share(add, len(self.blocks), is_cuda=vectors.is_cuda)
        return torch.stack(found).sum(0) if found else torch.zeros_like(vectors)

    def _directions(self, parts: dict[str, Tensor], Q: int) -> Directions:
        """The directions of transitions, start and end scores; zeros for those that the head does not learn."""
        named = [
            parts.get(name, torch.zeros_like(getattr(self.head, name)).unsqueeze(-1).expand(*[-1] * dims, Q))
            for name, dims in (("transitions", 2), ("start", 1), ("end", 1))
        ]
        return Directions(*named).to(self.dtype)


def _moved_logits(block: _Block, weight: Tensor, dtype: torch.dtype) -> Tensor:
    """The change of the logits along W (C - 1, D + 1, Q), zero for the first label, (n, C, Q)."""
    labels, _, Q = weight.shape
    moved = torch.zeros(block.chain.num_tokens, labels + 1, Q, dtype=dtype, device=weight.device)
    if not bool(weight.any()):  # only transitions move
        return moved
    for some in block.moving(Q):
        table = weight[some.labels.start - 1 : some.labels.stop - 1].movedim(1, 2).flatten(0, 1).to(some.dtype)
        found = project(block.features, table[:, :-1].contiguous(), some.rows).add_(table[:, -1])  # (m, L Q)
        moved[some.where] = found.unflatten(1, (-1, Q)).to(dtype)
    return moved


def _add_back(total: Tensor, block: _Block, nodes: Tensor) -> None:
    """Add sum_t dp_t f_t^T of all labels but the first to (C - 1, Q, D + 1), for dp (n, C, Q)."""
    Q = nodes.shape[2]
    for some in block.moving(Q):
        part = total[some.labels.start - 1 : some.labels.stop - 1]  # (L, Q, D + 1)
        flat = nodes[some.where].flatten(1).to(some.dtype)  # (m, L Q)
        part[..., :-1] += gather(block.features, flat, some.rows).unflatten(0, (-1, Q))
        part[..., -1] += flat.sum(0).unflatten(0, (-1, Q))


def label_variance(nodes: Tensor) -> Tensor:
    """p (1 - p) of each label, (n, C), without cancellation where one is nearly certain."""
    best = nodes.argmax(1, keepdim=True)
    others = nodes.scatter(1, best, 0.0)
    rest = others.sum(1, keepdim=True)  # 1 - p(best)
    return (others * (1.0 - others)).scatter(1, best, rest * (1.0 - rest)).clamp(min=0.0)


def uncertainty(nodes: Tensor) -> Tensor:
    """1 - sum_c p(c)^2, (n,), without cancellation where one label is nearly certain."""
    best = nodes.argmax(1, keepdim=True)
    rest = nodes.scatter(1, best, 0.0).sum(1)  # 1 - p(best)
    return (rest * (2.0 - rest) - nodes.scatter(1, best, 0.0).square().sum(1)).clamp(min=0.0)
