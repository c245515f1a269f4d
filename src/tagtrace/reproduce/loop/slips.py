"""Slips: single mistakes of an annotator, put into sentences until a given share of the tokens is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from tagtrace.data import Segment, Sentence, segments
from tagtrace.reproduce.experiments.noise_fresh import iob2_labels

WEAK_LENGTH = 3
"""Tokens of at most this many characters are weak."""

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Mention:
    """A true segment and its text."""

    number: int
    """The number of its sentence."""
    segment: Segment
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Slip:
    """Tokens ``start:stop`` of a sentence, which cut no true segment, and the segments that they are given instead."""

    number: int
    start: int
    stop: int
    given: tuple[Segment, ...]

    @classmethod
    def of(cls, number: int, true: Sequence[Segment], given: Sequence[Segment]) -> Slip:
        """``given`` segments instead of the ``true`` ones; all tokens of both are in the stretch."""
        both = [*true, *given]
        return cls(number, min(one.start for one in both), max(one.stop for one in both), tuple(given))

    def labels(self) -> list[str]:
        """The labels of the tokens ``start:stop``."""
        moved = [replace(one, start=one.start - self.start, stop=one.stop - self.start) for one in self.given]
        return iob2_labels(moved, self.stop - self.start)


def find_mentions(sentences: Sequence[Sentence]) -> list[Mention]:
    """All segments, in the order of the data."""
    return [
        Mention(number, one, sentence.tokens[one.start : one.stop])
        for number, sentence in enumerate(sentences)
        for one in segments(sentence.labels, "iob2")
    ]


def make_slips(sentences: Sequence[Sentence], slips: Iterable[Slip], share: float) -> list[Sentence]:
    """The sentences with slips, taken in their order until ``share`` of all tokens are wrong.

    A slip is left out if it overlaps an earlier one.
    """
    num_left = round(share * sum(map(len, sentences)))
    labels = {number: list(sentence.labels) for number, sentence in enumerate(sentences)}
    touched: set[tuple[int, int]] = set()
    for slip in slips:
        if num_left <= 0:
            break
        tokens = {(slip.number, t) for t in range(slip.start, slip.stop)}
        if touched.isdisjoint(tokens):
            touched |= tokens
            new, place = slip.labels(), slice(slip.start, slip.stop)
            num_left -= sum(a != b for a, b in zip(labels[slip.number][place], new, strict=True))
            labels[slip.number][place] = new
    return [sentence.with_labels(labels[number]) for number, sentence in enumerate(sentences)]


def share_wrong(noisy: Sequence[Sentence], true: Sequence[Sentence]) -> float:
    """The share of tokens whose labels differ."""
    pairs = [pair for a, b in zip(noisy, true, strict=True) for pair in zip(a.labels, b.labels, strict=True)]
    return sum(given != right for given, right in pairs) / max(len(pairs), 1)


def by_weight(items: Sequence[_Item], weights: Sequence[float], random: Random) -> list[_Item]:
    """All items in random order, each next with a probability proportional to its weight among those left.

    The times of independent exponential clocks with these rates are in such an order.
    """
    times = [random.expovariate(weight) for weight in weights]
    return [items[number] for number in sorted(range(len(items)), key=times.__getitem__)]


def document_keys(sentences: Sequence[Sentence]) -> list[str]:
    """A name for the document of each sentence; a sentence without a document is one of its own."""
    return [one.document or f" {number}" for number, one in enumerate(sentences)]


def is_weak(token: str) -> bool:
    """Whether annotators disagree on such a token at the edge of a segment: determiners, prepositions, titles.

    >>> is_weak("the"), is_weak("Dr."), is_weak("Varnholt")
    (True, True, False)
    """
    return len(token) <= WEAK_LENGTH or not token[:1].isupper()


def is_free(sentence: Sentence, t: int) -> bool:
    """Whether there is a token at this position, outside all segments."""
    return 0 <= t < len(sentence) and sentence.labels[t] == "O"
