"""Products with the Hessian of the objective at one theta, for many vectors at once.

H v = (1/N) sum_t dp_t f_t^T for W, and likewise for transitions, plus lambda v, where dp is the derivative of the
marginals when the logits move along B v (``chains``). A token whose label is certain neither moves nor makes others
move: |Cov(y_s, y_t)|^2 <= Var(y_s) Var(y_t). With ``negligible`` above 0, tokens with 1 - sum_c p_t(c)^2 below it are
left out, which makes products cheap where a tagger is sure; the solvers that use such products (``block_cg``) compare
their result with exact ones.
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
class _Block:
    """Sentences of one chunk: their chain, and which of its tokens move, as places in the chain and as features."""

    features: Tensor
    chain: Chain
    live: Tensor | None
    """(m,) of the chain's n tokens; None if all of them move."""
    rows: Tensor | None
    """(m,) rows of ``features``; None if these are all of them."""


class HessianProduct:
    """v -> H v at the theta of an evaluation, computed in ``dtype``."""

    objective: Objective
    where: Evaluation
    head: Head
    dtype: torch.dtype

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
        found = [_block(chunk.features, chain, negligible) for chunk, chain in parts]
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
        weight = (parts["weight"][1:] - parts["weight"][:1]).to(self.dtype)  # (C - 1, D + 1, Q)
        directions = self._directions(parts, len(vectors))
        for block in self.blocks:
            moved = block.chain.tangent(_moved_logits(block, weight), directions)
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


def _moved_logits(block: _Block, weight: Tensor) -> Tensor:
    """The change of the logits along W (C - 1, D + 1, Q), zero for the first label, (n, C, Q)."""
    flat = weight.movedim(1, 2).flatten(0, 1)  # ((C - 1) Q, D + 1)
    moved = weight.new_zeros(len(block.chain.nodes), weight.shape[0] + 1, weight.shape[2])
    if not bool(weight.any()):  # only transitions move
        return moved
    found = project(block.features, flat[:, :-1].contiguous(), block.rows).add_(flat[:, -1])
    found = found.unflatten(1, (weight.shape[0], weight.shape[2]))  # (m, C - 1, Q)
    if block.live is None:
        moved[:, 1:] = found
    else:
        moved[block.live, 1:] = found
    return moved


def _back(block: _Block, nodes: Tensor) -> Tensor:
    """sum_t dp_t f_t^T, (C, D + 1, Q), for (n, C, Q)."""
    values = nodes[:, 1:] if block.live is None else nodes[block.live, 1:]
    flat = values.flatten(1)  # (m, (C - 1) Q)
    found = torch.cat([gather(block.features, flat, block.rows), flat.sum(0).unsqueeze(1)], 1)
    found = found.unflatten(0, values.shape[1:]).movedim(1, 2)  # (C - 1, D + 1, Q)
    return torch.cat([-found.sum(0, keepdim=True), found]).double()


def _block(features: Tensor, chain: Chain, negligible: float) -> _Block:
    if negligible <= 0.0:
        return _Block(features, chain, None, None)
    return _Block(features, *chain.restricted(uncertainty(chain.nodes) > negligible))


def uncertainty(nodes: Tensor) -> Tensor:
    """1 - sum_c p(c)^2, (n,), without cancellation where one label is nearly certain."""
    best = nodes.argmax(1, keepdim=True)
    rest = nodes.scatter(1, best, 0.0).sum(1)  # 1 - p(best)
    return (rest * (2.0 - rest) - nodes.scatter(1, best, 0.0).square().sum(1)).clamp(min=0.0)
