"""Writing marked texts back with the marks that changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from tagtrace._checks import DataError, at
from tagtrace._files import copy_file, file_moved_when_whole
from tagtrace.data.marked.alignment import Alignment
from tagtrace.data.marked.marks import Edits, MarkedFormat, MarkEdit, MarkedText
from tagtrace.data.options import ReadOptions
from tagtrace.data.source import SourceFile, compressed

if TYPE_CHECKING:
    from tagtrace.data.corpus import Corpus


def write_marked(kind: MarkedFormat, corpus: Corpus, target: str | Path) -> int:
    """Write a corpus of marked texts to ``target`` with the marks that its labels ask for.

    Returns the number of tokens whose label changed. Texts without a change stay as they are.
    """
    source = SourceFile(corpus.path)
    data = b"".join(source)
    edits, num_changed = edits_of(kind.texts(source, data, corpus.options), corpus)
    if not edits:
        copy_file(corpus.path, target)
    else:
        _write(source, _edited(kind, source, data, corpus.options, edits), target)
    return num_changed


def edits_of(texts: Iterable[MarkedText], corpus: Corpus) -> tuple[Edits, int]:
    """What makes the marks of all texts of a corpus's file spell its labels, and how many tokens change."""
    labels, offset, num_changed = labels_by_token(corpus), 0, 0
    edits: dict[int, Sequence[MarkEdit]] = {}
    for number, marked in enumerate(texts):
        alignment = Alignment.of(marked)
        given = alignment.labels
        wanted = [new or old for new, old in zip_longest(labels[offset : offset + len(given)], given)]
        offset += len(given)
        if found := alignment.edits(wanted):
            edits[number] = found
            num_changed += sum(new != old for new, old in zip(wanted, given, strict=True))
    return edits, num_changed


def _edited(kind: MarkedFormat, source: SourceFile, data: bytes, options: ReadOptions, edits: Edits) -> bytes:
    try:
        return kind.edited(source, data, options, edits)
    except RecursionError:  # just not too deep for reading, which ran with more room
        raise DataError(f"{at(source.path)}: a value is too deep to be written back; flatten it") from None


def labels_by_token(corpus: Corpus) -> list[str | None]:
    """The labels of all tokens of the file, by their number; None where the corpus has no sentence."""
    stop = max((one.offset + len(one) for one in corpus.sentences), default=0)
    labels: list[str | None] = [None] * stop
    for sentence in corpus.sentences:
        if sentence.offset < 0 or not sentence.is_labelled:
            raise DataError(
                f"{at(corpus.path)}: {sentence.id!r} has no labels, or not all its sentences; give whole documents"
            )
        labels[sentence.offset : sentence.offset + len(sentence)] = sentence.labels
    return labels


def _write(source: SourceFile, data: bytes, target: str | Path) -> None:
    with file_moved_when_whole(target, source=source.path) as stream, compressed(stream, source.is_gzip) as out:
        out.write(data)
