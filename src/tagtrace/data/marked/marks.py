"""Texts in which characters are marked: what formats with offsets have in place of tokens with labels.

Offsets count the characters (code points) of ``text`` from 0; a mark is the half-open range ``start:stop``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tagtrace.data.options import ReadOptions
from tagtrace.data.source import SourceFile
from tagtrace.data.source_folder import SourceFolder


@dataclass(frozen=True, slots=True)
class Mark:
    """Characters ``start:stop`` of a text that somebody gave a label."""

    start: int
    stop: int
    label: str
    key: Any = None
    """Where its format finds it again."""
    line: int = 0
    """Its line, if it has one of its own."""


@dataclass(frozen=True, slots=True)
class MarkedText:
    """One text of a file with its marks, in the order of the file."""

    text: str
    marks: tuple[Mark, ...]
    line: int
    """The line of the file in which it begins, or its number in files without lines; counted from 1."""
    id: str = ""
    document: str = ""
    tokens: tuple[tuple[int, int], ...] | None = None
    """Start and stop of the file's own tokens; None: ``tokens.py`` has the rule."""
    breaks: tuple[int, ...] | None = None
    """Where the file's own sentences begin and end, in order; None: ``tokens.py`` has the rule."""
    odd: tuple[str, ...] = ()
    """What was annotated but is no mark (a relation, a choice); it is kept and not learned from."""
    name: str = ""
    """The file that ``line`` counts in, relative to the folder, if the data is a folder."""


@dataclass(frozen=True, slots=True)
class MarkEdit:
    """A mark that changes: ``old`` becomes ``new``. Without ``old`` it is added, without ``new`` removed."""

    old: Mark | None
    new: Mark | None


Edits = Mapping[int, Sequence[MarkEdit]]
"""The edits of each text that has any, by its number in the file, counted from 0."""


class MarkedFormat(Protocol):
    """A module that reads and edits files of one format. Neither opens a file."""

    def texts(self, source: SourceFile, data: bytes, options: ReadOptions) -> Iterator[MarkedText]:
        """Each text of a file whose bytes are ``data``; DataError where they are not of this format.

        Texts that are not to be learned from (rejected, without an annotation) are left out, and therefore kept as
        they are. ``source`` is for its path in messages and for ``skip``.
        """
        ...

    def edited(self, source: SourceFile, data: bytes, options: ReadOptions, edits: Edits) -> bytes:
        """The file with its marks edited; everything else stays, byte for byte where the format is text."""
        ...


class MarkedFolderFormat(Protocol):
    """A module that reads and edits folders of one format, by the files that ``source`` reads for it."""

    def texts(self, source: SourceFolder, options: ReadOptions) -> Iterator[MarkedText]:
        """Each text of a folder, each with its ``name``; DataError where the files are not of this format."""
        ...

    def edited(self, source: SourceFolder, options: ReadOptions, edits: Edits) -> Mapping[str, bytes]:
        """The files that change, by their names; all others stay as they are."""
        ...
