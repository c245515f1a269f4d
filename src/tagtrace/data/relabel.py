"""Finding the smallest set of labels in a file that must change to give other segments.

The file is streamed again. Sentences are found in it by the lines of their tokens, so they may have been joined into
documents since. A segment that crosses the end of a sentence of the file is cut there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from tagtrace._checks import DataError, at
from tagtrace.data.corpus import Corpus, normalise_row, open_reader, open_source
from tagtrace.data.schemes import ROLES, LabelError, denormalise, normalise, segments, violations
from tagtrace.data.sentence import Segment, Sentence
from tagtrace.data.source import Row


def relabel(raw: Sequence[str], wanted: Sequence[str], scheme: str) -> tuple[str, ...]:
    """``raw`` labels of a file, changed to spell the segments of the normalised ``wanted`` ones.

    Segments that do not change keep their labels exactly, unless the result would then give other segments or break
    the scheme in more places than before.

    >>> relabel(["I-PER", "O", "B-LOC"], ["B-ORG", "O", "B-LOC"], "iob1")
    ('I-ORG', 'O', 'B-LOC')
    """
    if scheme not in ROLES:
        return tuple(wanted)
    new = denormalise(wanted, scheme)
    old_segments, new_segments = segments(raw, scheme), segments(wanted, "iob2")
    if old_segments == new_segments:
        return tuple(raw)
    stays = _segment_of_each_token(old_segments, len(raw)), _segment_of_each_token(new_segments, len(raw))
    mixed = tuple([old if a == b else new_ for a, b, old, new_ in zip(*stays, raw, new, strict=True)])
    reads_right = segments(mixed, scheme) == new_segments
    breaks_more = len(violations(mixed, scheme)) > len(violations(raw, scheme))
    return mixed if reads_right and not breaks_more else new


def _segment_of_each_token(found: Sequence[Segment], length: int) -> list[Segment | None]:
    owners: list[Segment | None] = [None] * length
    for segment in found:
        owners[segment.start : segment.stop] = [segment] * (segment.stop - segment.start)
    return owners


def in_scheme(labels: Sequence[str], scheme: str) -> tuple[str, ...]:
    """Predicted labels in a file's scheme; unchanged if that scheme is a normalised one."""
    return denormalise(labels, scheme) if scheme in ROLES and scheme != "iob2" else tuple(labels)


class WantedLabels:
    """The labels that a corpus should have, handed out row by row in the order of the file."""

    def __init__(self, corpus: Corpus, labels: Sequence[Sequence[str]]) -> None:
        self._path = corpus.path
        sentences = [
            (sentence, self._checked(sentence, wanted))
            for sentence, wanted in zip(corpus.sentences, labels, strict=True)
            if len(sentence)
        ]
        sentences.sort(key=lambda pair: pair[0].lines[0])
        self._pairs = chain.from_iterable(zip(s.lines, wanted, strict=True) for s, wanted in sentences)
        self._next = next(self._pairs, None)

    def _checked(self, sentence: Sentence, wanted: Sequence[str]) -> Sequence[str]:
        if len(wanted) != len(sentence) or len(sentence.lines) != len(sentence):
            raise DataError(
                f"{at(self._path)}: sentence {sentence.id!r} has {len(sentence)} tokens, {len(wanted)} labels "
                f"and {len(sentence.lines)} line numbers; give each token one of each"
            )
        return wanted

    def take(self, row: Row) -> list[str] | None:
        """One label for each token of the row, or None if the corpus does not have the row."""
        taken: list[str] = []
        for line in row.lines:
            if self._next is not None and self._next[0] == line:
                taken.append(self._next[1])
                self._next = next(self._pairs, None)
        if taken and len(taken) != len(row.lines):
            raise DataError(
                f"{at(self._path, row.lines[0])}: found labels for {len(taken)} of the {len(row.lines)} tokens "
                "of this sentence; keep or drop whole sentences"
            )
        return taken or None

    def check_all_taken(self) -> None:
        """Raise if labels are left over: their lines have no token, or one that was given a label already."""
        if self._next is not None:
            raise DataError(
                f"{at(self._path, self._next[0])}: found a label without a token, or a second label for the "
                "same token; keep each sentence of the file once"
            )


def wanted_rows(corpus: Corpus, labels: Sequence[Sequence[str]]) -> Iterator[tuple[Row, list[str] | None]]:
    """Each row of the file with the labels it should have (None: keep its labels)."""
    wanted = WantedLabels(corpus, labels)
    for row in open_reader(open_source(corpus.path), corpus.options):
        yield row, wanted.take(row)
    wanted.check_all_taken()


def changed_labels(corpus: Corpus) -> Iterator[tuple[int, dict[int, str]]]:
    """The lines whose labels differ from the corpus, each with its new labels by their position in the line."""
    for row, wanted in wanted_rows(corpus, [sentence.labels for sentence in corpus.sentences]):
        if wanted is None or tuple(wanted) == normalise_row(row, corpus.scheme, corpus.path):
            continue
        new = _relabel_row(row, wanted, corpus.scheme, corpus.path)
        places = _places_in_lines(row.lines)
        changes: dict[int, dict[int, str]] = {}
        for line, place, old_label, new_label in zip(row.lines, places, row.labels, new, strict=True):
            if old_label != new_label:
                changes.setdefault(line, {})[place] = new_label
        yield from changes.items()


def _relabel_row(row: Row, wanted: Sequence[str], scheme: str, path: Path) -> tuple[str, ...]:
    try:
        return relabel(row.labels, normalise(wanted, "iob2" if scheme in ROLES else scheme), scheme)
    except LabelError as error:
        raise DataError(f"{at(path, row.lines[error.index])}: the new {error}") from None


def _places_in_lines(lines: Sequence[int]) -> Iterator[int]:
    """For each token, how many tokens of its row precede it in the same line.

    >>> list(_places_in_lines([3, 4, 5])), list(_places_in_lines([3, 3, 3]))
    ([0, 0, 0], [0, 1, 2])
    """
    place = 0
    for previous, line in zip([None, *lines[:-1]], lines, strict=True):
        place = place + 1 if previous == line else 0
        yield place
