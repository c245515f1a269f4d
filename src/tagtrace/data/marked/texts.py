"""Reading texts with marks, from a file or a folder, as rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tagtrace._documents import recorded_path
from tagtrace.data.marked.alignment import Alignment
from tagtrace.data.marked.marks import MarkedFolderFormat, MarkedFormat, MarkedText
from tagtrace.data.options import ReadOptions
from tagtrace.data.source import Row, SourceFile, stem
from tagtrace.data.source_folder import SourceFolder


class TextsReader(ABC):
    """Iterate to get the sentences of marked texts; the attributes report what was found on the way."""

    options: ReadOptions
    num_comments: int = 0
    has_pos: bool = False
    doubts: tuple[str, ...] = ()

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.options = replace(options, scheme="iob2")
        self.skipped: list[tuple[int, str]] = []
        self._names = _Names(stem(path))

    def resolved_options(self) -> ReadOptions:
        return self.options

    def __iter__(self) -> Iterator[Row]:
        for marked in self._texts():
            yield from self._rows(marked)

    @abstractmethod
    def _texts(self) -> Iterator[MarkedText]: ...

    def _rows(self, marked: MarkedText) -> Iterator[Row]:
        alignment = Alignment.of(marked)
        self.skipped += [self._skip(marked, one) for one in alignment.odd]
        if not alignment.tokens:
            self.skipped.append(self._skip(marked, "a text without tokens"))
            return
        document = self._names.next_document(marked)
        for number, (first, last) in enumerate(alignment.sentences()):
            labels = alignment.labels[first:last] if self.options.labelled else ()
            lines, path = alignment.lines[first:last], self._path(marked)
            yield Row(alignment.texts(first, last), labels, lines, None, f"{document}:{number}", document, path)

    def _skip(self, marked: MarkedText, reason: str) -> tuple[int, str]:
        return marked.line, reason

    def _path(self, marked: MarkedText) -> str:  # noqa: ARG002
        return ""


class MarkedReader(TextsReader):
    """The sentences of a file of marked texts."""

    def __init__(self, kind: MarkedFormat, source: SourceFile, lines: Iterator[bytes], options: ReadOptions) -> None:
        super().__init__(source.path, options)
        self._kind, self._source, self._lines = kind, source, lines

    def _texts(self) -> Iterator[MarkedText]:
        return self._kind.texts(self._source, b"".join(self._lines), self.options)


class FolderReader(TextsReader):
    """The sentences of a folder of marked texts."""

    def __init__(self, kind: MarkedFolderFormat, source: SourceFolder, options: ReadOptions) -> None:
        super().__init__(source.path, options)
        self._kind, self._folder = kind, source

    def _texts(self) -> Iterator[MarkedText]:
        return self._kind.texts(self._folder, self.options)

    def _skip(self, marked: MarkedText, reason: str) -> tuple[int, str]:
        return 0, f"{recorded_path(marked.name)}: {reason}"

    def _path(self, marked: MarkedText) -> str:
        return str(self._folder.path / marked.name)


class _Names:
    """Names documents, each differently."""

    def __init__(self, file_stem: str) -> None:
        self._stem, self._number = file_stem, 0
        self._taken: set[str] = set()
        self._copies: Counter[str] = Counter()

    def next_document(self, marked: MarkedText) -> str:
        wanted = name = marked.document or marked.id or f"{self._stem}-{self._number}"
        self._number += 1
        while name in self._taken:
            self._copies[wanted] += 1
            name = f"{wanted}#{self._copies[wanted] + 1}"
        self._taken.add(name)
        return name
