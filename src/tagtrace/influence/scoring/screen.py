"""Screen: the first-order influence of every training segment, in one pass.

    influence(k) = g_q^T K^-1 g_k / N = V . grad CL(z_k) / N,   V = K^-1 g_q

**Sign.** Positive = supporter: removing that training label would raise the query's loss. (The paper's I
is the derivative under up-weighting, so I = -N times ours; its "exact influence" has our sign.)

V . grad CL is the derivative of a segment's conditional loss when its logits move by B V: errors times moved logits, so
no gradient of P numbers is formed. With edge marginals p_ij inside the segment, whose labels are y,

    V . g = sum_t e_t . (V_W f_t) + e_a . V_A[y_{a-1}, :] + e_{b-1} . V_A[:, y_b]
            + sum over edges inside of sum_ij p_ij (V_A[i, j] - V_A[y_{t-1}, y_t]).

Errors and edge marginals do not depend on the query. They are computed once, for segments of one length together, and
kept if they fit into ``KEEP`` bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace.tagger.convex.chains import make_chain
from tagtrace.tagger.convex.objective import logits
from tagtrace.tagger.convex.products import compiled_loops
from tagtrace.tagger.convex.threads import share
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import RowParts, Rows

KEEP = 2**30
"""Maximum size in bytes of the factors that are kept between questions."""
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
    matrix: Tensor
    """M (C, C)"""


class Screen:
    """Scores segments (S, 3) of the ``training`` data under ``head`` (float64), in ``dtype``."""

    head: Head
    training: Rows | RowParts
    segments: Tensor
    num_sentences: int
    dtype: torch.dtype

    def __init__(
        self, head: Head, training: Rows | RowParts, segments: Tensor, dtype: torch.dtype = torch.float64
    ) -> None:
        self.head, self.training, self.segments, self.dtype = head, training, segments, dtype
        self.num_sentences = len(training.lengths)
        self._parts = (training,) if isinstance(training, Rows) else training.parts
        self._kept: dict[int, list[SameLength]] = {}

    def influence(self, directions: Tensor) -> Tensor:
        """V . grad CL / N for directions V (Q, P) and every segment, (Q, S)."""
        return self.products(directions) / self.num_sentences

    @torch.no_grad()
    def products(self, directions: Tensor) -> Tensor:
        """V . grad CL for directions V (Q, P) and every segment, (Q, S)."""
        out = torch.zeros(len(directions), len(self.segments), dtype=torch.float64)
        scale = directions.abs().amax(1).clamp(min=1e-300).cpu()  # certain queries underflow in float32
        tables = [_Direction(self.head, one / one.abs().max().clamp(min=1e-300), self.dtype) for one in directions]
        for number, part in enumerate(self._parts):
            groups = self._groups(number)
            moved = [table.moved(part.features) for table in tables]  # (n, C) each
            for group in groups:
                for q, table in enumerate(tables):
                    out[q, group.places] = table.products(moved[q], group).double().cpu()
        return out * scale.unsqueeze(1)

    def _groups(self, number: int) -> list[SameLength] | Iterator[SameLength]:
        """The segments of a part, by length."""
        if number in self._kept:
            return self._kept[number]
        first = sum(len(part.lengths) for part in self._parts[:number])
        part, sentence = self._parts[number], self.segments[:, 0]
        places = ((sentence >= first) & (sentence < first + len(part.lengths))).nonzero().squeeze(1)
        local = self.segments[places] - torch.tensor([first, 0, 0])
        found = same_lengths(self.head, part, places, local, self.dtype)
        num_values = int((self.segments[:, 2] - self.segments[:, 1]).sum()) * 3 * self.head.num_labels
        if num_values * self.dtype.itemsize > KEEP:
            return found
        self._kept[number] = list(found)
        return self._kept[number]


def same_lengths(head: Head, part: Rows, places: Tensor, segments: Tensor, dtype: torch.dtype) -> Iterator[SameLength]:
    """Segments (S, 3) of ``part``, numbered ``places`` (S,), grouped by their length, a bounded number at a time."""
    device, C = part.features.device, head.num_labels
    head = head.to(device) if head.weight.device != device else head
    emissions = logits(part.features, head.weight.detach())  # (n, C)
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
            yield _same_length(head, places[chosen], emissions, tokens, labels[tokens], before, after, dtype)


def _same_length(
    head: Head,
    places: Tensor,
    emissions: Tensor,
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
    values = (part.to(dtype).contiguous() for part in (errors, left, right, matrix))
    return SameLength(places, tokens, labels, before, after, *values)


class _Direction:
    """A direction V (P,) as tables for the products with segments."""

    def __init__(self, head: Head, direction: Tensor, dtype: torch.dtype) -> None:
        parts = head.unflatten(direction)
        zero = torch.zeros_like(direction)[: head.num_labels]
        edges = parts.get("transitions", torch.zeros_like(head.transitions))
        start, end = parts.get("start", zero), parts.get("end", zero)
        self.weight, self.edges = parts["weight"].to(dtype), edges.to(dtype).contiguous()
        self.into = torch.cat([edges, start.unsqueeze(0)]).to(dtype)  # (C + 1, C): by the label before
        self.out_of = torch.cat([edges.T, end.unsqueeze(0)]).to(dtype).contiguous()  # by the label after

    def moved(self, features: Tensor) -> Tensor:
        """V_W f minus that of the first label, (n, C)."""
        return logits(features, self.weight.to(features.device))

    def products(self, moved: Tensor, group: SameLength) -> Tensor:
        """V . g, (S,)."""
        if moved.device.type == "cpu" and compiled_loops() is not None:
            return self._compiled(moved, group)
        into, out_of, edges = (part.to(moved.device) for part in (self.into, self.out_of, self.edges))
        total = (group.errors * moved[group.tokens]).sum((1, 2))
        total += (group.errors[:, 0] * into[group.before]).sum(1)
        total += (group.errors[:, -1] * out_of[group.after]).sum(1)
        if group.left.shape[1]:
            given = edges[group.labels[:, :-1], group.labels[:, 1:]]  # (S, L - 1)
            expected = ((group.left @ (group.matrix * edges)) * group.right).sum(2)
            total += (expected - given * ((group.left @ group.matrix) * group.right).sum(2)).sum(1)
        return total

    def _compiled(self, moved: Tensor, group: SameLength) -> Tensor:
        loops, out = compiled_loops(), moved.new_empty(len(group.places))
        assert loops is not None
        each = (group.tokens, group.errors, group.left, group.right, group.labels, group.before, group.after)
        tables = [part.numpy() for part in (self.into, self.out_of, self.edges, group.matrix)]
        x, result, arrays = moved.numpy(), out.numpy(), [part.numpy() for part in each]

        def fill(some: range) -> None:
            part = slice(some.start, some.stop)
            loops.score_segments(x, *(array[part] for array in arrays), *tables, result[part])

        share(fill, len(out))
        return out
