"""Chance: how high the G^2 of the best condition would be if findings had nothing to do with conditions.

A *pool* is the n segments among which the findings of a change would lie by chance. Errors cluster in documents and so
do words, so findings are permuted in two steps. With m_d findings about the n_d segments of document d, q = sum m_d/n:

- *between documents*: documents exchange their standardised residuals

      e_d = (m_d - n_d q) / sqrt(v_d),   v_d = n_d (1 + (n_d - 1) rho),

  rho the correlation of two segments of a document, by moments. With the residual e of another, a document gets
  n_d q + sqrt(v_d) e findings, rounded at random; where all n_d are equal, documents exchange their findings. A
  document full of errors stays one, wherever it goes;
- *within documents*: these findings are about random segments of the document, with the confidences of random findings.

A permutation ends with the highest G^2 among all conditions of each kind. Kinds and changes differ in how high that is.
The *excess* of a G^2 is what it is above the 90th percentile, divided by the mean of that above it (its tail is nearly
exponential). The highest excess over all kinds of all changes is compared with that of an observed condition (Westfall
and Young's maximum statistic): the condition is significant if at most ``SIGNIFICANCE`` of the permutations reach it.
This bounds the probability of any false pattern at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tagtrace.findings.patterns.conditions import KINDS, Codes, ConditionKind
from tagtrace.findings.patterns.g_squared import g_squared

MIN_FINDINGS = 3
MIN_DOCUMENTS = 3
SIGNIFICANCE = 0.01
STAGES = (199, 999)
"""Numbers of permutations: the first are enough to see that a condition is not significant."""
CLEAR = 2.0
"""An excess this many times as high as the highest of the first permutations needs no further ones."""
BLOCK = 200
"""Number of permutations in memory at a time."""
MIN_TAIL = (2.71, 2.0)
"""The 90th percentile of chi^2 with one degree of freedom and the scale of its tail, the least that are used."""


@dataclass(frozen=True)
class ChancePool:
    """n segments among which the findings of a change would lie by chance."""

    codes: Codes
    """The conditions that each segment meets; -1 for one that is not asked about."""
    document: np.ndarray
    """The number of each segment's document, (n,)."""
    mass: np.ndarray
    """The confidence of the finding about each segment, 0 without one, (n,)."""

    def score(self, kind: ConditionKind, code: int) -> float:
        """G^2 of a condition."""
        inside = self.codes[kind] == code
        k1, n1, k, n = self.mass[inside].sum(), inside.sum(), self.mass.sum(), len(inside)
        return float(g_squared(*np.array([[k1], [n1], [k - k1], [n - n1]], dtype=float))[0])


@dataclass(frozen=True)
class _Drawn:
    """The findings of a block of permutations, f in all."""

    num: int
    """Number of permutations."""
    permutation: np.ndarray
    """(f,)"""
    segment: np.ndarray
    """(f,)"""
    confidence: np.ndarray
    """(f,)"""


class Chance:
    """The highest G^2 that conditions reach by chance in a pool."""

    def __init__(self, pool: ChancePool, seed: Sequence[int]) -> None:
        self.pool = pool
        self._rng = np.random.default_rng([*seed])
        self._maxima = np.zeros((0, len(KINDS)))
        _, self._document, counts = np.unique(pool.document, return_inverse=True, return_counts=True)
        self._n = counts  # (D,)
        self._m = np.bincount(self._document[pool.mass > 0], minlength=len(counts))  # (D,)
        self._order = np.argsort(self._document, kind="stable")  # the segments by document, (n,)

    def excess(self, kind: ConditionKind, code: int) -> float:
        """The excess of a condition."""
        place, (start, scale) = KINDS.index(kind), self._tails
        return (self.pool.score(kind, code) - float(start[place])) / float(scale[place])

    def highest(self, num: int) -> np.ndarray:
        """The highest excess in each of ``num`` permutations, (num,)."""
        start, scale = self._tails
        while len(self._maxima) < num:
            size = min(BLOCK, num - len(self._maxima))
            self._maxima = np.concatenate([self._maxima, self._permute(size)])
        return ((self._maxima[:num] - start) / scale).max(1)

    @cached_property
    def _tails(self) -> tuple[np.ndarray, np.ndarray]:
        """By kind, the 90th percentile of the highest G^2 and the mean of what is above it, (4,) each."""
        self._maxima = self._permute(STAGES[0])
        start = np.percentile(self._maxima, 90, axis=0)
        is_above = self._maxima >= start
        scale = (np.where(is_above, self._maxima - start, 0.0)).sum(0) / is_above.sum(0)
        return np.maximum(start, MIN_TAIL[0]), np.maximum(scale, MIN_TAIL[1])

    def _permute(self, num: int) -> np.ndarray:
        """The highest G^2 of each kind in ``num`` permutations, (num, 4)."""
        drawn = self._draw(self._exchange(num))
        return np.stack([self._best(kind, drawn) for kind in KINDS], 1)

    def _exchange(self, num: int) -> np.ndarray:
        """The number of findings that each document gets in each permutation, (num, D)."""
        rate = self._m.sum() / self._n.sum()
        order = np.argsort(self._rng.random((num, len(self._n)), dtype=np.float32), axis=1)  # (num, D)
        residuals = ((self._m - self._n * rate) / self._deviation)[order]
        moved = self._n * rate + self._deviation * residuals
        rounded = np.floor(moved + 1e-9 + self._rng.random(moved.shape, dtype=np.float32) * (1 - 2e-9))
        return np.clip(rounded, 0, self._n).astype(int)

    @cached_property
    def _deviation(self) -> np.ndarray:
        """The square root of v_d, (D,)."""
        rate, num_pairs = self._m.sum() / self._n.sum(), self._n.sum() - len(self._n)
        chi_squared = float(((self._m - self._n * rate) ** 2 / self._n).sum()) / max(rate * (1 - rate), 1e-12)
        rho = np.clip((chi_squared - (len(self._n) - 1)) / num_pairs, 0.0, 1.0) if num_pairs else 0.0
        return np.sqrt(self._n * (1 + (self._n - 1) * rho))

    def _draw(self, counts: np.ndarray) -> _Drawn:
        """So many different random segments (num, D) of each document in each permutation."""
        num, total = len(counts), len(self._order)
        permutation, document = np.nonzero(counts)
        times = counts[permutation, document]
        permutation, document = np.repeat(permutation, times), np.repeat(document, times)  # (f,)
        first = np.cumsum(self._n) - self._n
        is_taken = np.zeros(num * total, dtype=bool)
        left, found = np.arange(len(document)), np.zeros(len(document), dtype=int)
        while len(left):  # those that were drawn before are drawn again
            some = document[left]
            places = permutation[left] * total + first[some] + self._rng.integers(self._n[some])
            distinct = np.unique(places, return_index=True)[1]
            new = distinct[~is_taken[places[distinct]]]
            is_taken[places[new]] = True
            found[left[new]] = places[new] % total
            left = np.delete(left, new)
        confidences = self.pool.mass[self.pool.mass > 0]
        return _Drawn(num, permutation, self._order[found], self._rng.choice(confidences, len(found)))

    def _best(self, kind: ConditionKind, drawn: _Drawn) -> np.ndarray:
        """The highest G^2 among the conditions of a kind, (num,)."""
        code = self.pool.codes[kind][drawn.segment]  # (f,)
        is_asked = code >= 0
        pairs, place = np.unique(code[is_asked] * drawn.num + drawn.permutation[is_asked], return_inverse=True)
        is_enough = np.bincount(place, minlength=len(pairs)) >= MIN_FINDINGS
        if kind == "opening":
            is_enough &= num_distinct(place, self._document[drawn.segment[is_asked]]) >= MIN_DOCUMENTS
        k1 = np.bincount(place, drawn.confidence[is_asked], len(pairs))[is_enough]
        codes, permutation = np.divmod(pairs[is_enough], drawn.num)
        n1, total = self._sizes[kind][codes].astype(float), float(len(self._order))
        k = np.bincount(drawn.permutation, drawn.confidence, drawn.num)[permutation]
        found = np.zeros(drawn.num)
        np.maximum.at(found, permutation, g_squared(k1, n1, k - k1, total - n1))
        return found

    @cached_property
    def _sizes(self) -> dict[ConditionKind, np.ndarray]:
        """By kind, the number of segments that meet each condition."""
        return {kind: np.bincount(codes[codes >= 0]) for kind, codes in self.pool.codes.items()}


def num_distinct(place: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Number of different ``values`` (f,) at each ``place`` (f,)."""
    pairs = np.unique(np.stack([place, values], 1), axis=0)
    return np.bincount(pairs[:, 0])


def are_significant(tests: Sequence[tuple[float, Sequence[Chance]]]) -> bool:
    """Whether every excess is rare by chance, each in all of its pools together."""
    for num in STAGES:
        left: list[tuple[float, Sequence[Chance]]] = []
        for excess, chances in tests:
            highest = np.max([one.highest(num) for one in chances], axis=0)
            if 1 + int((highest >= excess).sum()) > SIGNIFICANCE * (STAGES[-1] + 1):
                return False
            if excess < CLEAR * max(float(highest.max()), 0.0):
                left.append((excess, chances))
        tests = left
    return True
