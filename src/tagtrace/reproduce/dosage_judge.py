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
from tagtrace.reproduce.dosages import READINGS, DosageTokens
from tagtrace.reproduce.experiment import Found
from tagtrace.reproduce.strongest import Strongest

EXAMPLE = ("supporting example", "opposing example", "conflicting examples")
TOKEN = ("supporting token", "opposing token", "conflicting tokens")


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
        document = torch.repeat_interleave(torch.arange(index.num_chains), index.lengths)
        has = torch.zeros(2, index.num_chains, dtype=torch.bool)
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
    """A judge for each reading of what a dosage is, and the queries that reading gives rise to."""

    rows: Tensor
    """The tokens asked about under any reading, sorted, (Q,)."""
    asked: Mapping[str, Tensor]
    """Those of each reading."""
    judges: Mapping[str, Judge]
    is_other: Tensor
    """Whether a training token is no intervention, (N,)."""

    @classmethod
    def of(cls, index: Index, sentences: Sequence[Sentence], type_: str, asked: Mapping[str, Tensor]) -> Jury:
        """``sentences`` are the index's, ``type_`` is the label of interventions."""
        judges = {name: Judge.of(index, DosageTokens.of(sentences, READINGS[name], type_)) for name in asked}
        is_other = torch.cat([shard.labels for shard in index.shards]) != index.labels.index(type_)
        return cls(torch.cat(list(asked.values())).unique(), asked, judges, is_other)

    def readings(self, methods: Mapping[str, Strongest]) -> Found:
        """For each reading, what every method and chance come to; ``methods`` answer ``rows``."""
        found: Found = {}
        for reading, judge in self.judges.items():
            places = torch.searchsorted(self.rows, self.asked[reading])
            shares = {name: judge.shares(methods[name].at(places)) for name in sorted(methods)}
            found[reading] = {"queries": len(places), "chance": judge.chance(self.is_other), "methods": shares}
        return found


def _three(names: Sequence[str], first: Tensor, second: Tensor) -> dict[str, float]:
    """The shares of queries for which the first, the second, and both hold; NaN of none is told as 0."""
    shares = [float(each.double().mean()) if len(each) else 0.0 for each in (first, second, first & second)]
    return dict(zip(names, shares, strict=True))


def _product(names: Sequence[str], first: Tensor, second: Tensor) -> dict[str, float]:
    """The same for two that are drawn independently."""
    shares = [float(each.double().mean()) if len(each) else 0.0 for each in (first, second)]
    return dict(zip(names, [*shares, shares[0] * shares[1]], strict=True))
