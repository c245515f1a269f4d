"""Marks as labels of tokens, and labels that have changed as edits of marks.

A mark is *aligned* if it begins where a token begins and ends where a token ends, and overlaps no longer aligned mark.
Only aligned marks become labels. The others are reported and stay in the file as they are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tagtrace.data.marked.marks import Mark, MarkEdit, MarkedText
from tagtrace.data.marked.tokens import Range, ends_at, sentence_ends, tokenise
from tagtrace.data.schemes import Segment, segments


@dataclass(frozen=True)
class Alignment:
    """A text with its tokens, and its marks as segments of them."""

    marked: MarkedText
    tokens: tuple[Range, ...]
    """Start and stop of each token in the text."""
    found: dict[tuple[int, int], Mark]
    """Aligned marks by their first token and the one behind their last."""
    twins: dict[tuple[int, int], list[Mark]]
    """Marks that repeat those, with the same label; they change together."""
    odd: tuple[str, ...]
    """What is wrong with each mark that is not aligned."""

    @classmethod
    def of(cls, marked: MarkedText) -> Alignment:
        tokens = tokenise(marked.text) if marked.tokens is None else marked.tokens
        starts = {start: number for number, (start, _) in enumerate(tokens)}
        stops = {stop: number + 1 for number, (_, stop) in enumerate(tokens)}
        found: dict[tuple[int, int], Mark] = {}
        twins: dict[tuple[int, int], list[Mark]] = {}
        odd, taken = list(marked.odd), [False] * len(tokens)
        for mark in sorted(marked.marks, key=lambda mark: mark.start - mark.stop):  # the longest first
            first, last = starts.get(mark.start), stops.get(mark.stop)
            if first is None or last is None or first >= last:
                odd.append(f"{_named(marked, mark)} does not begin and end with tokens; it is kept as it is")
            elif (first, last) in found and found[first, last].label == mark.label:
                twins.setdefault((first, last), []).append(mark)
            elif any(taken[first:last]):
                odd.append(f"{_named(marked, mark)} overlaps another one; it is kept as it is")
            else:
                found[first, last] = mark
                taken[first:last] = [True] * (last - first)
        return cls(marked, tokens, found, twins, tuple(odd))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """IOB2 labels of the tokens."""
        labels = ["O"] * len(self.tokens)
        for (first, last), mark in self.found.items():
            labels[first:last] = [f"B-{mark.label}", *[f"I-{mark.label}"] * (last - first - 1)]
        return tuple(labels)

    @cached_property
    def lines(self) -> tuple[int, ...]:
        """The line of each token: that of its mark, or else of the text."""
        lines = [self.marked.line] * len(self.tokens)
        for (first, last), mark in self.found.items():
            lines[first:last] = [mark.line or self.marked.line] * (last - first)
        return tuple(lines)

    def sentences(self) -> Iterator[tuple[int, int]]:
        """The first token of each sentence and the one behind its last."""
        start, joined = 0, {number for first, last in self.found for number in range(first, last - 1)}
        own = self.marked.breaks
        text = self.marked.text
        for end in sentence_ends(text, self.tokens, joined) if own is None else ends_at(own, self.tokens, joined):
            yield start, end + 1
            start = end + 1

    def texts(self, first: int, last: int) -> tuple[str, ...]:
        """The texts of tokens."""
        return tuple(self.marked.text[start:stop] for start, stop in self.tokens[first:last])

    def edits(self, wanted: Sequence[str]) -> list[MarkEdit]:
        """What makes the marks spell the IOB2 labels ``wanted``, in the order of the text.

        A mark whose segment is gone becomes the new segment that it overlaps most, so that it keeps what else its
        file says about it; otherwise it is removed.
        """
        new = {(one.start, one.stop): one for one in segments(wanted, "iob2")}
        gone = {place: mark for place, mark in self.found.items() if not _is_same(mark, new.get(place))}
        added = {place: self._mark(one) for place, one in new.items() if not _has(self.found, place, one)}
        edits, places = list[MarkEdit](), sorted(added)
        for place, mark in gone.items():
            near = [each for each in _overlapping(places, place) if each in added]
            nearest = max(near, key=lambda each: _overlap(each, place), default=None)
            new_mark = None if nearest is None else added.pop(nearest)
            edits += [MarkEdit(each, new_mark) for each in (mark, *self.twins.get(place, ()))]
        edits += [MarkEdit(None, mark) for mark in added.values()]
        return sorted(edits, key=_start)

    def _mark(self, segment: Segment) -> Mark:
        return Mark(self.tokens[segment.start][0], self.tokens[segment.stop - 1][1], segment.type)


def _named(marked: MarkedText, mark: Mark) -> str:
    shown = marked.text[mark.start : mark.stop]
    line = f", line {mark.line}" if mark.line else ""
    return f"the {mark.label} {shown[:40]!r} (characters {mark.start} to {mark.stop}{line})"


def _is_same(mark: Mark, segment: Segment | None) -> bool:
    return segment is not None and segment.type == mark.label


def _has(found: dict[tuple[int, int], Mark], place: tuple[int, int], segment: Segment) -> bool:
    return place in found and found[place].label == segment.type


def _overlapping(places: Sequence[Range], place: Range) -> Iterator[Range]:
    """Those of the sorted ``places``, none of which overlap, that overlap ``place``."""
    for number in range(max(bisect_right(places, place) - 1, 0), len(places)):
        if places[number][0] >= place[1]:
            return
        if places[number][1] > place[0]:
            yield places[number]


def _overlap(one: Range, other: Range) -> int:
    return min(one[1], other[1]) - max(one[0], other[0])


def _start(edit: MarkEdit) -> int:
    mark = edit.old or edit.new
    assert mark is not None
    return mark.start
