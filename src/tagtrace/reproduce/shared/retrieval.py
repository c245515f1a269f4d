"""The strongest supporter and opposer of many queries at once, among all training tokens or sentences.

``Explainer`` answers one query at a time, in full. Here only the strongest of each side is wanted, for hundreds of
queries and several scores V . g_k / size_k, with g_q and g_k the gradients of conditional losses (for whole sentences,
of joint losses):

| score | V | size_k |
|---|---|---|
| ``identity`` | g_q (the paper's formula) | 1 |
| ``cosine`` | g_q (the paper's released code) | norm(g_k) |
| ``curvature`` | K^-1 g_q, K the exact Hessian | 1 |
| ``relative`` | K^-1 g_q | sqrt(g_k^T K^-1 g_k) |

Factors that depend on the query only, such as norm(g_q), do not change the order and are left out. The exact size needs
a solve for each candidate: among tokens it is computed for the ``SHORTLIST`` best by Kronecker factors, or for none. Of
equal scores the first is taken (of equal approximate scores, any may be shortlisted): repeated words tie if features do
not depend on context.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tagtrace.findings import Queries
from tagtrace.index import Index
from tagtrace.influence import Candidates, find_candidates
from tagtrace.influence.scoring.norms import dense_gradients
from tagtrace.influence.scoring.token_pass import TokenPass
from tagtrace.reproduce.shared.device_curvature import DeviceCurvature
from tagtrace.tagger import Rows

IDENTITY, COSINE, CURVATURE, RELATIVE = SCORES = ("identity", "cosine", "curvature", "relative")
SHORTLIST = 10
CELLS = 2**23
"""Number of products in memory at once."""


@dataclass(frozen=True)
class Strongest:
    """The strongest supporter and opposer of Q queries, as rows of training tokens or numbers of training sentences."""

    supporters: Tensor
    """(Q,)"""
    opposers: Tensor
    """(Q,)"""
    are_tokens: bool = True

    def at(self, places: Tensor) -> Strongest:
        """The same for some of the queries."""
        return Strongest(self.supporters[places], self.opposers[places], self.are_tokens)


class Retriever:
    """Searches one index. Products are computed on ``device``, ``CELLS`` at a time; results are on the CPU."""

    index: Index
    device: torch.device

    def __init__(self, index: Index, device: torch.device | None = None) -> None:
        self.index, self.device = index, device or torch.device("cpu")

    @torch.no_grad()
    def tokens(
        self, queries: Queries, curved: DeviceCurvature | None = None, *, exact_sizes: bool = True
    ) -> dict[str, Strongest]:
        """The strongest training tokens by ``identity`` and ``cosine``, or, given ``curved``, by the other scores.

        If K is not inverted, or ``exact_sizes`` is False, ``relative`` keeps the sizes from Kronecker factors.
        """
        gradients = self._gradients(queries.rows, queries.segments)  # (Q, P)
        together = max(CELLS // max(len(one.shard.labels) for one in self._passes), 1)
        parts = [self._plain(some) if curved is None else self._curved(some, curved, exact_sizes)
                 for some in gradients.split(together)]  # fmt: skip
        return {name: joined([part[name] for part in parts]) for name in parts[0]}

    def _plain(self, gradients: Tensor) -> dict[str, Strongest]:
        plain, cosine = _Best(), _Best()
        for rows, products in self._products(gradients):
            plain.update(rows.start, products)
            cosine.update(rows.start, divide(products, self._norms[rows]))
        return {IDENTITY: plain.strongest(), COSINE: cosine.strongest()}

    def _curved(self, gradients: Tensor, curved: DeviceCurvature, exact_sizes: bool) -> dict[str, Strongest]:
        is_exact = curved.is_exact and exact_sizes
        moved, relative = _Best(), _Best(SHORTLIST if is_exact else 1)
        rough = curved.rough_sizes  # (N,)
        for rows, products in self._products(curved.solve(gradients)):
            moved.update(rows.start, products)
            relative.update(rows.start, divide(products, rough[rows].to(self.device)))
        if is_exact:
            relative = self._with_exact_sizes(relative, rough, curved)
        return {CURVATURE: moved.strongest(), RELATIVE: relative.strongest()}

    def _products(self, directions: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Slices of n training tokens, and V . g_k for directions V (Q, P), (Q, n)."""
        directions = _scaled(directions.to(self.device))
        for one in self._passes:
            start = one.shard.first_token
            yield slice(start, start + len(one.shard.labels)), one.products(directions).double()

    @cached_property
    def _passes(self) -> list[TokenPass]:
        head = deepcopy(self.index.head).to(self.device)
        return [TokenPass(head, shard.to(self.device)) for shard in self.index.shards]

    @cached_property
    def _norms(self) -> Tensor:
        """norm(g_k) of all training tokens, (N,)."""
        return torch.cat([one.norms() for one in self._passes])

    def _with_exact_sizes(self, best: _Best, rough: Tensor, curved: DeviceCurvature) -> _Best:
        """The shortlisted tokens scored with the exact g_k^T K^-1 g_k in place of the approximate one."""
        listed = best.places.cpu()  # (2, Q, k)
        which, inverse = listed.unique(return_inverse=True)
        exact = curved.sizes(find_candidates(self.index, "token").select(which))
        found = _Best(best.count)
        found.values, found.places = divide(best.values.cpu() * rough[listed], exact[inverse]), listed
        return found

    @torch.no_grad()
    def sentences(self, queries: Queries, curved: DeviceCurvature | None = None) -> dict[str, Strongest]:
        """The strongest training sentences for the joint loss of each query's sentence, by the scores of ``tokens``.

        If K is not inverted, there is no ``relative``.
        """
        wholes, owners = sentences_of(queries)
        directions = self._gradients(queries.rows, wholes)  # (c, P)
        if curved is not None:
            directions = curved.solve(directions)
        directions = _scaled(directions.to(self.device))
        head = curved.head if curved else deepcopy(self.index.head).to(self.device)
        source = curved.rows if curved else self.index.rows.to(self.device)
        best = {name: _Best() for name in ((CURVATURE, RELATIVE) if curved else (IDENTITY, COSINE))}
        if curved and not curved.is_exact:
            del best[RELATIVE]
        for numbers, gradients in dense_gradients(head, source, find_candidates(self.index, "sentence")):
            products = directions @ gradients.T  # (c, k)
            for name, one in best.items():
                one.update(int(numbers[0]), divide(products, _sizes(name, gradients, curved)))
        return {name: one.strongest(are_tokens=False).at(owners) for name, one in best.items()}

    @torch.no_grad()
    def neighbours(self, queries: Queries) -> dict[str, Strongest]:
        """The training tokens with the most and least similar features, by ``dot`` product and by ``cosine``.

        For ``dot, labels`` and ``cosine, labels``: the most similar with a label of the query's type, and of another.
        """
        types = self.index.labels.type_of
        numbers = torch.tensor([types.index(type_) for type_ in types])  # (C,): the type of a label
        own = numbers[queries.rows.labels[queries.tokens]].to(self.device).unsqueeze(1)  # (Q, 1)
        vectors = queries.rows.features[queries.tokens].to(self.device).float()  # (Q, D)
        best = {name: _Best() for name in ("dot", "cosine", "dot, labels", "cosine, labels")}
        for shard in self.index.shards:
            count, first = max(CELLS // len(vectors), 1), shard.first_token
            for part, labels in zip(shard.features.split(count), shard.labels.split(count), strict=True):
                theirs = part.to(self.device).float()  # (n, D)
                is_same = numbers[labels].to(self.device) == own  # (Q, n)
                dots = (vectors @ theirs.T).double()
                for name, values in {"dot": dots, "cosine": divide(dots, theirs.norm(dim=1).double())}.items():
                    best[name].update(first, values)
                    same, other = (values.masked_fill(mask, -torch.inf) for mask in (~is_same, is_same))
                    best[f"{name}, labels"].update(first, same, other)
                first += len(part)
        return {name: one.strongest() for name, one in best.items()}

    def _gradients(self, rows: Rows, segments: Tensor) -> Tensor:
        """The gradients of segments (S, 3) of queries' sentences, (S, P)."""
        return torch.cat([part for _, part in dense_gradients(self.index.head, rows, Candidates(segments))])


def joined(parts: Sequence[Strongest]) -> Strongest:
    """The same for the queries of all parts."""
    supporters, opposers = (torch.cat([getattr(part, name) for part in parts]) for name in ("supporters", "opposers"))
    return Strongest(supporters, opposers, parts[0].are_tokens)


class _Best:
    """The ``count`` best candidates of each query so far: ``values`` and ``places`` (2, Q, k), supporters first."""

    values: Tensor
    places: Tensor

    def __init__(self, count: int = 1) -> None:
        self.count = count

    def update(self, first: int, supporting: Tensor, opposing: Tensor | None = None) -> None:
        """Add scores (Q, n) of candidates numbered from ``first``; ``opposing`` defaults to minus ``supporting``."""
        both = torch.stack([supporting, -supporting if opposing is None else opposing])
        values, places = both.max(2, keepdim=True) if self.count == 1 else both.topk(min(self.count, both.shape[2]), 2)
        places = places + first
        if hasattr(self, "values"):
            values, places = torch.cat([self.values, values], 2), torch.cat([self.places, places], 2)
        values, order = values.sort(dim=2, descending=True, stable=True)
        self.values, self.places = values[..., : self.count], places.gather(2, order)[..., : self.count]

    def strongest(self, are_tokens: bool = True) -> Strongest:
        """The best candidate of each query."""
        first = self.values.argmax(2, keepdim=True)
        supporters, opposers = self.places.gather(2, first).squeeze(2).cpu()
        return Strongest(supporters, opposers, are_tokens)


def sentences_of(queries: Queries) -> tuple[Tensor, Tensor]:
    """The sentences of the queries as segments, each once, (c, 3), and for each query which one is its own, (Q,)."""
    sentences, places = queries.segments[:, 0].unique(return_inverse=True)
    return torch.stack([sentences, torch.zeros_like(sentences), queries.rows.lengths[sentences]], 1), places


def _sizes(score: str, gradients: Tensor, curved: DeviceCurvature | None) -> Tensor:
    """The sizes (k,) by which products with the gradients (k, P) of training sentences are divided."""
    if score == COSINE:
        return gradients.norm(dim=1)
    if score == RELATIVE and curved is not None:
        return (gradients * curved.solve(gradients)).sum(1).clamp(min=0.0).sqrt()
    return gradients.new_ones(len(gradients))


def divide(products: Tensor, sizes: Tensor) -> Tensor:
    """Products (..., n) divided by sizes (n,) in float64, zero where the size is zero."""
    return torch.where(sizes > 0, products.double() / sizes.double().clamp(min=1e-300), 0.0)


def _scaled(vectors: Tensor) -> Tensor:
    """Rows scaled to largest absolute entry 1, so that products fit into float32; rows of zeros stay."""
    return vectors / vectors.abs().amax(1, keepdim=True).clamp(min=1e-300)
