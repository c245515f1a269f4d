"""Ragged sentences as rows, one row per token, and as padded batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from tagtrace.tagger.scores import length_mask


@dataclass(frozen=True)
class Rows:
    """Concatenated features (N, D) of ragged sentences, their labels (N,) and lengths (B,)."""

    features: Tensor
    labels: Tensor
    lengths: Tensor

    def to(self, device: torch.device) -> Rows:
        """The same on another device; lengths stay on the CPU."""
        return Rows(self.features.to(device), self.labels.to(device), self.lengths)

    def sentence(self, number: int) -> Rows:
        """One sentence alone."""
        start = int(self.lengths[:number].sum())
        stop = start + int(self.lengths[number])
        return Rows(self.features[start:stop], self.labels[start:stop], self.lengths[number : number + 1])

    def take(self, sentences: Tensor) -> Rows:
        """Some sentences (b,), in this order."""
        places = token_places(self.lengths, sentences)
        features = self.features[places.to(self.features.device)]
        return Rows(features, self.labels[places.to(self.labels.device)], self.lengths[sentences])

    def chunks(self, max_tokens: int = 32_768) -> Iterator[Rows]:
        """Whole sentences in order, at most ``max_tokens`` tokens together (or one longer sentence)."""
        start = stop = 0
        batch: list[int] = []
        for length in self.lengths.tolist():
            if batch and stop - start + length > max_tokens:
                yield self._slice(start, stop, batch)
                start, batch = stop, []
            stop += length
            batch.append(length)
        if batch:
            yield self._slice(start, stop, batch)

    def _slice(self, start: int, stop: int, lengths: Sequence[int]) -> Rows:
        return Rows(self.features[start:stop], self.labels[start:stop], torch.tensor(lengths))

    def sorted_by_length(self) -> Rows:
        """The same sentences, shortest first: chunks then have sentences of similar length and little padding."""
        return self.take(self.lengths.argsort(stable=True))


@dataclass(frozen=True)
class RowParts:
    """Several ``Rows`` as one, without copying them: the shards of an index, memory-mapped or on a device."""

    parts: tuple[Rows, ...]

    @cached_property
    def lengths(self) -> Tensor:
        """(B,) of all sentences."""
        return torch.cat([part.lengths for part in self.parts])

    @cached_property
    def labels(self) -> Tensor:
        """(N,) of all tokens, on the CPU."""
        return torch.cat([part.labels.cpu().long() for part in self.parts])

    @cached_property
    def _firsts(self) -> list[int]:
        """The number of the first sentence of each part, and of all sentences."""
        counts = torch.tensor([0, *(len(part.lengths) for part in self.parts)])
        return counts.cumsum(0).tolist()

    @property
    def device(self) -> torch.device:
        return self.parts[0].features.device

    def to(self, device: torch.device) -> RowParts:
        """The same on a device; parts that are there already are not copied."""
        return RowParts(tuple(part.to(device) for part in self.parts))

    def joined(self) -> Rows:
        """All of them copied into one; a single part is returned as it is."""
        if len(self.parts) == 1:
            return self.parts[0]
        columns = ("features", "labels", "lengths")
        return Rows(*(torch.cat([getattr(part, name) for part in self.parts]) for name in columns))

    def sentence(self, number: int) -> Rows:
        """One sentence alone."""
        return self.take(torch.tensor([number]))

    def take(self, sentences: Tensor) -> Rows:
        """Some sentences (b,), in this order."""
        inside = [((sentences >= first) & (sentences < last)) for first, last in pairwise(self._firsts)]
        found = [
            part.take(sentences[mine] - first)
            for part, mine, first in zip(self.parts, inside, self._firsts[:-1], strict=True)
            if bool(mine.any())
        ]
        order = torch.cat([mine.nonzero().squeeze(1) for mine in inside])  # of the sentences found, among those asked
        joined = RowParts(tuple(found)).joined() if found else self.parts[0].take(sentences)
        return joined if bool((order.diff() > 0).all()) else joined.take(order.argsort())


def positions(lengths: Tensor) -> Tensor:
    """The position of each token in its sentence, (N,).

    >>> positions(torch.tensor([2, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    return torch.arange(int(lengths.sum())) - torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)


def token_places(lengths: Tensor, sentences: Tensor) -> Tensor:
    """The rows (n,) of the tokens of ``sentences`` (b,), where ``lengths`` (B,) are those of all sentences."""
    starts, some = (lengths.cumsum(0) - lengths)[sentences], lengths[sentences]
    return torch.repeat_interleave(starts, some) + positions(some)


def pad_rows(rows: Tensor, lengths: Tensor) -> Tensor:
    """Rows (N, ...) of ragged sentences as (B, T, ...), zeros after each sentence's length."""
    num_steps = int(lengths.max())
    index = length_mask(lengths, num_steps).flatten().nonzero().squeeze(1).to(rows.device)  # (N,)
    padded = rows.new_zeros(len(lengths) * num_steps, *rows.shape[1:])
    return padded.index_copy(0, index, rows).view(len(lengths), num_steps, *rows.shape[1:])


def unpad_rows(padded: Tensor, lengths: Tensor) -> Tensor:
    """The inverse of ``pad_rows``: (B, T, ...) to rows (N, ...)."""
    return padded[length_mask(lengths, padded.shape[1], padded.device)]
