"""Which training segments are scored: tokens, labelled entities, all segments up to a length, sentences, documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tagtrace._checks import DataError
from tagtrace.data.labels import LabelSet
from tagtrace.data.schemes import segments
from tagtrace.index import Index
from tagtrace.influence.options import check_at_least, check_choice
from tagtrace.tagger.rows import RowParts, Rows

SegmentKind = Literal["token", "entity", "segment", "sentence", "document"]


@dataclass(frozen=True)
class Candidates:
    """K candidates to score: one segment each, except for documents, which are all their sentences together."""

    segments: Tensor
    """(S, 3): sentence number, start, stop, in the order of the data."""
    kind: SegmentKind = "segment"
    owner: Tensor | None = None
    """(S,): the candidate that each segment belongs to; None if each segment is a candidate."""
    documents: tuple[str, ...] = ()
    """The name of each document, if candidates are documents."""

    def __len__(self) -> int:
        return len(self.segments) if self.owner is None else len(self.documents)

    @property
    def is_whole(self) -> bool:
        """Whether candidates are whole sentences or documents."""
        return self.kind in ("sentence", "document")

    def total(self, values: Tensor) -> Tensor:
        """Values of segments, (S, ...), summed for each candidate, (K, ...)."""
        if self.owner is None:
            return values
        return values.new_zeros(len(self), *values.shape[1:]).index_add(0, self.owner, values)

    def select(self, which: Tensor) -> Candidates:
        """The candidates ``which`` (k,), numbered in this order."""
        if self.owner is None:
            return Candidates(self.segments[which], self.kind)
        places = torch.full((len(self),), -1)
        places[which] = torch.arange(len(which))
        owner = places[self.owner]
        names = tuple([self.documents[number] for number in which.tolist()])
        return Candidates(self.segments[owner >= 0], self.kind, owner[owner >= 0], names)

    def parts(self, number: int) -> list[tuple[int, int, int]]:
        """The segments (sentence number, start, stop) of one candidate."""
        found = self.segments[number : number + 1] if self.owner is None else self.segments[self.owner == number]
        return [(sentence_number, start, stop) for sentence_number, start, stop in found.tolist()]


def find_candidates(index: Index, kind: SegmentKind, max_length: int = 3) -> Candidates:
    """Every training segment of a kind in an index; for documents, the sentences of each together."""
    found = []
    for shard in index.shards:
        part = find_segments(shard.rows(), index.labels, kind, max_length)
        found.append(part + torch.tensor([shard.first_sentence, 0, 0]))
    together = torch.cat(found)
    if kind != "document":
        return Candidates(together, kind)
    documents = index.documents
    if not any(documents):
        raise DataError(f"{index.folder}: its data names no documents; ask for whole sentences instead")
    numbers: dict[tuple[str, int], int] = {}
    # a sentence without a document stays alone
    keys = [(name, -1) if name else ("", number) for number, name in enumerate(documents)]
    owner = torch.tensor([numbers.setdefault(key, len(numbers)) for key in keys])
    return Candidates(together, kind, owner, tuple([name for name, _ in numbers]))


def find_segments(rows: Rows | RowParts, labels: LabelSet, kind: SegmentKind, max_length: int = 3) -> Tensor:
    """(sentence number, start, stop) of every segment of a kind in ``rows``, (S, 3), in the order of the data.

    ``entity``: labelled segments, as the scheme defines them. ``segment``: all segments of at most ``max_length``
    tokens. ``sentence`` and ``document``: whole sentences.
    """
    check_choice("kind", kind, SegmentKind)
    if kind in ("sentence", "document"):
        sentences = torch.arange(len(rows.lengths))
        return torch.stack([sentences, torch.zeros_like(sentences), rows.lengths], 1)
    if kind == "entity":
        return _entities(rows, labels)
    check_at_least(1, max_length=max_length)
    return _all_up_to(rows.lengths, 1 if kind == "token" else max_length)


def _all_up_to(lengths: Tensor, max_length: int) -> Tensor:
    """Every start with every stop at most ``max_length`` later."""
    number = torch.repeat_interleave(torch.arange(len(lengths)), lengths)  # (N,)
    start = torch.arange(int(lengths.sum())) - torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)
    stop = start.unsqueeze(1) + torch.arange(1, max_length + 1)  # (N, L)
    inside = stop <= lengths[number].unsqueeze(1)
    columns = (number.unsqueeze(1).expand_as(stop), start.unsqueeze(1).expand_as(stop), stop)
    return torch.stack([column[inside] for column in columns], 1)


def _entities(rows: Rows | RowParts, labels: LabelSet) -> Tensor:
    found: list[tuple[int, int, int]] = []
    for number, part in enumerate(rows.labels.split(rows.lengths.tolist())):
        for segment in segments(labels.decode(part.tolist()), labels.scheme):
            found.append((number, segment.start, segment.stop))
    return torch.tensor(found, dtype=torch.long).view(-1, 3)
