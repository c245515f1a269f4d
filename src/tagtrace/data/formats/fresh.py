"""What a corpus is converted from: its documents as texts with marks, and as rows of tokens with labels.

A text with marked characters stays as it is, with all its marks. Tokens of other data are joined by single spaces, one
sentence in each line. A sentence without a document is a text of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from tagtrace._checks import at
from tagtrace.data.corpus import Corpus, open_source
from tagtrace.data.formats import FORMATS
from tagtrace.data.marked.alignment import Alignment
from tagtrace.data.marked.mark_edits import labels_by_token
from tagtrace.data.marked.marks import Mark, MarkedText
from tagtrace.data.relabel import in_scheme
from tagtrace.data.schemes import segments
from tagtrace.data.sentence import Sentence
from tagtrace.data.source import Row
from tagtrace.data.source_folder import SourceFolder


@dataclass(frozen=True)
class FreshText:
    """One document, or a sentence without one, as a format may write it: as a text with marks, or as rows."""

    name: str
    """The name of the document, or the id of the sentence."""
    text: str
    marks: tuple[Mark, ...]
    """Characters of ``text`` with labels, in its order. They may overlap, and begin or end inside tokens."""
    tokens: tuple[tuple[int, int], ...]
    """Start and stop of each token in ``text``: those of all ``rows``."""
    rows: tuple[Row, ...]
    """Its sentences, with ids, documents (``''`` without one) and labels in the scheme of the data, or none."""
    odd: tuple[str, ...] = ()
    """What was annotated but is neither a mark nor a label of a token, so it is lost."""

    def where(self, row: Row | None = None) -> str:
        """The place of a row, or of the text, for messages."""
        row = row or next(iter(self.rows), None)
        if row is None:
            return f"text {self.name!r}"
        line = row.lines[0] if row.lines else None
        return f"{at(row.path, line)}: sentence {row.id!r}" if row.path else f"sentence {row.id!r}"


def fresh_texts(corpus: Corpus) -> list[FreshText]:
    """All that a corpus has, to be written in another format."""
    if FORMATS[corpus.format].is_marked:
        whole = _whole_texts(corpus)
        if whole is not None:
            return whole
    return [_joined(name or f"text-{number}", group, corpus) for number, (name, group) in enumerate(_groups(corpus))]


def marked_texts(corpus: Corpus) -> Iterator[MarkedText]:
    """The texts of a corpus whose file has marked characters, as they are in the file."""
    source, kind = open_source(corpus.path), FORMATS[corpus.format].load()
    if isinstance(source, SourceFolder):
        return kind.texts(source, corpus.options)
    return kind.texts(source, b"".join(source), corpus.options)


def _whole_texts(corpus: Corpus) -> list[FreshText] | None:
    """The texts of a file with marked characters; None if the corpus has only parts of them."""
    sentences = sorted(corpus.sentences, key=lambda sentence: sentence.offset)
    if any(sentence.offset < 0 for sentence in sentences):
        return None
    labels = labels_by_token(corpus) if all(sentence.is_labelled for sentence in sentences) else []
    made, offset, place = list[FreshText](), 0, 0
    for number, marked in enumerate(marked_texts(corpus)):
        alignment, start = Alignment.of(marked), place
        stop = offset + len(alignment.tokens)
        while place < len(sentences) and sentences[place].offset < stop:
            place += 1
        members = sentences[start:place]
        if sum(map(len, members)) not in (0, len(alignment.tokens)):
            return None
        if members or not alignment.tokens:
            wanted = [label or "O" for label in labels[offset:stop]]
            name = members[0].document if members else marked.document or marked.id or f"text-{number}"
            marks = _edited(marked, alignment, wanted) if labels else ()
            rows = tuple(_row(one, corpus) for one in members)
            made.append(FreshText(name, marked.text, marks, alignment.tokens, rows, marked.odd))
        offset = stop
    return made


def _edited(marked: MarkedText, alignment: Alignment, wanted: Sequence[str]) -> tuple[Mark, ...]:
    """The marks of a text, edited to spell other labels."""
    marks = list(marked.marks)
    for edit in alignment.edits(wanted):
        if edit.old is not None:
            marks.remove(edit.old)
        if edit.new is not None:
            marks.append(edit.new)
    return tuple(sorted(marks, key=lambda mark: (mark.start, -mark.stop)))


def _groups(corpus: Corpus) -> Iterator[tuple[str, list[Sentence]]]:
    """The sentences of each document; those without one alone."""
    for (_, document), group in groupby(corpus.sentences, key=lambda one: (one.path, one.document)):
        members = list(group)
        if document:
            yield document, members
        else:
            yield from ((one.id, [one]) for one in members)


def _joined(name: str, sentences: Sequence[Sentence], corpus: Corpus) -> FreshText:
    """Tokens as a text: joined by spaces, one sentence in each line."""
    places, marks = list[tuple[int, int]](), list[Mark]()
    pieces, length = list[str](), 0
    for sentence in sentences:
        first = len(places)
        for token in sentence.tokens:
            places.append((length, length + len(token)))
            length += len(token) + 1
        pieces.append(" ".join(sentence.tokens))
        for one in segments(sentence.labels, corpus.normalised_scheme) if sentence.is_labelled else ():
            start, stop = places[first + one.start][0], places[first + one.stop - 1][1]
            marks.append(Mark(start, stop, one.type))
    rows = tuple(_row(one, corpus) for one in sentences)
    return FreshText(name, "\n".join(pieces), tuple(marks), tuple(places), rows)


def _row(sentence: Sentence, corpus: Corpus) -> Row:
    labels = in_scheme(sentence.labels, corpus.scheme) if sentence.is_labelled else ()
    place = {"path": sentence.path, "id": sentence.id, "document": sentence.document}
    return Row(sentence.tokens, labels, sentence.lines, sentence.pos, **place)
