"""Segments of one length together: what their scores need apart from the direction, computed once (``screen``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from tagtrace.tagger.convex.chains import make_chain
from tagtrace.tagger.convex.objective import logits
from tagtrace.tagger.convex.products import row_norms
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import Rows

CELLS = 2**22
"""Maximum number of values (segments x tokens x labels) of segments that are taken together."""


@dataclass(frozen=True)
class SameLength:
    """Segments of one part, all of L tokens: what their scores need apart from the direction."""

    places: Tensor
    """(S,): their numbers among all segments."""
    tokens: Tensor
    """(S, L): rows of the part."""
    labels: Tensor
    """(S, L)"""
    before: Tensor
    after: Tensor
    """(S,): the labels on either side; C at an end of the sentence."""
    errors: Tensor
    """(S, L, C)"""
    left: Tensor
    right: Tensor
    """(S, L - 1, C): the edge marginals are left_i M_ij right_j."""
    reach: Tensor
    """(S, C): how far a direction can move each: sum_t |e_t(c)| |f_t| for the labels c but the first, and, in the first
    column, 2 sum_t sum_c |e_t(c)|."""
    matrix: Tensor
    """M (C, C)"""

    def select(self, which: Tensor) -> SameLength:
        """The segments ``which`` (k,)."""
        names = [field.name for field in fields(self) if field.name != "matrix"]
        return replace(self, **{name: getattr(self, name)[which] for name in names})


def same_lengths(head: Head, part: Rows, places: Tensor, segments: Tensor, dtype: torch.dtype) -> Iterator[SameLength]:
    """Segments (S, 3) of ``part``, numbered ``places`` (S,), grouped by their length, a bounded number at a time."""
    device, C = part.features.device, head.num_labels
    head = head.to(device) if head.weight.device != device else head
    emissions = logits(part.features, head.weight.detach())  # (n, C)
    sizes = row_norms(part.features, torch.float32).square().add(1.0).sqrt()  # |f_t|, (n,)
    starts = part.lengths.cumsum(0) - part.lengths
    lengths = segments[:, 2] - segments[:, 1]
    for L in lengths.unique().tolist():
        for chosen in (lengths == L).nonzero().squeeze(1).split(max(CELLS // (L * C), 1)):
            some = segments[chosen]
            first = starts[some[:, 0]] + some[:, 1]  # (S,)
            tokens = (first.unsqueeze(1) + torch.arange(L)).to(device)  # (S, L)
            is_first, is_last = some[:, 1] == 0, some[:, 2] == part.lengths[some[:, 0]]
            labels = part.labels.long()
            before = torch.where(is_first.to(device), C, labels[(tokens[:, 0] - 1).clamp(min=0)])
            after = torch.where(is_last.to(device), C, labels[(tokens[:, -1] + 1).clamp(max=len(labels) - 1)])
            yield _same_length(head, places[chosen], emissions, sizes, tokens, labels[tokens], before, after, dtype)


def _same_length(
    head: Head,
    places: Tensor,
    emissions: Tensor,
    sizes: Tensor,
    tokens: Tensor,
    labels: Tensor,
    before: Tensor,
    after: Tensor,
    dtype: torch.dtype,
) -> SameLength:
    edges, start, end = (part.detach() for part in head.edge_scores())
    window = emissions[tokens]  # (S, L, C)
    window[:, 0] += torch.cat([edges, start.unsqueeze(0)])[before]
    window[:, -1] += torch.cat([edges.T, end.unsqueeze(0)])[after]
    S, L, C = window.shape
    chain = make_chain(head, window.flatten(0, 1), torch.full((S,), L), has_ends=False)
    others = chain.nodes.view(S, L, C).scatter(2, labels.unsqueeze(2), 0.0)
    errors = others.scatter(2, labels.unsqueeze(2), -others.sum(2, keepdim=True))  # exact even if p(y) rounds to 1
    left, right, matrix = chain.edge_factors()  # (S L, C) each, (C, C)
    left, right = left.view(S, L, C)[:, :-1], right.view(S, L, C)[:, 1:]
    amounts = errors.abs()
    reach = (amounts * sizes[tokens].unsqueeze(2)).sum(1)  # (S, C)
    reach[:, 0] = 2.0 * amounts.sum((1, 2))
    values = (part.to(dtype).contiguous() for part in (errors, left, right, reach, matrix))
    return SameLength(places, tokens, labels, before, after, *values)
