"""The strongest supporter and opposer of many queries at once, among all training tokens or documents.

``Explainer`` answers one query at a time, in full. Here only the first of each side is wanted, for hundreds of queries
and several scores: products of blocks of queries with a shard of tokens, of which the largest and smallest are kept.
With g_q and g_k the gradients of conditional losses (joint ones of whole documents), V . g_k / size_k with

| score | V | size_k |
|---|---|---|
| ``identity`` | g_q (the paper's formula) | 1 |
| ``cosine`` | g_q (the paper's released code; norm(g_q) changes no order) | norm(g_k) |
| ``curvature`` | H^-1 g_q | 1 |
| ``relative`` | H^-1 g_q | sqrt(g_k^T K^-1 g_k), K Kronecker factors of H: H itself takes a solve a token |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace.index import Index
from tagtrace.influence import Candidates, Screen, find_candidates, gradient_norms, make_solver, self_influence
from tagtrace.influence.norms import dense_gradients
from tagtrace.influence.solvers import Solver
from tagtrace.influence.tokens import TokenPass
from tagtrace.tagger import Rows

TOGETHER = 64
"""Queries whose products with a shard of training tokens are held at once."""


@dataclass(frozen=True)
class Strongest:
    """The strongest supporter and opposer of Q queries: rows of training tokens, or numbers of documents."""

    supporters: Tensor
    """(Q,)"""
    opposers: Tensor
    """(Q,)"""
    are_tokens: bool = True

    def at(self, places: Tensor) -> Strongest:
        """Those of some of the queries."""
        return Strongest(self.supporters[places], self.opposers[places], self.are_tokens)


class Retriever:
    """Finds what supports and opposes the tokens ``asked`` (Q,) of labelled test chains ``rows``."""

    def __init__(self, index: Index, rows: Rows, asked: Tensor, device: torch.device) -> None:
        self.index, self.rows, self.asked, self.device = index, rows, asked, device
        segments = token_segments(rows.lengths)[asked]  # (Q, 3)
        chains, self.chain_of = segments[:, 0].unique(return_inverse=True)
        whole = torch.stack([chains, torch.zeros_like(chains), rows.lengths[chains]], 1)
        self.of_tokens = self._gradients(segments)  # (Q, P)
        self.of_chains = self._gradients(whole)  # (chains asked about, P)

    def _gradients(self, segments: Tensor) -> Tensor:
        """The gradients of test segments (S, 3), (S, P)."""
        return torch.cat([part for _, part in dense_gradients(self.index.head, self.rows, Candidates(segments))])

    def all(self, report: Callable[[str], None], *, curvature: bool = True) -> dict[str, Strongest]:
        """Every method, by name; ``curvature``: also the scores that take the exact Hessian."""
        report("segment influence")
        index, found = self.index, dict[str, Strongest]()
        norms = torch.cat([TokenPass(index.head, shard).norms() for shard in index.shards])  # (N,)
        found["segment influence, identity"] = strongest_tokens(index, self.of_tokens)
        found["segment influence, cosine"] = strongest_tokens(index, self.of_tokens, norms)
        report("instance influence")
        instances = find_candidates(index, "sentence")
        sizes = gradient_norms(index.head, index, instances)  # (B,)
        products = Screen(index.head, index, instances.segments).products(self.of_chains)
        found["instance influence, identity"] = self._instances(products)
        found["instance influence, cosine"] = self._instances(over(products, sizes))
        if curvature:
            report("curvature")
            solver = dense_solver(index, self.device)
            moved = solver.solve(self.of_tokens.to(self.device)).value.cpu()  # (Q, P)
            moved_chains = solver.solve(self.of_chains.to(self.device)).value.cpu()
            sizes = rough_sizes(index, kronecker_solver(index))
            found["segment influence, curvature"] = strongest_tokens(index, moved)
            found["segment influence, relative"] = strongest_tokens(index, moved, sizes)
            products = Screen(index.head, index, instances.segments).products(moved_chains)
            found["instance influence, curvature"] = self._instances(products)
        report("segment NN")
        features, labels = self.rows.features[self.asked].float(), self.rows.labels[self.asked]
        found["segment NN, dot"] = nearest_tokens(index, features, labels)
        found["segment NN, cosine"] = nearest_tokens(index, features, labels, cosine=True)
        return dict(sorted(found.items()))

    def _instances(self, values: Tensor) -> Strongest:
        """Of values (chains asked about, B), for the chain of each query."""
        return Strongest(values.argmax(1)[self.chain_of], values.argmin(1)[self.chain_of], are_tokens=False)


def dense_solver(index: Index, device: torch.device) -> Solver:
    """Solves with the exact Hessian of an index's head, on ``device``."""
    rows, head = index.rows(torch.float32).to(device), deepcopy(index.head).to(device)
    return make_solver("dense", head, rows, index.manifest.fit.l2)


def kronecker_solver(index: Index) -> Solver:
    """Solves with Kronecker factors of that Hessian."""
    return make_solver("kronecker", index.head, index.rows(torch.float32), index.manifest.fit.l2)


def rough_sizes(index: Index, kronecker: Solver) -> Tensor:
    """The root of g_k^T K^-1 g_k of every training token, K being Kronecker factors, (N,)."""
    return self_influence(index.head, index, find_candidates(index, "token"), kronecker).clamp(min=0.0).sqrt()


def token_segments(lengths: Tensor) -> Tensor:
    """(chain, start, stop) of every token, (n, 3)."""
    chain = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    start = torch.arange(len(chain)) - (lengths.cumsum(0) - lengths)[chain]
    return torch.stack([chain, start, start + 1], 1)


def over(products: Tensor, sizes: Tensor) -> Tensor:
    """Products (Q, n) over sizes (n,) in float64, zero where the size is."""
    return torch.where(sizes > 0, products.double() / sizes.clamp(min=1e-300), 0.0)


@torch.no_grad()
def strongest_tokens(index: Index, directions: Tensor, sizes: Tensor | None = None) -> Strongest:
    """The training tokens with the largest and the smallest V . g_k / size_k for directions V (Q, P)."""

    def scored(vectors: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        for shard in index.shards:
            values = TokenPass(index.head, shard).products(vectors)  # (q, n)
            if sizes is not None:
                values = over(values, sizes[shard.first_token : shard.first_token + values.shape[1]])
            yield shard.first_token, values, -values

    parts = [_best(scored(some), len(some)) for some in directions.split(TOGETHER)]
    supporters, opposers = torch.cat(parts, 1)
    return Strongest(supporters, opposers)


@torch.no_grad()
def nearest_tokens(index: Index, features: Tensor, labels: Tensor, *, cosine: bool = False) -> Strongest:
    """The training tokens with the largest F_q . F_k (or cosine): with the label of the query, and with another.

    ``features`` (Q, D) and ``labels`` (Q,) are the queries'.
    """

    def scored(queries: Tensor, own: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        for shard in index.shards:
            theirs = shard.features.float()  # (n, D)
            values = queries @ theirs.T  # (q, n)
            if cosine:
                values = over(values, theirs.norm(dim=1))
            is_same = own.unsqueeze(1) == shard.labels
            yield shard.first_token, values.masked_fill(~is_same, -torch.inf), values.masked_fill(is_same, -torch.inf)

    pairs = zip(features.split(TOGETHER), labels.split(TOGETHER), strict=True)
    parts = [_best(scored(queries, own), len(own)) for queries, own in pairs]
    supporters, opposers = torch.cat(parts, 1)
    return Strongest(supporters, opposers)


def _best(shards: Iterable[tuple[int, Tensor, Tensor]], num_queries: int) -> Tensor:
    """The rows of the largest value of either side over all shards, (2, q); each gives its first row and (q, n)."""
    best = torch.full((2, num_queries), -torch.inf, dtype=torch.float64)
    rows = torch.zeros(2, num_queries, dtype=torch.long)
    for first, *sides in shards:
        for side, values in enumerate(sides):
            here, place = values.max(1)
            better = here.double() > best[side]
            best[side][better] = here.double()[better]
            rows[side][better] = first + place[better]
    return rows
