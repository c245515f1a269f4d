"""spaCy's DocBin: documents with their entities as labels, a row for each sentence.

A file is compressed msgpack with a table of numbers, a row for each token and a column for each attribute (``attrs``),
most of them hashes of ``strings``. Only this table and the strings are looked at. No documents are made of them, so
nothing in a file is run, and everything that is not an entity is written as it was read.

- ``ENT_IOB`` is 3 for B, 1 for I, 2 for O and 0 for a token whose entity is not annotated (``missing``). The last is
  read as O, counted, and stays as it is unless its label changes. So does B without a type (``blocked``).
- Sentences are those of ``SENT_START`` or of the parse. A document without them is one row.

Needs spaCy (extra ``spacy``).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from spacy.attrs import IDS
from spacy.strings import StringStore
from srsly import msgpack

from tagtrace._checks import DataError, NoLabelsError, at
from tagtrace._documents import MANY_BYTES, MOST_EXPANSION
from tagtrace.data.formats.docbin_sentences import sentence_starts
from tagtrace.data.options import ReadOptions
from tagtrace.data.source import Row, shown, stem

if TYPE_CHECKING:
    from tagtrace.data.corpus import Corpus

_MISSING, _I, _O, _B = range(4)


def open_rows(data: bytes, options: ReadOptions, path: Path) -> DocbinReader:
    return DocbinReader(data, options, path)


class DocbinReader:
    """Iterate to get the rows of a file; the attributes report what was found on the way."""

    options: ReadOptions
    num_comments: int = 0
    has_pos: bool = False

    def __init__(self, data: bytes, options: ReadOptions, path: Path) -> None:
        self.options = replace(options, scheme="iob2")
        self.skipped: list[tuple[int, str]] = []
        self.doubts: tuple[str, ...] = ()
        self._path, self._bin = path, _Bin.of(data, path)
        if options.labelled and not self._bin.has("ENT_IOB", "ENT_TYPE"):
            raise NoLabelsError(f"{at(path)}: was saved without entities (ENT_IOB, ENT_TYPE); read it as unlabelled")

    def resolved_options(self) -> ReadOptions:
        return self.options

    def __iter__(self) -> Iterator[Row]:
        words, labels = self._words(), self._labels() if self.options.labelled else None
        for number, (document, sentence, start, stop) in enumerate(self._bin.rows(), start=1):
            name = f"{stem(self._path)}-{document}"
            if start == stop:
                self.skipped.append((number, "a document without tokens"))
                continue
            found = tuple(labels[start:stop]) if labels else ()
            yield Row(tuple(words[start:stop]), found, (number,) * (stop - start), None, f"{name}:{sentence}", name)

    def _words(self) -> list[str]:
        return self._bin.texts("ORTH")

    def _labels(self) -> list[str]:
        """IOB2 labels of all tokens, as spaCy reads them: the first token of an entity has its type."""
        inside, types = self._bin.column("ENT_IOB").tolist(), self._bin.texts("ENT_TYPE")
        starts, labels, current = set(self._bin.offsets()), list[str](), ""
        for token, (kind, name) in enumerate(zip(inside, types, strict=True)):
            if kind not in (_MISSING, _I, _O, _B):
                raise DataError(f"{at(self._path)}: found ENT_IOB {kind}, expected 0 to 3; check the file")
            current = "" if kind in (_MISSING, _O) or (token in starts and kind != _B) else current
            current = current if kind == _I and current else name if kind in (_I, _B) else ""
            labels.append(f"{'B' if kind == _B else 'I'}-{current}" if current else "O")
        self.doubts = tuple(_doubts(inside, labels))
        return labels


def _doubts(inside: Sequence[int], labels: Sequence[str]) -> Iterator[str]:
    missing = inside.count(_MISSING)
    if missing:
        yield (
            f"{missing:,} of {len(inside):,} tokens have no annotation of entities (missing); they were read as O, and "
            "stay missing unless their label changes"
        )
    blocked = sum(kind in (_B, _I) and label == "O" for kind, label in zip(inside, labels, strict=True))
    if blocked:
        yield f"{blocked:,} tokens have an entity without a type (blocked); they were read as O, and stay as they are"


def edited(data: bytes, corpus: Corpus, changes: Mapping[int, Mapping[int, str]]) -> bytes:
    """The file with new labels, by the number of the row, counted from 1, and their place in it."""
    found = _Bin.of(data, corpus.path)
    rows = list(found.rows())
    for number, labels in changes.items():
        _, _, start, stop = rows[number - 1]
        for place, label in labels.items():
            if label != "O" and not label[2:]:
                raise DataError(f"{at(corpus.path, number)}: the new label {label!r} has no type; give it one")
            found.put(start + place, label)
        found.keep_links(start, stop, [start + place for place in labels])
    return found.packed()


@dataclass
class _Bin:
    """What a file holds, and its table of numbers."""

    message: dict[str, Any]
    table: np.ndarray
    """(tokens, attributes), uint64."""
    path: Path
    strings: Any
    """spaCy's table of hashes and strings."""
    added: set[str] = field(default_factory=set)
    """Types of entities that were put in."""

    @classmethod
    def of(cls, data: bytes, path: Path) -> _Bin:
        message: dict[str, Any] = _unpacked(data, path)
        parts: list[Any] = [message.get(key) for key in ("attrs", "tokens", "lengths", "strings")]
        attrs, tokens, lengths, strings = parts
        sound = _all(attrs, int) and 0 < len(set(attrs)) == len(attrs) and _all(strings, str)
        if not sound or not _rows_of(8 * len(attrs), tokens) or not _rows_of(4, lengths):
            raise DataError(f"{at(path)}: is no DocBin: attrs, tokens, lengths or strings are not as spaCy writes them")
        table = np.frombuffer(tokens, dtype="<u8").reshape(-1, len(attrs)).copy()
        sizes = np.frombuffer(lengths, dtype="<i4").astype(np.int64)
        if (sizes < 0).any() or sizes.sum() != len(table):
            raise DataError(f"{at(path)}: the lengths of the documents are not those of the {len(table):,} tokens")
        found = cls(message, table, path, StringStore(strings))
        if not found.has("ORTH"):
            raise DataError(f"{at(path)}: was saved without the texts of tokens (ORTH); save it again with spaCy")
        return found

    def has(self, *names: str) -> bool:
        """Whether the file has these attributes."""
        return all(IDS[name] in self.message["attrs"] for name in names)

    def column(self, name: str) -> np.ndarray:
        """The numbers of one attribute, (tokens,); what is written into it is written into the table."""
        return self.table[:, self.message["attrs"].index(IDS[name])]

    def texts(self, name: str) -> list[str]:
        """The strings that one attribute stands for."""
        hashes, places = np.unique(self.column(name), return_inverse=True)
        try:
            texts = [self.strings[one] if one else "" for one in hashes.tolist()]
        except KeyError:
            where = at(self.path)
            raise DataError(f"{where}: has tokens whose {name} is not among its strings; check the file") from None
        return [texts[place] for place in places.tolist()]

    def offsets(self) -> list[int]:
        """The first token of each document, and the one behind the last document."""
        sizes = np.frombuffer(self.message["lengths"], dtype="<i4")
        return [0, *np.cumsum(sizes, dtype=np.int64).tolist()]

    def rows(self) -> Iterator[tuple[int, int, int, int]]:
        """For each row the numbers of its document and of its sentence in it, its first token and the one behind."""
        kinds = {"SENT_START": np.int32, "HEAD": np.int32, "DEP": np.uint64, "ENT_IOB": np.uint64}  # as in spaCy
        columns = {name: self.column(name).astype(kind).tolist() for name, kind in kinds.items() if self.has(name)}
        offsets = self.offsets()
        for document, (start, stop) in enumerate(pairwise(offsets)):
            starts = sentence_starts(stop - start, {name: one[start:stop] for name, one in columns.items()})
            for number, (first, last) in enumerate(pairwise([*starts, stop - start])):
                yield document, number, start + first, start + last

    def put(self, token: int, label: str) -> None:
        """Give a token an IOB2 label."""
        if label == "O":
            for name in ("ENT_TYPE", "ENT_KB_ID", "ENT_ID"):
                if self.has(name):
                    self.column(name)[token] = 0
            self.column("ENT_IOB")[token] = _O
        else:
            self.column("ENT_IOB")[token] = _B if label.startswith("B") else _I
            self.column("ENT_TYPE")[token] = self.strings.add(label[2:])
            self.added.add(label[2:])

    def keep_links(self, start: int, stop: int, changed: Sequence[int]) -> None:
        """Give all tokens of each entity that changed the first link to a knowledge base, and id, that it had."""
        inside = self.column("ENT_IOB")
        for token in changed:
            first, last = token, token + 1
            while first > start and inside[first] == _I:
                first -= 1
            while last < stop and inside[last] == _I:
                last += 1
            for name in ("ENT_KB_ID", "ENT_ID"):
                if self.has(name) and inside[token] in (_B, _I):
                    column = self.column(name)
                    column[first:last] = next((one for one in column[first:last] if one), 0)

    def packed(self) -> bytes:
        """The file."""
        strings: list[str] = self.message["strings"]
        new = self.added.difference(strings)
        changed = {"tokens": self.table.tobytes(), "strings": sorted([*strings, *new]) if new else strings}
        return zlib.compress(msgpack.packb({**self.message, **changed}, use_bin_type=True))


def _all(values: Any, kind: type) -> bool:
    return isinstance(values, list) and set(map(type, values)) <= {kind}


def _rows_of(size: int, data: Any) -> bool:
    """Whether data are bytes that hold a whole number of rows."""
    return isinstance(data, bytes) and len(data) % size == 0


def _unpacked(data: bytes, path: Path) -> dict[str, Any]:
    """The map in a file. Only plain values are made of it: no hook runs, and numpy arrays stay maps."""
    stream, most = zlib.decompressobj(), max(MANY_BYTES, MOST_EXPANSION * len(data))
    try:
        raw = stream.decompress(data, most)
        message = msgpack.unpackb(raw, raw=False, object_pairs_hook=dict) if stream.eof else None
    except (zlib.error, ValueError, TypeError, RecursionError, OverflowError, msgpack.UnpackException) as error:
        reason = shown(" ".join(str(error).split()), 120)
        raise DataError(f"{at(path)}: cannot be read as spaCy's DocBin ({reason}); check the file") from None
    if not isinstance(message, dict):
        raise DataError(f"{at(path)}: is cut off, expands to more than {most:,} bytes, or is no DocBin of spaCy")
    return message
