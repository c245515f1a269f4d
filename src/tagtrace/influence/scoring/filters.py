"""Filters: training segments chosen by their labels and by their document.

Labels are compared by type, without B- and I-. A token, entity or segment *has the query's label* if the set of types
of its tokens equals the query's: a LOC of one token and a LOC of three have the same label, a LOC followed by an O has
a different one. A whole sentence or document has the query's label if it contains all of the query's types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError
from tagtrace.index import Index
from tagtrace.influence.query import Query
from tagtrace.influence.scoring.candidates import Candidates

_NUM_SHOWN = 10


@dataclass(frozen=True)
class Filter:
    """Conditions on training segments; a segment must pass all of them."""

    only: Literal["same", "other"] | None = None
    """Segments that have the query's label, or only those that do not."""
    label: str | None = None
    """A type (``LOC``, ``O``) or a label (``B-LOC``) that all tokens of a segment have, or one token of a whole
    sentence or document."""
    pair: str | None = None
    """``LOC:ORG``: segments labelled LOC as above with a token labelled LOC for which the index's head finds ORG
    likelier than LOC, given the labels of the other tokens."""
    document: str | None = None
    """Segments of the document with this name."""

    def __post_init__(self) -> None:
        if self.only not in (None, "same", "other"):
            raise OptionError(f"only {self.only!r}: expected same or other")
        if self.pair is not None and self.pair.count(":") != 1:
            raise OptionError(f"pair {self.pair!r}: expected GIVEN:LIKELY, for example LOC:ORG")

    def keep(self, index: Index, candidates: Candidates, query: Query) -> Tensor:
        """True for the candidates that pass, (K,)."""
        kept = torch.ones(len(candidates), dtype=torch.bool)
        if self.only is not None:
            kept &= has_label_of(index, candidates, query) == (self.only == "same")
        if self.label is not None:
            kept &= _has_label(index, candidates, torch.as_tensor(index.labels.mask(self.label)))
        if self.pair is not None:
            given, likely = map(torch.as_tensor, index.labels.pair_masks(self.pair, "GIVEN:LIKELY"))
            kept &= _has_label(index, candidates, given)
            kept &= _count(index, candidates, _doubted(index, given, likely)) > 0
        if self.document is not None:
            kept &= _in_document(index, candidates, self.document)
        return kept


def has_label_of(index: Index, candidates: Candidates, query: Query) -> Tensor:
    """Whether each candidate has the query's label (see above), (K,)."""
    types = index.labels.type_of
    wanted = {types[label] for label in query.labels[query.start : query.stop].tolist()}
    masks = [torch.tensor([type_ == one for type_ in types]) for one in sorted(wanted)]  # (C,) each
    counts = torch.stack([_count(index, candidates, mask[index.label_ids]) for mask in masks])  # (types, K)
    has_all = (counts > 0).all(0)
    return has_all if candidates.is_whole else has_all & (counts.sum(0) == _num_tokens(candidates))


def _has_label(index: Index, candidates: Candidates, mask: Tensor) -> Tensor:
    count = _count(index, candidates, mask[index.label_ids])
    return count > 0 if candidates.is_whole else count == _num_tokens(candidates)


def _doubted(index: Index, given: Tensor, likely: Tensor) -> Tensor:
    """Whether each token has a ``given`` label and a ``likely`` one is likelier, (N,); p = e + onehot(y)."""
    found = []
    for shard in index.shards:
        is_given = given[shard.labels]
        margin = shard.errors[:, likely].sum(1) - shard.errors[:, given].sum(1) - 1.0  # if y is one of ``given``
        found.append(is_given & (margin > 0))
    return torch.cat(found)


def _in_document(index: Index, candidates: Candidates, name: str) -> Tensor:
    documents = index.documents
    if name not in documents:
        known = sorted({document for document in documents if document})
        names = f"it has {_some(known)}" if known else "its data names no documents"
        raise DataError(f"{index.folder}: no document {name!r}; {names}")
    sentences = torch.tensor([document == name for document in documents])
    return candidates.total(sentences[candidates.segments[:, 0]].long()) > 0


def _num_tokens(candidates: Candidates) -> Tensor:
    return candidates.total(candidates.segments[:, 2] - candidates.segments[:, 1])


def _count(index: Index, candidates: Candidates, tokens: Tensor) -> Tensor:
    """The number of tokens of each candidate for which ``tokens`` (N,) is True, (K,)."""
    return candidates.total(segment_sums(index, candidates, tokens.long()))


def segment_sums(index: Index, candidates: Candidates, values: Tensor) -> Tensor:
    """Values of all tokens, (N,), summed over each segment, (S,)."""
    sums = torch.cat([values.new_zeros(1), values.cumsum(0)])  # (N + 1,)
    first = index.starts[candidates.segments[:, 0]]
    return sums[first + candidates.segments[:, 2]] - sums[first + candidates.segments[:, 1]]


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NUM_SHOWN])
    return shown if len(names) <= _NUM_SHOWN else f"{shown} and {len(names) - _NUM_SHOWN} more"
