"""The marginals of a few sentences, tokens as rows (n, C), and how they change along directions of the scores.

``Independent`` tokens have no transitions (a softmax head), ``CompiledChain`` runs in compiled loops, ``PaddedChain``
in torch, on any device. All have the same numbers: tests compare them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tagtrace.tagger.convex.products import compiled_loops
from tagtrace.tagger.convex.tangents import Tangent, marginal_tangent
from tagtrace.tagger.convex.threads import share
from tagtrace.tagger.recursions import SAFE_SCALE, SAFE_SPREAD, Run, ScaledRun, run
from tagtrace.tagger.rows import pad_rows, token_places, unpad_rows
from tagtrace.tagger.scores import Scores

if TYPE_CHECKING:
    from tagtrace.tagger.head import Head

LEAST_DEPTH = 100.0
"""Emissions are not raised to less than this below the largest."""
IMPROBABLE = 1e-13
"""The largest probability of labels that were raised, in a sentence."""
SAFE_SINGLE = 1e-30
"""As SAFE_SCALE, for float32."""
NEGLIGIBLE = {torch.float32: 1e-9, torch.float64: 1e-15}
"""Transitions that are less probable than this are left out of a tangent."""


@dataclass(frozen=True)
class Directions:
    """Q directions of the scores: ``edges`` (C, C, Q), ``start`` and ``end`` (C, Q). Those of emissions come apart."""

    edges: Tensor
    start: Tensor
    end: Tensor

    def to(self, dtype: torch.dtype) -> Directions:
        return Directions(*(part.to(dtype).contiguous() for part in (self.edges, self.start, self.end)))


@dataclass(frozen=True)
class Moved:
    """Derivatives of the marginals: ``nodes`` (n, C, Q), and sums: ``edges`` (C, C, Q), ``first``, ``last`` (C, Q)."""

    nodes: Tensor
    edges: Tensor
    first: Tensor
    last: Tensor


class Chain(ABC):
    """Sentences of ``lengths`` (B,) with emissions (n, C) in float64, under the transitions of a head."""

    log_z: Tensor
    """(B,)"""
    lengths: Tensor
    is_scaled: bool = True
    """Whether ``tangent`` can be computed."""
    smallest: float = 1.0
    """The smallest share of probability that any step kept."""

    @property
    @abstractmethod
    def nodes(self) -> Tensor:
        """p(y_t | x), (n, C)."""

    @property
    def num_tokens(self) -> int:
        return int(self.lengths.sum())

    @property
    def last_rows(self) -> Tensor:
        """The row of each sentence's last token, (B,)."""
        return self.lengths.cumsum(0) - 1

    @property
    def first_rows(self) -> Tensor:
        """The row of each sentence's first token, (B,)."""
        return self.lengths.cumsum(0) - self.lengths

    def end_variances(self) -> tuple[Tensor, Tensor]:
        """sum over sentences of p (1 - p) for their first labels and for their last, (C,) each."""
        first, last = (self.nodes[rows.to(self.nodes.device)] for rows in (self.first_rows, self.last_rows))
        return (first * (1.0 - first).clamp(min=0.0)).sum(0), (last * (1.0 - last).clamp(min=0.0)).sum(0)

    @abstractmethod
    def edge_sum(self) -> Tensor:
        """The edge marginals summed over all steps, (C, C)."""

    @abstractmethod
    def edge_factors(self) -> tuple[Tensor, Tensor, Tensor]:
        """left, right (n, C) and M (C, C): the edge into row t has marginals left[t - 1, i] M[i, j] right[t, j]."""

    @abstractmethod
    def restricted(self, is_live: Tensor, dtype: torch.dtype) -> tuple[Chain, Tensor, Tensor]:
        """A chain, for tangents in ``dtype``, in which only the live tokens (n,) move.

        The labels of the others are certain, so they pass nothing on.

        Also the places (m,) in it of the live tokens, and their rows here (m,).
        """

    @abstractmethod
    def tangent(self, moved: Tensor, directions: Directions) -> Moved:
        """The derivatives along emissions ``moved`` (n, C, Q) and ``directions``, in the dtype of ``moved``.

        They may take the place of ``moved``.
        """


def make_chain(head: Head, emissions: Tensor, lengths: Tensor, *, has_ends: bool = True) -> Chain:
    """The marginals of sentences whose tokens' emissions (n, C) are concatenated; a token's may have any constant.

    Without ``has_ends``, start and end scores are part of the emissions.
    """
    if head.options.kind == "softmax":
        return Independent(emissions, lengths)
    edges, start, end = (part.detach().double() for part in head.edge_scores())
    if not has_ends:
        start, end = torch.zeros_like(start), torch.zeros_like(end)
    tables = (edges, start, end)
    raised = raised_emissions(emissions, *tables)
    if emissions.device.type == "cpu" and compiled_loops() is not None:
        found = CompiledChain(tables, raised, lengths)
        if found.smallest > SAFE_SCALE and _are_improbable(found, emissions, raised):
            return found
    found = PaddedChain(tables, raised, lengths)
    if raised is emissions or (found.is_scaled and _are_improbable(found, emissions, raised)):
        return found
    return PaddedChain(tables, emissions, lengths)


class Independent(Chain):
    """Tokens that do not depend on each other."""

    lengths: Tensor
    marginals: Tensor
    log_z: Tensor

    def __init__(self, emissions: Tensor, lengths: Tensor) -> None:
        self.lengths, self.marginals = lengths, torch.softmax(emissions, 1)
        owner = torch.repeat_interleave(torch.arange(len(lengths)), lengths).to(emissions.device)
        self.log_z = emissions.new_zeros(len(lengths)).index_add(0, owner, emissions.logsumexp(1))

    @property
    def nodes(self) -> Tensor:
        return self.marginals

    def edge_sum(self) -> Tensor:
        return self.nodes.new_zeros(self.nodes.shape[1], self.nodes.shape[1])

    def edge_factors(self) -> tuple[Tensor, Tensor, Tensor]:
        C = self.nodes.shape[1]
        return self.nodes, self.nodes, self.nodes.new_ones(C, C)

    def restricted(self, is_live: Tensor, dtype: torch.dtype) -> tuple[Chain, Tensor, Tensor]:
        rows = is_live.nonzero().squeeze(1)
        found = Independent.__new__(Independent)
        found.lengths, found.marginals = torch.ones(len(rows), dtype=torch.long), self.nodes[rows].to(dtype)
        return found, torch.arange(len(rows), device=rows.device), rows

    def tangent(self, moved: Tensor, directions: Directions) -> Moved:
        p = self.nodes.to(moved.dtype).unsqueeze(2)  # (n, C, 1)
        nodes = moved.mul_(p)
        nodes.addcmul_(p, nodes.sum(1, keepdim=True), value=-1.0)
        return Moved(nodes, *(torch.zeros_like(part) for part in (directions.edges, directions.start, directions.end)))


class PaddedChain(Chain):
    """The recursions of ``tagger.recursions``, on any device, in float64."""

    edge_scores: tuple[Tensor, Tensor, Tensor]
    emissions: Tensor
    lengths: Tensor
    marginals: Tensor
    log_z: Tensor
    is_scaled: bool
    run: Run

    def __init__(self, scores: tuple[Tensor, Tensor, Tensor], emissions: Tensor, lengths: Tensor) -> None:
        """``scores``: transitions (C, C), start and end (C,)."""
        self.edge_scores, self.emissions, self.lengths = scores, emissions, lengths
        self.run = run(Scores(pad_rows(emissions, lengths), *scores, lengths))
        self.log_z = self.run.log_z()
        self.marginals = unpad_rows(self.run.nodes(), self.lengths)
        self.is_scaled = isinstance(self.run, ScaledRun)

    @property
    def nodes(self) -> Tensor:
        return self.marginals

    def edge_sum(self) -> Tensor:
        return self.run.edge_sum(self.log_z.new_ones(len(self.lengths)))

    def edge_factors(self) -> tuple[Tensor, Tensor, Tensor]:
        left, right, matrix = self.run.row_factors()
        return unpad_rows(left, self.lengths), unpad_rows(right, self.lengths), matrix

    def restricted(self, is_live: Tensor, dtype: torch.dtype) -> tuple[Chain, Tensor, Tensor]:  # noqa: ARG002
        places, kept = live_sentences(is_live, self.lengths)
        if len(places) == 0:
            return Independent(self.emissions[:0], kept), places, places
        live = is_live[places].nonzero().squeeze(1)
        return PaddedChain(self.edge_scores, self.emissions[places], kept), live, places[live]

    def tangent(self, moved: Tensor, directions: Directions) -> Moved:
        assert isinstance(self.run, ScaledRun)
        given = directions.to(torch.float64)
        emissions = pad_rows(moved.double().transpose(1, 2), self.lengths)  # (B, T, Q, C)
        found = marginal_tangent(self.run, Tangent(emissions, given.edges.permute(2, 0, 1), given.start.T, given.end.T))
        nodes = unpad_rows(found.nodes, self.lengths).transpose(1, 2)  # (n, C, Q)
        parts = (nodes, found.edge_sum.permute(1, 2, 0), found.first.T, found.last.T)
        return Moved(*(part.to(moved.dtype) for part in parts))


class CompiledChain(Chain):
    """The same in compiled loops over the rows, shared by threads. Its sentences may be pieces of sentences."""

    lengths: Tensor
    log_z: Tensor
    smallest: float
    """Scaling is safe only above SAFE_SCALE, and in float32 above SAFE_SINGLE."""
    starts: np.ndarray
    begins: np.ndarray
    ends: np.ndarray
    """(B,): the first row of each piece, and whether it begins and ends its sentence."""
    matrix: np.ndarray
    first: np.ndarray
    final: np.ndarray
    """exp of the transitions (C, C), start and end scores (C,), each up to a factor."""
    alpha: Tensor
    beta: Tensor
    right: Tensor
    """(n, C)"""

    def __init__(self, scores: tuple[Tensor, Tensor, Tensor], emissions: Tensor, lengths: Tensor) -> None:
        """``scores``: transitions (C, C), start and end (C,)."""
        self.lengths, self.starts = lengths, (lengths.cumsum(0) - lengths).numpy()
        self.begins = self.ends = np.ones(len(lengths), dtype=bool)
        peaks = [max(float(part.max()), -1e300) for part in scores]
        tables = [(part - peak).exp().numpy() for part, peak in zip(scores, peaks, strict=True)]
        self.matrix, self.first, self.final = tables  # (C, C), (C,), (C,)
        self.alpha, self.beta, self.right = (torch.zeros_like(emissions) for _ in range(3))  # (n, C)
        self.log_z = emissions.new_zeros(len(lengths))
        self.smallest = 0.0
        if spread(emissions, *scores) < SAFE_SPREAD:
            self.smallest = min(
                share(lambda some: self._run(some, emissions.contiguous().numpy()), len(lengths)), default=1.0
            )
        self.log_z += (lengths - 1).double() * peaks[0] + peaks[1] + peaks[2]

    @property
    def nodes(self) -> Tensor:
        return self.alpha * self.beta  # kept only as its factors

    def _run(self, some: range, emissions: np.ndarray) -> float:
        loops, part = compiled_loops(), slice(some.start, some.stop)
        assert loops is not None
        tables = (table.numpy() for table in (self.alpha, self.beta, self.right))
        starts, lengths = self.starts[part], self.lengths.numpy()[part]
        return loops.forward_backward(
            emissions, starts, lengths, self.matrix, self.first, self.final, *tables, self.log_z.numpy()[part]
        )

    def edge_sum(self) -> Tensor:
        loops = compiled_loops()
        assert loops is not None
        out = np.zeros_like(self.matrix)
        loops.edge_sum(self.alpha.numpy(), self.right.numpy(), self.starts, self.lengths.numpy(), self.matrix, out)
        return torch.from_numpy(out)

    def edge_factors(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.alpha, self.right, torch.from_numpy(self.matrix)

    def restricted(self, is_live: Tensor, dtype: torch.dtype) -> tuple[Chain, Tensor, Tensor]:
        """Pieces of sentences: live tokens that follow each other, with the token before and the token after."""
        inside = torch.ones(len(is_live) + 1, dtype=torch.bool)  # whether row r - 1 and row r are in one sentence
        inside[self.first_rows], inside[-1] = False, False
        beside = is_live.clone()
        beside[1:] |= is_live[:-1] & inside[1:-1]
        beside[:-1] |= is_live[1:] & inside[1:-1]
        rows = beside.nonzero().squeeze(1)  # (k,)
        goes_on = torch.zeros(len(rows), dtype=torch.bool)
        goes_on[1:] = (rows.diff() == 1) & inside[rows[1:]] & (is_live[rows[1:]] | is_live[rows[:-1]])
        first = (~goes_on).nonzero().squeeze(1)
        found = CompiledChain.__new__(CompiledChain)
        found.lengths = torch.diff(first, append=torch.tensor([len(rows)]))
        found.starts, found.smallest, found.matrix = first.numpy(), self.smallest, self.matrix
        last = first + found.lengths - 1
        found.begins, found.ends = (~inside[rows[first]]).numpy(), (~inside[rows[last] + 1]).numpy()
        found.alpha, found.beta, found.right = (table[rows].to(dtype) for table in (self.alpha, self.beta, self.right))
        live = is_live[rows].nonzero().squeeze(1)
        return found, live, rows[live]

    def tangent(self, moved: Tensor, directions: Directions) -> Moved:
        if moved.shape[2] == 1:
            return self._tangent(moved, directions, is_one=True)
        return self._tangent(moved, directions, is_one=False)

    def _tangent(self, moved: Tensor, directions: Directions, is_one: bool) -> Moved:
        loops, given = compiled_loops(), directions.to(moved.dtype)
        assert loops is not None
        alpha, beta, right, matrix = self._tables(moved.dtype)
        nodes = moved.contiguous()
        whole = (nodes, given.edges, given.start, given.end)
        x, *parts = ((part.squeeze(-1) if is_one else part).numpy() for part in whole)

        def fill(some: range) -> list[np.ndarray]:
            part, sums = slice(some.start, some.stop), [np.zeros_like(part) for part in parts]
            pieces = (self.starts[part], self.lengths.numpy()[part], self.begins[part], self.ends[part])
            given = (x, alpha, beta, right, *pieces, matrix, *parts, *sums)
            if is_one:
                loops.tangent_one(*given)
            else:
                loops.tangent(*given, NEGLIGIBLE[moved.dtype])
            return sums

        found = share(fill, len(self.lengths))
        sums = [torch.from_numpy(np.sum(some, 0)) for some in zip(*found, strict=True)]
        return Moved(nodes, *(part.unsqueeze(-1) if is_one else part for part in sums))

    def _tables(self, dtype: torch.dtype) -> list[np.ndarray]:
        """alpha, beta, right (n, C) and the matrix (C, C)."""
        parts = (self.alpha, self.beta, self.right, torch.from_numpy(self.matrix))
        return [part.to(dtype).numpy() for part in parts]


def raised_emissions(emissions: Tensor, *parts: Tensor) -> Tensor:
    """Emissions (n, C) with which scaling cannot underflow: none is further than ``depth`` below its token's largest.

    If the labels that were raised are improbable all the same (``_are_improbable``), so are the paths through them, and
    everything else is what it would be without raising them.
    """
    depth = SAFE_SPREAD - 1.0 - spread(emissions[:0], *parts)
    if depth < LEAST_DEPTH or spread(emissions, *parts) < SAFE_SPREAD:
        return emissions
    low = emissions.amax(1, keepdim=True) - depth
    return torch.where(emissions == -torch.inf, emissions, torch.maximum(emissions, low))


def _are_improbable(chain: Chain, emissions: Tensor, raised: Tensor) -> bool:
    """Whether the labels that were raised have hardly any probability in any sentence, taken together."""
    if raised is emissions:
        return True
    found = torch.where(raised > emissions, chain.nodes, 0.0).sum(1)  # (n,)
    owner = torch.repeat_interleave(torch.arange(len(chain.lengths)), chain.lengths).to(found.device)
    return bool((found.new_zeros(len(chain.lengths)).index_add(0, owner, found) <= IMPROBABLE).all())


def live_sentences(is_live: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens (m,) of the sentences that have a live token, and the lengths of these sentences."""
    owner = torch.repeat_interleave(torch.arange(len(lengths)), lengths).to(is_live.device)
    counts = torch.zeros(len(lengths), dtype=torch.long, device=is_live.device).index_add(0, owner, is_live.long())
    kept = (counts > 0).nonzero().squeeze(1).cpu()
    return token_places(lengths, kept).to(is_live.device), lengths[kept]


def spread(emissions: Tensor, *parts: Tensor) -> float:
    """How far apart the log-probabilities of two labels at one position can be; infinite if there is a NaN."""
    total = 0.0
    if emissions.numel():
        low = torch.where(emissions == -torch.inf, torch.inf, emissions).amin(1)
        total = float((emissions.amax(1) - low).abs().max())  # infinite where every label is forbidden
    for part in parts:
        finite = part[part > -torch.inf]
        total += float(finite.max() - finite.min()) if len(finite) else 0.0
    return float("inf") if math.isnan(total) else total
