"""Which training segments are scored: tokens, labelled entities, all segments up to a length, whole chains."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.data.labels import LabelSet
from tagtrace.data.schemes import segments
from tagtrace.tagger.rows import Rows

Kind = Literal["token", "entity", "segment", "chain"]


def candidates(rows: Rows, labels: LabelSet, kind: Kind, max_length: int = 3) -> Tensor:
    """(chain, start, stop) of every training segment of a kind, (S, 3), in the order of the data.

    ``entity``: labelled segments, as the scheme reads them. ``segment``: all of at most ``max_length`` tokens.
    ``chain``: whole sentences (or documents), for the influence of instances.
    """
    if kind not in get_args(Kind):
        raise OptionError(f"segments {kind!r}: expected one of {', '.join(get_args(Kind))}")
    if kind == "chain":
        chains = torch.arange(len(rows.lengths))
        return torch.stack([chains, torch.zeros_like(chains), rows.lengths], 1)
    if kind == "entity":
        return _entities(rows, labels)
    if max_length < 1:
        raise OptionError(f"max_length {max_length}: must be at least 1")
    return _all_up_to(rows.lengths, 1 if kind == "token" else max_length)


def _all_up_to(lengths: Tensor, max_length: int) -> Tensor:
    """Every start with every stop at most ``max_length`` later."""
    chain = torch.repeat_interleave(torch.arange(len(lengths)), lengths)  # (N,)
    start = torch.arange(int(lengths.sum())) - torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)
    stop = start.unsqueeze(1) + torch.arange(1, max_length + 1)  # (N, L)
    inside = stop <= lengths[chain].unsqueeze(1)
    columns = (chain.unsqueeze(1).expand_as(stop), start.unsqueeze(1).expand_as(stop), stop)
    return torch.stack([column[inside] for column in columns], 1)


def _entities(rows: Rows, labels: LabelSet) -> Tensor:
    found: list[tuple[int, int, int]] = []
    for chain, part in enumerate(rows.labels.split(rows.lengths.tolist())):
        for segment in segments(labels.decode(part.tolist()), labels.scheme):
            found.append((chain, segment.start, segment.stop))
    return torch.tensor(found, dtype=torch.long).view(-1, 3)
