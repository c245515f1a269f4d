"""The training token, and the training sentence, that supports each of many queries most, by every score.

Scores are those of ``influence.scores``, for all queries at once. With g_q and g_k the gradients of query and candidate

| score | product | divided by |
|---|---|---|
| influence, identity | g_q . g_k | |
| influence, curvature | g_q^T K^-1 g_k | |
| cosine | g_q . g_k | norm(g_k) |
| relative | g_q^T K^-1 g_k | sqrt(g_k^T K^-1 g_k) |

What depends on the query alone (its norm) does not change which candidate comes first and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace.index import Index
from tagtrace.influence import Candidates, find_candidates, make_solver, self_influence
from tagtrace.influence.curvature import Curvature
from tagtrace.influence.filters import label_types
from tagtrace.influence.norms import dense_gradients
from tagtrace.influence.solvers import Cholesky
from tagtrace.influence.tokens import TokenPass
from tagtrace.tagger import Rows

IDENTITY, CURVATURE, COSINE, RELATIVE = "influence, identity", "influence, curvature", "cosine", "relative"
QUERIES = 64
"""Queries whose products with all training tokens are held at once."""
SHORTLIST = 10
"""Tokens of each query, the best by Kronecker factors, whose self-influence is worked out exactly."""


@dataclass(frozen=True)
class Queries:
    """Q segments of chains, with the labels that are explained."""

    rows: Rows
    segments: Tensor
    """(Q, 3): chain, start, stop."""

    @property
    def first_features(self) -> Tensor:
        """The features of each segment's first token, (Q, D)."""
        starts = self.rows.lengths.cumsum(0) - self.rows.lengths
        return self.rows.features[starts[self.segments[:, 0]] + self.segments[:, 1]].float()

    def whole(self) -> Queries:
        """The whole chain of each segment."""
        chains = self.segments[:, 0]
        return Queries(self.rows, torch.stack([chains, torch.zeros_like(chains), self.rows.lengths[chains]], 1))


class Attribution:
    """Asks one index; curvature and gradients are worked out on ``device``."""

    def __init__(self, index: Index, curvature: Curvature = "auto", device: torch.device | None = None) -> None:
        self.index = index
        self.device = device or torch.device("cpu")
        self.head = deepcopy(index.head).to(self.device)
        self.rows = index.rows(torch.float32).to(self.device)
        l2 = index.manifest.fit.l2
        self.solver = make_solver(curvature, self.head, self.rows, l2)
        self.kronecker = make_solver("kronecker", self.head, self.rows, l2)
        self.is_exact = isinstance(self.solver, Cholesky)
        """Whether a solve for each of many candidates is cheap."""

    def gradients(self, queries: Queries) -> Tensor:
        """g_q, each scaled so that float32 can hold what becomes of it, (Q, P)."""
        parts = dense_gradients(self.head, queries.rows.to(self.device), Candidates(queries.segments))
        return _scaled(torch.cat([part for _, part in parts]))

    @torch.no_grad()
    def tokens(self, queries: Queries) -> dict[str, Tensor]:
        """The row of the first supporter of each query among all training tokens, (Q,), by score."""
        tokens = find_candidates(self.index, "token")
        passes = [TokenPass(self.index.head, shard) for shard in self.index.shards]
        norms = torch.cat([one.norms() for one in passes])  # (N,)
        rough = self_influence(self.head, self.rows, tokens, self.kronecker).clamp(min=0.0).sqrt()  # (N,)
        found = {name: list[Tensor]() for name in (IDENTITY, CURVATURE, COSINE)}
        listed, values = list[Tensor](), list[Tensor]()
        for some in self.gradients(queries).split(QUERIES):
            plain = torch.cat([one.products(some.cpu()) for one in passes], 1)  # (q, N)
            found[IDENTITY].append(plain.argmax(1))
            found[COSINE].append(_quotient(plain, norms).argmax(1))
            turned = torch.cat([one.products(_scaled(self.solver.solve(some).value).cpu()) for one in passes], 1)
            found[CURVATURE].append(turned.argmax(1))
            listed.append(_quotient(turned, rough).topk(min(SHORTLIST, len(rough)), 1).indices)
            values.append(turned.gather(1, listed[-1]))
        best = {name: torch.cat(parts) for name, parts in found.items()}
        return best | {RELATIVE: self._relative(tokens, torch.cat(listed), torch.cat(values))}

    def _relative(self, tokens: Candidates, listed: Tensor, products: Tensor) -> Tensor:
        """The best of the tokens ``listed`` (Q, k), best first by Kronecker factors, by exact self-influence, (Q,)."""
        if not self.is_exact:
            return listed[:, 0]
        which, places = listed.unique(return_inverse=True)
        sizes = self_influence(self.head, self.rows, tokens.select(which), self.solver).clamp(min=0.0).sqrt()
        return listed.gather(1, _quotient(products, sizes[places]).argmax(1, keepdim=True)).squeeze(1)

    @torch.no_grad()
    def sentences(self, queries: Queries) -> dict[str, Tensor]:
        """The number of the first supporter of each query's whole sentence among all sentences, (Q,), by score."""
        plain = self.gradients(queries.whole())  # (Q, P)
        turned = _scaled(self.solver.solve(plain).value)
        best = _Best(len(plain), self.device)
        for numbers, gradients in dense_gradients(self.head, self.rows, find_candidates(self.index, "sentence")):
            products, moved = plain @ gradients.T, turned @ gradients.T  # (Q, k)
            scores = {IDENTITY: products, CURVATURE: moved, COSINE: _quotient(products, gradients.norm(dim=1))}
            if self.is_exact:
                squares = (gradients * self.solver.solve(gradients).value).sum(1)
                scores[RELATIVE] = _quotient(moved, squares.clamp(min=0.0).sqrt())
            best.update(numbers, scores)
        return {name: places.cpu() for name, places in best.places.items()}

    @torch.no_grad()
    def neighbours(self, queries: Queries) -> dict[str, Tensor]:
        """The training token with the likest features, (Q,): by dot product, by cosine, and by cosine among tokens
        whose label has the type of the query's (a minus sign elsewhere)."""
        types = label_types(self.index.labels)
        numbers = torch.tensor([types.index(type_) for type_ in types])
        starts = queries.rows.lengths.cumsum(0) - queries.rows.lengths
        theirs = numbers[queries.rows.labels[starts[queries.segments[:, 0]] + queries.segments[:, 1]]]  # (Q,)
        vectors = queries.first_features.to(self.device)
        best, first = _Best(len(vectors), self.device), 0
        for part, labels in zip(self.rows.features.split(2**14), self.rows.labels.cpu().split(2**14), strict=True):
            dots = vectors @ part.T  # (Q, k)
            cosines = _quotient(dots, part.norm(dim=1))
            is_same = (numbers[labels.long()] == theirs.unsqueeze(1)).to(self.device)
            scores = {
                "dot": dots.double(),
                "cosine": cosines,
                "cosine, labels": torch.where(is_same, cosines, -cosines),
            }
            best.update(torch.arange(first, first + len(part)), scores)
            first += len(part)
        return {name: places.cpu() for name, places in best.places.items()}


class _Best:
    """The best candidate of each query so far, by score."""

    def __init__(self, num_queries: int, device: torch.device) -> None:
        self.num_queries, self.device = num_queries, device
        self.values: dict[str, Tensor] = {}
        self.places: dict[str, Tensor] = {}

    def update(self, numbers: Tensor, scores: Mapping[str, Tensor]) -> None:
        """Take in scores (Q, k) of the candidates ``numbers`` (k,); of equal ones the first stays."""
        for name, these in scores.items():
            values, places = these.max(1)
            if name not in self.values:
                self.values[name] = values.new_full((self.num_queries,), -torch.inf)
                self.places[name] = torch.zeros(self.num_queries, dtype=torch.long, device=self.device)
            is_better = values > self.values[name]
            self.values[name] = torch.where(is_better, values, self.values[name])
            self.places[name] = torch.where(is_better, numbers.to(self.device)[places], self.places[name])


def _scaled(vectors: Tensor) -> Tensor:
    """Rows with largest entry 1; zeros stay."""
    return vectors / vectors.abs().amax(1, keepdim=True).clamp(min=1e-300)


def _quotient(values: Tensor, sizes: Tensor) -> Tensor:
    """values / sizes in float64, zero where the size is."""
    return torch.where(sizes > 0, values.double() / sizes.double().clamp(min=1e-300), 0.0)
