"""Whether the strongest supporters and opposers show that dosages are labelled in two ways; and what chance would show.

See ``dosage`` for what counts as supporting, opposing and conflicting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace.data import Sentence
from tagtrace.index import Index
from tagtrace.reproduce.shared.dosage_regex import DosageTokens, Reading
from tagtrace.reproduce.shared.experiment import Found
from tagtrace.reproduce.shared.retrieval import Strongest

EXAMPLE = ("supporting example", "opposing example", "conflicting examples")
TOKEN = ("supporting token", "opposing token", "conflicting tokens")
Asked = tuple[Reading, Tensor]
"""A reading of what a dosage is, and the rows of the test tokens that it makes queries, (Q,)."""


@dataclass(frozen=True)
class Judge:
    """Says whether what was found shows that dosages are labelled in two ways."""

    dosages: DosageTokens
    """Of the N training tokens."""
    document: Tensor
    """The document of each token, (N,)."""
    has_outside: Tensor
    """(B,): whether a document has a dosage outside interventions."""
    has_inside: Tensor

    @classmethod
    def of(cls, index: Index, dosages: DosageTokens) -> Judge:
        document = torch.repeat_interleave(torch.arange(index.num_sentences), index.lengths)
        has = torch.zeros(2, index.num_sentences, dtype=torch.bool)
        for side, mask in enumerate((dosages.outside, dosages.inside)):
            has[side, document[mask]] = True
        return cls(dosages, document, has[0], has[1])

    def shares(self, found: Strongest) -> dict[str, float]:
        """Of the queries, how many have a supporting, opposing and conflicting document, and token."""
        supporters, opposers = found.supporters, found.opposers
        if not found.are_tokens:
            return _three(EXAMPLE, self.has_outside[supporters], self.has_inside[opposers])
        documents = self.document[supporters], self.document[opposers]
        return {
            **_three(EXAMPLE, self.has_outside[documents[0]], self.has_inside[documents[1]]),
            **_three(TOKEN, self.dosages.outside[supporters], self.dosages.inside[opposers]),
        }

    def chance(self, is_other: Tensor) -> dict[str, dict[str, float]]:
        """The same expected of random documents, and of random tokens: ``is_other`` (N,), and the rest."""
        ours, theirs = self.document[is_other], self.document[~is_other]
        documents = _product(EXAMPLE, self.has_outside, self.has_inside)
        of_tokens = _product(EXAMPLE, self.has_outside[ours], self.has_inside[theirs])
        tokens = _product(TOKEN, self.dosages.outside[is_other], self.dosages.inside[~is_other])
        return {"random documents": documents, "random tokens": {**of_tokens, **tokens}}


@dataclass(frozen=True)
class Jury:
    """A judge for each name of a reading and a test set, and the queries these give rise to."""

    rows: Tensor
    """The tokens asked about under any name, sorted, (Q,)."""
    asked: Mapping[str, Tensor]
    """Those of each name."""
    judges: Mapping[str, Judge]
    is_other: Tensor
    """Whether a training token is no intervention, (N,)."""

    @classmethod
    def of(cls, index: Index, sentences: Sequence[Sentence], type_: str, asked: Mapping[str, Asked]) -> Jury:
        """``sentences`` are the index's, ``type_`` is the label of interventions."""
        readings = {reading.name: reading for reading, _ in asked.values()}
        judges = {name: Judge.of(index, DosageTokens.of(sentences, one, type_)) for name, one in readings.items()}
        rows = {name: own for name, (_, own) in asked.items()}
        is_other = index.label_ids != index.labels.index(type_)
        by_name = {name: judges[reading.name] for name, (reading, _) in asked.items()}
        return cls(torch.cat(list(rows.values())).unique(), rows, by_name, is_other)

    def readings(self, methods: Mapping[str, Strongest]) -> Found:
        """For each name, what every method and chance come to; ``methods`` answer ``rows``."""
        found: Found = {}
        for name, judge in self.judges.items():
            places = torch.searchsorted(self.rows, self.asked[name])
            shares = {method: judge.shares(methods[method].at(places)) for method in sorted(methods)}
            found[name] = {"queries": len(places), "chance": judge.chance(self.is_other), "methods": shares}
        return found


def _three(names: Sequence[str], first: Tensor, second: Tensor) -> dict[str, float]:
    """The shares of queries for which the first, the second, and both hold; NaN of none is told as 0."""
    shares = [float(each.double().mean()) if len(each) else 0.0 for each in (first, second, first & second)]
    return dict(zip(names, shares, strict=True))


def _product(names: Sequence[str], first: Tensor, second: Tensor) -> dict[str, float]:
    """The same for two that are drawn independently."""
    shares = [float(each.double().mean()) if len(each) else 0.0 for each in (first, second)]
    return dict(zip(names, [*shares, shares[0] * shares[1]], strict=True))
