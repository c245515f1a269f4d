"""A data file in memory, with everything needed to write it back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

from tagtrace._checks import DataError, NoLabelsError, at
from tagtrace.data.detection import detect_scheme
from tagtrace.data.formats import FORMATS, Reader, detect_format, folder_format
from tagtrace.data.jsonl import JsonlReader, name_rows
from tagtrace.data.options import ReadOptions
from tagtrace.data.schemes import LabelError, normalise, normalised_scheme, violations
from tagtrace.data.sentence import Sentence
from tagtrace.data.source import Row, SourceFile
from tagtrace.data.source_folder import SourceFolder

_SPACE = b" \t\r\n"
_OPENING, _MAX_OPENING, _MAX_BLANK = b"\xef\xbb\xbf[{", 4, 100_000
"""What a line of JSON that is written over several lines may consist of, and after how many such lines to stop."""


@dataclass(frozen=True)
class Corpus:
    """The sentences of one file or folder. ``scheme`` is its own, or ``none`` if its labels were not read."""

    path: Path
    """The file, or the folder of files."""
    sentences: tuple[Sentence, ...]
    scheme: str
    options: ReadOptions
    """The options used, with everything that was detected filled in."""
    fingerprint: str
    """sha256 of the file's decompressed bytes, or of the names and bytes of the folder's files."""
    violations: tuple[tuple[int, str], ...] = ()
    """Lines whose labels break the scheme (and were repaired), with the problem."""
    skipped: tuple[tuple[int, str], ...] = ()
    """Lines that look like data but were not read as a sentence, with the reason; of a folder 0, and the reason names
    the file."""
    doubts: tuple[str, ...] = ()
    """What may be wrong about the columns that were guessed, with what to choose then."""
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
    """Read a data file, which may be compressed with gzip, or a folder of data files.

    A file without labels is an error unless ``require_labels`` is False, in which case its sentences have no labels.
    """
    if not require_labels:
        try:
            return read_corpus(path, options)
        except NoLabelsError:
            return read_corpus(path, replace(options or ReadOptions(), labelled=False))
    source = open_source(path)
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
        doubts=reader.doubts,
        num_comments=reader.num_comments,
    )


def open_source(path: str | Path) -> SourceFile | SourceFolder:
    """A file or a folder to be read."""
    return SourceFolder(path) if Path(path).is_dir() else SourceFile(path)


def open_reader(source: SourceFile | SourceFolder, options: ReadOptions) -> Reader:
    """The reader for a file, of which only the first lines are read until it is iterated, or for a folder."""
    if isinstance(source, SourceFolder):
        found = folder_format(source, options.format)
        return found.open_folder(source, replace(options, format=found.name))
    lines: Iterator[bytes] = iter(source)
    if options.format == "auto":
        before, first = list[bytes](), list[bytes]()
        for line in lines:
            before.append(line)
            if line.strip(_SPACE):
                first.append(line)
            if line.strip(_SPACE + _OPENING) or len(first) == _MAX_OPENING or len(before) == _MAX_BLANK:
                break
        found = detect_format(source.path, b"".join(first))
        options, lines = replace(options, format=found.name), chain(before, lines)
    return FORMATS[options.format].open(source, lines, options)


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
            path=row.path or str(path),
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
