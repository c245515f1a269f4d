"""How often the strongest supporter and opposer show that dosages are labelled in two ways, and how often by chance.

``experiments.dosage`` says what counts as supporting, opposing and conflicting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace.data import Sentence
from tagtrace.index import Index
from tagtrace.reproduce.experiments.dosage_regex import DosageTokens, Reading
from tagtrace.reproduce.shared.experiment import SeedResult
from tagtrace.reproduce.shared.retrieval import Strongest

EXAMPLE = ("supporting example", "opposing example", "conflicting examples")
TOKEN = ("supporting token", "opposing token", "conflicting tokens")
Asked = tuple[Reading, Tensor]
"""A reading of what a dosage is, and the rows (Q,) of the test tokens that are queries under it."""


@dataclass(frozen=True)
class ConflictCounter:
    """Counts how often supporters and opposers show that dosages are labelled in two ways."""

    dosages: DosageTokens
    """Dosages among the N training tokens."""
    document: Tensor
    """The document of each token, (N,)."""
    has_outside: Tensor
    """Whether each document has a dosage outside interventions, (B,)."""
    has_inside: Tensor
    """Whether each document has a dosage inside an intervention, (B,)."""

    @classmethod
    def of(cls, index: Index, dosages: DosageTokens) -> ConflictCounter:
        document = torch.repeat_interleave(torch.arange(index.num_sentences), index.lengths)
        has = torch.zeros(2, index.num_sentences, dtype=torch.bool)
        for side, mask in enumerate((dosages.outside, dosages.inside)):
            has[side, document[mask]] = True
        return cls(dosages, document, has[0], has[1])

    def shares(self, found: Strongest) -> dict[str, float]:
        """The shares of queries with a supporting, opposing and conflicting document, and token."""
        supporters, opposers = found.supporters, found.opposers
        if not found.are_tokens:
            return _three(EXAMPLE, self.has_outside[supporters], self.has_inside[opposers])
        documents = self.document[supporters], self.document[opposers]
        return {
            **_three(EXAMPLE, self.has_outside[documents[0]], self.has_inside[documents[1]]),
            **_three(TOKEN, self.dosages.outside[supporters], self.dosages.inside[opposers]),
        }

    def chance(self, is_other: Tensor) -> dict[str, dict[str, float]]:
        """The shares expected of random documents, and of random tokens: one where ``is_other`` (N,), one elsewhere."""
        ours, theirs = self.document[is_other], self.document[~is_other]
        documents = _product(EXAMPLE, self.has_outside, self.has_inside)
        of_tokens = _product(EXAMPLE, self.has_outside[ours], self.has_inside[theirs])
        tokens = _product(TOKEN, self.dosages.outside[is_other], self.dosages.inside[~is_other])
        return {"random documents": documents, "random tokens": {**of_tokens, **tokens}}


@dataclass(frozen=True)
class QueryGroups:
    """The queries of each group (a reading and a test set), and a counter for each group."""

    rows: Tensor
    """The query tokens of all groups, sorted, (Q,)."""
    asked: Mapping[str, Tensor]
    """The query tokens of each group."""
    counters: Mapping[str, ConflictCounter]
    is_other: Tensor
    """Whether each training token is outside interventions, (N,)."""

    @classmethod
    def of(cls, index: Index, sentences: Sequence[Sentence], type_: str, asked: Mapping[str, Asked]) -> QueryGroups:
        """``sentences`` are the index's, ``type_`` is the label of interventions."""
        readings = {reading.name: reading for reading, _ in asked.values()}
        counters = {
            name: ConflictCounter.of(index, DosageTokens.of(sentences, one, type_)) for name, one in readings.items()
        }
        rows = {name: own for name, (_, own) in asked.items()}
        is_other = index.label_ids != index.labels.index(type_)
        by_name = {name: counters[reading.name] for name, (reading, _) in asked.items()}
        return cls(torch.cat(list(rows.values())).unique(), rows, by_name, is_other)

    def readings(self, methods: Mapping[str, Strongest]) -> SeedResult:
        """For each group, the shares of every method and of chance; ``methods`` has the strongest for ``rows``."""
        found: SeedResult = {}
        for name, counter in self.counters.items():
            places = torch.searchsorted(self.rows, self.asked[name])
            shares = {method: counter.shares(methods[method].at(places)) for method in sorted(methods)}
            found[name] = {"queries": len(places), "chance": counter.chance(self.is_other), "methods": shares}
        return found


def _three(names: Sequence[str], first: Tensor, second: Tensor) -> dict[str, float]:
    """The shares of queries for which the first, the second, and both hold; 0 if there are no queries."""
    shares = [float(each.double().mean()) if len(each) else 0.0 for each in (first, second, first & second)]
    return dict(zip(names, shares, strict=True))


def _product(names: Sequence[str], first: Tensor, second: Tensor) -> dict[str, float]:
    """The same for two independent draws."""
    shares = [float(each.double().mean()) if len(each) else 0.0 for each in (first, second)]
    return dict(zip(names, [*shares, shares[0] * shares[1]], strict=True))
