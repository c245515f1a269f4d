"""Products with the Hessian of the objective at one theta, for many vectors at once.

H v = (1/N) sum_t dp_t f_t^T for W, and likewise for transitions, plus lambda v, where dp is the derivative of the
marginals when the logits move along B v (``chains``). A token whose label is certain neither moves nor makes others
move: |Cov(y_s, y_t)|^2 <= Var(y_s) Var(y_t). With ``negligible`` above 0, tokens with 1 - sum_c p_t(c)^2 below it are
left out, which makes products cheap where a tagger is sure; the solvers that use such products (``block_cg``) compare
their result with exact ones. In exact products such tokens are multiplied in float32: their share is so small that
rounding it changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace._checks import TrainingError
from tagtrace.tagger.convex.chains import Chain, Directions
from tagtrace.tagger.convex.objective import Evaluation, Objective
from tagtrace.tagger.convex.products import gather, project
from tagtrace.tagger.head import Head

CELLS, DEVICE_CELLS = 2**23, 2**27
"""Maximum number of values (tokens x labels x vectors) in memory at once, on the CPU and on a GPU."""
UNCERTAIN = 1e-5
"""``negligible`` for products that are compared with exact ones."""


@dataclass(frozen=True)
class _Moving:
    """Tokens that move: their places in a chain, their rows of the features, and the dtype of products with these."""

    places: Tensor | None
    """(m,) of the chain's n tokens; None if all of them move."""
    rows: Tensor | None
    """(m,) rows of the features; None if these are all of them."""
    dtype: torch.dtype


@dataclass(frozen=True)
class _Block:
    """Sentences of one chunk: their features, their chain, and which of its tokens move."""

    features: Tensor
    chain: Chain
    moving: list[_Moving]


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
        self.objective, self.where, self.dtype = objective, where, dtype
        self.head = objective.head.at(where.theta)
        parts = zip(objective.chunks, where.chains, strict=True)
        found = [_block(chunk.features, chain, dtype, negligible) for chunk, chain in parts]
        self.blocks = [block for block in found if len(block.chain.nodes)]

    @torch.no_grad()
    def __call__(self, vectors: Tensor) -> Tensor:
        """H v for v (P,), or for Q of them at once, (Q, P); float64."""
        if vectors.dim() == 1:
            return self(vectors.unsqueeze(0)).squeeze(0)
        longest = max((len(block.chain.nodes) for block in self.blocks), default=1)
        cells = DEVICE_CELLS if vectors.is_cuda else CELLS
        together = max(cells // (longest * self.head.num_labels), 1)
        found = torch.cat([self._products(some) for some in vectors.split(together)])
        return found / self.objective.num_sentences + self.objective.l2 * vectors

    def _products(self, vectors: Tensor) -> Tensor:
        """The sums over tokens for (Q, P)."""
        parts = {name: part.movedim(0, -1) for name, part in self.head.unflatten(vectors).items()}  # (..., Q)
        product = {name: torch.zeros_like(part) for name, part in parts.items()}
        weight = parts["weight"][1:] - parts["weight"][:1]  # (C - 1, D + 1, Q)
        directions = self._directions(parts, len(vectors))
        for block in self.blocks:
            moved = block.chain.tangent(_moved_logits(block, weight, self.dtype), directions)
            product["weight"] += _back(block, moved.nodes)
            for name, value in (("transitions", moved.edges), ("start", moved.first), ("end", moved.last)):
                if name in product:
                    product[name] += value
        return torch.cat([part.movedim(-1, 0).flatten(1) for part in product.values()], 1)

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
    moved = torch.zeros(len(block.chain.nodes), labels + 1, Q, dtype=dtype, device=weight.device)
    if not bool(weight.any()):  # only transitions move
        return moved
    flat = weight.movedim(1, 2).flatten(0, 1)  # ((C - 1) Q, D + 1)
    for some in block.moving:
        table = flat.to(some.dtype)
        found = project(block.features, table[:, :-1].contiguous(), some.rows).add_(table[:, -1])
        found = found.unflatten(1, (labels, Q)).to(dtype)  # (m, C - 1, Q)
        if some.places is None:
            moved[:, 1:] = found
        else:
            moved[some.places, 1:] = found
    return moved


def _back(block: _Block, nodes: Tensor) -> Tensor:
    """sum_t dp_t f_t^T, (C, D + 1, Q), for (n, C, Q)."""
    _, labels, Q = nodes.shape
    D = block.features.shape[1] + 1
    total = torch.zeros((labels - 1) * Q, D, dtype=torch.float64, device=nodes.device)
    for some in block.moving:
        values = nodes[:, 1:] if some.places is None else nodes[some.places, 1:]
        flat = values.flatten(1).to(some.dtype)  # (m, (C - 1) Q)
        total[:, :-1] += gather(block.features, flat, some.rows)
        total[:, -1] += flat.sum(0)
    found = total.unflatten(0, (labels - 1, Q)).movedim(1, 2)  # (C - 1, D + 1, Q)
    return torch.cat([-found.sum(0, keepdim=True), found])


def _block(features: Tensor, chain: Chain, dtype: torch.dtype, negligible: float) -> _Block:
    if negligible > 0.0:
        found, places, rows = chain.restricted(uncertainty(chain.nodes) > negligible)
        return _Block(features, found, [_Moving(places, rows, dtype)])
    if dtype == torch.float64 and not features.is_cuda:
        is_live = uncertainty(chain.nodes) > UNCERTAIN
        kinds = ((is_live, torch.float64), (~is_live, torch.float32))
        rows = [(mask.nonzero().squeeze(1), kind) for mask, kind in kinds]
        return _Block(features, chain, [_Moving(some, some, kind) for some, kind in rows if len(some)])
    return _Block(features, chain, [_Moving(None, None, dtype)])


def uncertainty(nodes: Tensor) -> Tensor:
    """1 - sum_c p(c)^2, (n,), without cancellation where one label is nearly certain."""
    best = nodes.argmax(1, keepdim=True)
    rest = nodes.scatter(1, best, 0.0).sum(1)  # 1 - p(best)
    return (rest * (2.0 - rest) - nodes.scatter(1, best, 0.0).square().sum(1)).clamp(min=0.0)
