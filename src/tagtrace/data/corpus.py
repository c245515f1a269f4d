"""A data file in memory, with everything needed to write it back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

from tagtrace._checks import DataError, NoLabelsError, at
from tagtrace.data.conll import ConllReader
from tagtrace.data.detection import detect_scheme
from tagtrace.data.jsonl import JsonlReader, name_rows
from tagtrace.data.options import ReadOptions
from tagtrace.data.schemes import LabelError, normalise, normalised_scheme, violations
from tagtrace.data.sentence import Sentence
from tagtrace.data.source import Row, SourceFile

_TOKEN_BRACE = re.compile(r'\{[ \t]+[^"} \t\r\n]')
"""A CoNLL line whose token is ``{``."""

_SPACE = " \t\r\n"


@dataclass(frozen=True)
class Corpus:
    """The sentences of one file. ``scheme`` is the file's own, or ``none`` if its labels were not read."""

    path: Path
    sentences: tuple[Sentence, ...]
    scheme: str
    options: ReadOptions
    """The options used, with everything that was detected filled in."""
    fingerprint: str
    """sha256 of the file's decompressed bytes."""
    violations: tuple[tuple[int, str], ...] = ()
    """Lines whose labels break the scheme (and were repaired), with the problem."""
    skipped: tuple[tuple[int, str], ...] = ()
    """Lines that look like data but were not read as a sentence, with the reason."""
    num_comments: int = 0

    def __repr__(self) -> str:
        return f"<Corpus {self.path}: {len(self.sentences):,} sentences, {self.num_tokens:,} tokens, {self.scheme}>"

    @property
    def format(self) -> str:
        return self.options.format

    @property
    def normalised_scheme(self) -> str:
        """The scheme of the labels in ``sentences``."""
        return normalised_scheme(self.scheme)

    @cached_property
    def num_tokens(self) -> int:
        return sum(map(len, self.sentences))

    @cached_property
    def documents(self) -> tuple[str, ...]:
        """The documents that have sentences, in the order of the file; empty for a file without documents."""
        return tuple(dict.fromkeys(s.document for s in self.sentences if s.document))

    def with_sentences(self, sentences: Iterable[Sentence]) -> Corpus:
        """The same file with different sentences: relabelled, joined into documents, or fewer."""
        return replace(self, sentences=tuple(sentences))


def read_corpus(path: str | Path, options: ReadOptions | None = None, *, require_labels: bool = True) -> Corpus:
    """Read a CoNLL or JSONL file, which may be compressed with gzip.

    A file without labels is an error unless ``require_labels`` is False, in which case its sentences have no labels.
    """
    if not require_labels:
        try:
            return read_corpus(path, options)
        except NoLabelsError:
            return read_corpus(path, replace(options or ReadOptions(), labelled=False))
    source = SourceFile(path)
    reader = open_reader(source, options or ReadOptions())
    rows = list(reader)
    if not rows:
        raise DataError(f"{at(path)}: found no sentences; check that this is the right file and format")
    if isinstance(reader, JsonlReader):
        name_rows(rows, source.path)
    scheme = reader.options.scheme
    if scheme == "auto":
        scheme = detect_scheme(row.labels for row in rows) if reader.options.labelled else "none"
    return Corpus(
        path=source.path,
        sentences=tuple(_sentences(rows, scheme, source.path, keep_pos=reader.has_pos)),
        scheme=scheme,
        options=replace(reader.resolved_options(), scheme="auto" if scheme == "none" else scheme),
        fingerprint=source.fingerprint,
        violations=tuple(_violations(rows, scheme)),
        skipped=tuple(reader.skipped),
        num_comments=reader.num_comments,
    )


def open_reader(source: SourceFile, options: ReadOptions) -> ConllReader | JsonlReader:
    """The reader for a file; only the first lines are read until it is iterated."""
    lines: Iterator[tuple[int, str]] = source.texts()
    if options.format == "auto":
        before: list[tuple[int, str]] = []
        for line in lines:
            before.append(line)
            if line[1].strip(_SPACE):
                break
        is_jsonl = bool(before) and _looks_like_json(before[-1][1])
        options = replace(options, format="jsonl" if is_jsonl else "conll")
        lines = chain(before, lines)
    kind = JsonlReader if options.format == "jsonl" else ConllReader
    return kind(lines, options, source.path)


def _looks_like_json(text: str) -> bool:
    return text.lstrip(_SPACE).startswith("{") and not _TOKEN_BRACE.match(text)


def _sentences(rows: Iterable[Row], scheme: str, path: Path, *, keep_pos: bool) -> Iterator[Sentence]:
    """Rows as sentences with normalised labels."""
    offset = 0
    for row in rows:
        labels = normalise_row(row, scheme, path)
        yield Sentence(
            tokens=row.tokens,
            labels=row.labels if labels == row.labels else labels,
            id=row.id,
            document=row.document,
            path=str(path),
            lines=row.lines,
            offset=offset,
            pos=row.pos if keep_pos else None,
        )
        offset += len(row.tokens)


def _violations(rows: Iterable[Row], scheme: str) -> Iterator[tuple[int, str]]:
    for row in rows:
        for index, message in violations(row.labels, scheme):
            yield row.lines[index], message


def normalise_row(row: Row, scheme: str, path: Path) -> tuple[str, ...]:
    """The row's labels, normalised; an error names the line."""
    try:
        return normalise(row.labels, scheme)
    except LabelError as error:
        raise DataError(f"{at(path, row.lines[error.index])}: {error}") from None
