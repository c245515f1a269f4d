"""Places: what a reviewer looks at in one decision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from tagtrace.data import Sentence, segments


@dataclass(frozen=True, slots=True)
class Place:
    """Tokens ``start:stop`` of a training sentence; a finding will do as well."""

    sentence_number: int
    start: int
    stop: int
    proposed: tuple[str, ...] = ()
    """A label for each of the tokens, if there is a proposal."""


def places_of(sentences: Sequence[Sentence], rows: Iterable[int], most: int) -> list[Place]:
    """The first ``most`` different places of tokens, which are given by their rows: the labelled segment, or the token.

    >>> places_of([Sentence(("a", "b", "c"), ("O", "B-X", "I-X"))], [2, 1, 0], 5)[0].start
    1
    """
    firsts = np.array([0, *accumulate(map(len, sentences))])

    def place(row: int) -> Place:
        number = int(np.searchsorted(firsts, row, side="right")) - 1
        return Place(number, *segment_of(sentences[number], row - int(firsts[number])))

    places = dict[Place, None]()
    for row in rows:
        if len(places) == most:
            break
        places[place(row)] = None
    return list(places)


def segment_of(sentence: Sentence, token: int) -> tuple[int, int]:
    """Start and stop of the labelled segment of a token, or of the token alone."""
    for segment in segments(sentence.labels, "iob2"):
        if segment.start <= token < segment.stop:
            return segment.start, segment.stop
    return token, token + 1


def widened(start: int, stop: int, *labellings: Sequence[str]) -> tuple[int, int]:
    """The smallest stretch around ``start:stop`` that cuts no segment of these labellings in IOB2.

    Labels of the stretch can be taken from either of two labellings, and the result is well-formed.

    >>> widened(0, 1, ("B-X", "I-X", "O", "O"), ("O", "B-X", "I-X", "O"))
    (0, 3)
    """
    found = [one for labels in labellings for one in segments(labels, "iob2")]
    while True:
        cut = [one for one in found if one.start < stop and start < one.stop]
        wider = min([start, *(one.start for one in cut)]), max([stop, *(one.stop for one in cut)])
        if wider == (start, stop):
            return wider
        start, stop = wider
