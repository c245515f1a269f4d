"""Screen: the first-order influence of every training segment, in one pass.

    influence(k) = g_q^T K^-1 g_k / N = V . grad CL(z_k) / N,   V = K^-1 g_q

**Sign.** Positive = supporter: removing that training label would raise the query's loss. (The paper's I
is the derivative under up-weighting, so I = -N times ours; its "exact influence" has our sign.)

V . grad CL is the derivative of a segment's conditional loss when its logits move by B V: errors times moved logits, so
no gradient of P numbers is formed. With edge marginals p_ij inside the segment, whose labels are y,

    V . g = sum_t e_t . (V_W f_t) + e_a . V_A[y_{a-1}, :] + e_{b-1} . V_A[:, y_b]
            + sum over edges inside of sum_ij p_ij (V_A[i, j] - V_A[y_{t-1}, y_t]).

Errors and edge marginals do not depend on the query. They are computed once, for segments of one length together, and
kept if they fit into ``KEEP`` bytes. Where only the strongest are asked for, segments are left out whose errors are so
small that V cannot move them enough,

    |V . g| <= sum_c |V_W[c] - V_W[0]| sum_t |e_t(c)| |f_t| + 2 max |V_A| sum_t |e_t|_1,

because each error is on two edges, and an edge inside moves by at most the errors at its ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cached_property

import torch
from torch import Tensor

from tagtrace.influence.scoring.same_length import SameLength, same_lengths
from tagtrace.tagger.convex.objective import logits
from tagtrace.tagger.convex.products import by_loops, compiled_loops
from tagtrace.tagger.convex.threads import share
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import RowParts, Rows

KEEP = 2**30
"""Maximum size in bytes of the factors that are kept between questions."""
NUM_LEADING = 2048
"""Number of segments, those with the largest errors, that are scored first: others that cannot be stronger than the
strongest of them are left out."""
MOST = 0.5
"""Share of segments or tokens above which all of them are computed, because choosing them takes as long."""
ROUNDING = 1e-5
"""A score may be computed in another order the second time; this share of it is no difference."""
SLACK = 1.001
"""Bounds are a little too large, so that rounding cannot make one too small."""


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

    @torch.no_grad()
    def strong_products(self, direction: Tensor, which: Tensor, top: int) -> tuple[Tensor, Tensor]:
        """V . grad CL for V (P,) and those of the segments ``which`` (k,) that may be among the ``top`` of either side.

        Their numbers and values.
        """
        is_cpu = self._parts[0].features.device.type == "cpu"
        if not is_cpu or not self._fits or len(which) <= max(NUM_LEADING, top):
            return which, self.products(direction.unsqueeze(0))[0, which]
        size = float(direction.abs().max().clamp(min=1e-300))
        table = _Direction(self.head, direction / size, self.dtype)
        is_asked = None if len(which) == len(self.segments) else self._mask(which)
        leading = self._leading if is_asked is None else self._leading_of(which)

        def scan() -> tuple[Tensor, Tensor]:
            _, first = self._scored(table, leading, 0.0)
            return self._scored(table, self._every, floor_of(first, top) * (1.0 - ROUNDING), is_asked)

        found, values = by_loops(scan)
        return found, values * size

    def _scored(
        self, table: _Direction, groups: list[list[SameLength]], floor: float, is_asked: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The numbers and values of segments, in parts and groups, that are above ``floor`` on either side.

        Only those for which ``is_asked`` (S,) is True, if it is given.
        """
        numbers, values = list[Tensor](), list[Tensor]()
        for part, several in zip(self._parts, groups, strict=True):
            alive = [table.reached(group, floor, is_asked) for group in several]
            moved = table.moved_of(part.features, [group.tokens for group in alive])
            numbers += [group.places for group in alive]
            values += [table.products(moved, group).double().cpu() for group in alive]
        found, scores = torch.cat(numbers), torch.cat(values)
        is_strong = scores.abs() >= floor
        found, order = found[is_strong].sort()
        return found, scores[is_strong][order]

    @cached_property
    def _every(self) -> list[list[SameLength]]:
        """The segments of each part, by length."""
        return [list(self._groups(number)) for number in range(len(self._parts))]

    @cached_property
    def _total_reach(self) -> Tensor:
        found = torch.zeros(len(self.segments))
        for group in itertools.chain.from_iterable(self._every):
            found[group.places] = group.reach.sum(1).float().cpu()
        return found

    @cached_property
    def _leading(self) -> list[list[SameLength]]:
        return self._leading_of(torch.arange(len(self.segments)))

    def _leading_of(self, which: Tensor) -> list[list[SameLength]]:
        """Those of the segments ``which`` that have the largest errors."""
        is_leading = self._mask(which[self._total_reach[which].topk(NUM_LEADING).indices])
        return [[one.select(is_leading[one.places]) for one in several] for several in self._every]

    def _mask(self, which: Tensor) -> Tensor:
        """True for the segments ``which``, (S,)."""
        return torch.zeros(len(self.segments), dtype=torch.bool).index_fill(0, which, True)

    @cached_property
    def _fits(self) -> bool:
        """Whether what does not depend on the query is kept."""
        num_values = int((self.segments[:, 2] - self.segments[:, 1]).sum()) * 3 * self.head.num_labels
        return num_values * self.dtype.itemsize <= KEEP

    def _groups(self, number: int) -> list[SameLength] | Iterator[SameLength]:
        """The segments of a part, by length."""
        if number in self._kept:
            return self._kept[number]
        first = sum(len(part.lengths) for part in self._parts[:number])
        part, sentence = self._parts[number], self.segments[:, 0]
        places = ((sentence >= first) & (sentence < first + len(part.lengths))).nonzero().squeeze(1)
        local = self.segments[places] - torch.tensor([first, 0, 0])
        found = same_lengths(self.head, part, places, local, self.dtype)
        if not self._fits:
            return found
        self._kept[number] = list(found)
        return self._kept[number]


def floor_of(values: Tensor, top: int) -> float:
    """What a score of either side must reach to be among the ``top`` of that side, if there are no others."""
    return min(float(side.topk(min(top, len(side))).values[-1]) for side in (values, -values))


def _other_pairs(group: SameLength, table: Tensor) -> Tensor:
    """sum over pairs of labels (i, j) but the given ones of left_i T_ij right_j, (S, L - 1), without cancellation."""
    first, second = group.labels[:, :-1].unsqueeze(2), group.labels[:, 1:].unsqueeze(2)  # (S, L - 1, 1)
    others = ((group.left.scatter(2, first, 0.0) @ table) * group.right).sum(2)
    beside = group.left.gather(2, first) * table[group.labels[:, :-1]] * group.right.scatter(2, second, 0.0)
    return others + beside.sum(2)


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
        self.sizes = (self.weight - self.weight[:1]).norm(dim=1)  # (C,): what ``SameLength.reach`` is multiplied with
        self.sizes[0] = max(float(part.abs().max()) for part in (self.into, self.out_of))

    def moved(self, features: Tensor) -> Tensor:
        """V_W f minus that of the first label, (n, C)."""
        return logits(features, self.weight.to(features.device))

    def moved_of(self, features: Tensor, tokens: list[Tensor]) -> Tensor:
        """As ``moved``, (n, C), computed for some tokens only."""
        is_one = torch.zeros(len(features), dtype=torch.bool)
        for some in tokens:
            is_one[some] = True
        rows = is_one.nonzero().squeeze(1)
        if len(rows) > MOST * len(features):
            return self.moved(features)
        out = torch.empty(len(features), len(self.weight), dtype=self.weight.dtype)
        out[rows] = logits(features, self.weight, rows)
        return out

    def reached(self, group: SameLength, floor: float, is_asked: Tensor | None) -> SameLength:
        """The segments that are asked for and whose score may be above ``floor`` on either side.

        All that are asked for, if these are most of them.
        """
        is_reached = ~((group.reach @ self.sizes) * SLACK < floor)  # so that a bound that is not a number is kept
        if int(is_reached.sum()) > MOST * len(is_reached):
            is_reached = torch.ones_like(is_reached)
        if is_asked is not None:
            is_reached &= is_asked[group.places]
        return group if bool(is_reached.all()) else group.select(is_reached)

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
            total += (_other_pairs(group, group.matrix * edges) - given * _other_pairs(group, group.matrix)).sum(1)
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
