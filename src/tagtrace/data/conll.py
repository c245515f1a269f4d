"""Reading CoNLL files: one token per line, columns, a blank line between sentences.

- Fields are separated by tabs if the line has any, otherwise by runs of spaces. Only tabs, spaces and the line
  end count as white space, so tokens may contain no-break spaces and the like.
- ``-DOCSTART-`` starts a document; documents are named ``stem-0``, ``stem-1``... in the order of these lines.
  Sentences before the first of these lines have the document ``''``.
- Sentences are named ``document:0``, ``document:1``..., or ``stem:0``... if they have no document.
- A line that starts with ``#`` is a comment if the tokens are numbered, or if it does not have the columns of a
  token. Comments do not end a sentence. Neither do CoNLL-U's multiword ranges (``3-4``) and empty nodes (``3.1``)
  in numbered files, which the reader lists as skipped.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tagtrace._checks import DataError, at
from tagtrace.data.columns.doubts import column_doubts
from tagtrace.data.columns.fields import DOCUMENT_START, LINE_END, field_spans, split_fields
from tagtrace.data.columns.layout import Layout, LineKind, find_layout
from tagtrace.data.options import ReadOptions
from tagtrace.data.source import Row, shown, stem
from tagtrace.data.spans.json_spans import replace_spans

if TYPE_CHECKING:
    from tagtrace.data.corpus import Corpus
    from tagtrace.data.formats.fresh import FreshText

_NUM_PROBED = 1000
"""The layout is inferred from this many lines that may be tokens."""
_MOST_PROBED = 100_000
"""Maximum number of lines, blank ones and comments too, among which these are looked for."""
SPACE_IN_LABEL = re.compile(r"[ \t\r\n]")


class ConllReader:
    """Iterate to get the rows of a CoNLL file; the attributes report what was found on the way."""

    layout: Layout | None
    num_comments: int
    doubts: tuple[str, ...]
    """What may be wrong about the columns that were guessed."""

    def __init__(self, lines: Iterable[tuple[int, str]], options: ReadOptions, path: Path) -> None:
        probed, rest = probe(lines)
        self.options = options
        self.skipped: list[tuple[int, str]] = []
        self.num_comments = 0
        self.layout = find_layout(probed, options, path)
        if self.layout is None and next(rest, None) is not None:
            raise DataError(f"{at(path)}: found no token in the first {len(probed):,} lines; check the file")
        self.doubts = () if self.layout is None else tuple(column_doubts(self.layout, probed, options))
        self._path = path
        self._lines = chain(probed, rest)
        self._names = _Names(stem(path))
        self._pos_values: set[str] = set()

    @property
    def has_pos(self) -> bool:
        """Whether there are parts of speech: the column was asked for, or is neither a filler nor segment labels."""
        looks_like_it = len(self._pos_values) > 1 and not any(
            value.startswith(("B-", "I-")) for value in self._pos_values
        )
        return self.options.pos_column is not None or looks_like_it

    def resolved_options(self) -> ReadOptions:
        """The options with the columns that were found."""
        if self.layout is None:
            return self.options
        pos = self.layout.pos if self.has_pos else None
        columns = {"token_column": self.layout.token, "label_column": self.layout.label, "pos_column": pos}
        return replace(self.options, **columns)

    def __iter__(self) -> Iterator[Row]:
        if self.layout is None:
            return
        layout, block = self.layout, _Block(self.layout)
        for number, line in self._lines:
            text = line.rstrip(LINE_END)
            fields = split_fields(text)
            kind = layout.kind(text, fields)
            if kind is LineKind.TOKEN:
                if not layout.is_sound(text, fields):
                    self._complain(number, text, fields, layout)
                block.append(number, fields)
            elif kind is LineKind.COMMENT:
                self.num_comments += 1
            elif kind is LineKind.RANGE:
                self.skipped.append((number, f"{kind.value} {fields[0]}"))
            elif block.lines:
                yield self._finish(block)
                block = _Block(layout)
            if kind is LineKind.DOCUMENT:
                self._names.start_document()
        if block.lines:
            yield self._finish(block)

    def _finish(self, block: _Block) -> Row:
        row = block.row()
        row.document, row.id = self._names.next_sentence()
        self._pos_values.update(row.pos or ())
        return row

    def _complain(self, number: int, text: str, fields: list[str], layout: Layout) -> NoReturn:
        """Raise an error that says why a line is not a valid token."""
        where = at(self._path, number)
        if len(fields) != layout.num_columns:
            raise DataError(
                f"{where}: found {len(fields)} columns in {shown(text)}, expected {layout.num_columns} as in "
                "the first token line; separate fields by one tab each, and sentences by a blank line"
            )
        if "\r" in text:
            raise DataError(f"{where}: found a carriage return inside {shown(text)}; end every line with a newline")
        if layout.numbered and not fields[0].isdecimal():
            raise DataError(
                f"{where}: found {shown(fields[0])} in the first column, expected the number of a token; "
                "number every token, or set token_column to 0 if the numbers are tokens"
            )
        empty = "label" if fields[layout.token] else "token"
        raise DataError(f"{where}: found an empty {empty} in {shown(text)}; fill it or remove the line")


open_rows = ConllReader


def edit_line(text: str, labels: dict[int, str], corpus: Corpus, number: int) -> str:
    """A CoNLL line with a new label."""
    label = labels[0]
    if not label or SPACE_IN_LABEL.search(label):
        where = at(corpus.path, number)
        raise DataError(f"{where}: the new label {label!r} is empty or contains spaces; rename it")
    column = corpus.options.label_column
    assert column is not None
    return replace_spans(text, [(field_spans(text.rstrip(LINE_END))[column], label)])


def fresh(texts: Sequence[FreshText]) -> bytes:
    """A new file: token, part of speech if every sentence has them, label; separated by tabs."""
    rows = [row for one in texts for row in one.rows]
    has_pos = all(row.pos is not None for row in rows)
    filler = "".join(["\t-X-"] * has_pos + ["\tO"] * any(row.labels for row in rows))
    lines = list[str]()
    for one in texts:
        if one.rows and one.rows[0].document:
            lines.append(f"{DOCUMENT_START}{filler}\n\n")
        for row in one.rows:
            columns = [row.tokens, *([row.pos or ()] if has_pos else []), *([row.labels] if row.labels else [])]
            _check_fields(columns, row.labels, one.where(row))
            lines += ["\t".join(fields) + "\n" for fields in zip(*columns, strict=True)]
            lines.append("\n")
    return "".join(lines).encode()


def _check_fields(columns: Sequence[Sequence[str]], labels: Sequence[str], where: str) -> None:
    for value in (value for column in columns for value in column):
        if not value or any(character in value for character in "\t\r\n"):
            raise DataError(f"{where}: {shown(value)} is no field of CoNLL columns; convert to JSON lines")
    for label in labels:
        if SPACE_IN_LABEL.search(label):
            raise DataError(f"{where}: the label {shown(label)} contains spaces; rename it, or convert to JSON lines")


def probe(
    lines: Iterable[tuple[int, str]],
) -> tuple[list[tuple[int, str]], Iterator[tuple[int, str]]]:
    """The first lines of a file, enough to infer its layout, and the remaining lines."""
    rest = iter(lines)
    probed: list[tuple[int, str]] = []
    num_left = _NUM_PROBED
    while num_left > 0 and len(probed) < _MOST_PROBED and (line := next(rest, None)) is not None:
        probed.append(line)
        num_left -= bool(line[1].rstrip(LINE_END)) and line[1][0] != "#"
    return probed, rest


class _Block:
    """The token lines of one sentence."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._fields: list[list[str]] = []
        self.lines: list[int] = []

    def append(self, number: int, fields: list[str]) -> None:
        self.lines.append(number)
        self._fields.append(fields)

    def row(self) -> Row:
        return Row(
            tokens=self._column(self._layout.token) or (),
            labels=self._column(self._layout.label) or (),
            pos=self._column(self._layout.pos),
            lines=_compact(self.lines),
        )

    def _column(self, column: int | None) -> tuple[str, ...] | None:
        return None if column is None else tuple([sys.intern(fields[column]) for fields in self._fields])


def _compact(lines: list[int]) -> Sequence[int]:
    """Line numbers as a range if none is missing, which saves memory."""
    first, last = lines[0], lines[-1]
    return range(first, last + 1) if last - first + 1 == len(lines) else tuple(lines)


class _Names:
    """Counts documents and sentences to name them."""

    def __init__(self, file_stem: str) -> None:
        self._stem = file_stem
        self._num_documents = 0
        self._num_sentences = 0
        self._document = ""

    def start_document(self) -> None:
        self._document = f"{self._stem}-{self._num_documents}"
        self._num_documents += 1
        self._num_sentences = 0

    def next_sentence(self) -> tuple[str, str]:
        """The document and the id of the next sentence."""
        index = self._num_sentences
        self._num_sentences += 1
        return self._document, f"{self._document or self._stem}:{index}"
