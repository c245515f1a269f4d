"""Ragged sentences as rows, one row a token, and as padded batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace.tagger.scores import length_mask


@dataclass(frozen=True)
class Rows:
    """Features (N, D) of ragged sentences one after the other, their labels (N,) and lengths (B,)."""

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
        """The same sentences, shortest first: chunks then hold sentences of like length and waste no step."""
        order = self.lengths.argsort(stable=True)
        starts = self.lengths.cumsum(0) - self.lengths  # (B,)
        lengths = self.lengths[order]
        index = torch.repeat_interleave(starts[order], lengths) + positions(lengths)  # (N,)
        features = self.features[index.to(self.features.device)]
        return Rows(features, self.labels[index.to(self.labels.device)], lengths)


def positions(lengths: Tensor) -> Tensor:
    """The position of each token in its sentence, (N,).

    >>> positions(torch.tensor([2, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    return torch.arange(int(lengths.sum())) - torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)


def token_places(lengths: Tensor, sentences: Tensor) -> Tensor:
    """The rows of the tokens of ``sentences`` (b,) where all sentences have ``lengths`` (B,), (n,)."""
    starts, some = (lengths.cumsum(0) - lengths)[sentences], lengths[sentences]
    return torch.repeat_interleave(starts, some) + positions(some)


def pad_rows(rows: Tensor, lengths: Tensor) -> Tensor:
    """Rows (N, ...) of ragged sentences as (B, T, ...), zeros after each sentence's length."""
    num_steps = int(lengths.max())
    index = length_mask(lengths, num_steps).flatten().nonzero().squeeze(1).to(rows.device)  # (N,)
    padded = rows.new_zeros(len(lengths) * num_steps, *rows.shape[1:])
    return padded.index_copy(0, index, rows).view(len(lengths), num_steps, *rows.shape[1:])


def unpad_rows(padded: Tensor, lengths: Tensor) -> Tensor:
    """The other way: (B, T, ...) to the real rows (N, ...)."""
    return padded[length_mask(lengths, padded.shape[1], padded.device)]
