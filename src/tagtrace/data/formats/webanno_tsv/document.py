"""A file in WebAnno TSV: its columns, its text, and a row for each token and each part of a token.

``text`` has the sentences one below the other, without what stood between them, which the format does not record.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tagtrace._checks import DataError, at
from tagtrace.data.formats.cas import AGAIN, ENTITY, Units
from tagtrace.data.formats.webanno_tsv.cells import unescaped, unescaped_text
from tagtrace.data.source import SourceFile, shown

_BOM = b"\xef\xbb\xbf"
_FORMAT = re.compile(r"#FORMAT=WebAnno TSV 3\.([0-9]{1,9})")
_LAYER = re.compile(r"#T_(SP|CH|RL)=(.*)", re.DOTALL)
_UNIT = re.compile(r"[0-9]{1,10}-[0-9]{1,10}(\.[0-9]{1,10})?")
_RANGE = re.compile(r"([0-9]{1,10})-([0-9]{1,10})")
MAX_FEATURES, MAX_STACKED = 100, 500
"""Each annotation on a token has as many cells as its layer has features."""
NUM_FIRST = 3
"""How many fields a row has before the columns: its name, its offsets and its text."""


@dataclass(frozen=True, slots=True)
class Column:
    """A feature of a layer."""

    kind: str
    """``SP`` for spans, ``CH`` for chains, ``RL`` for relations."""
    layer: str
    feature: str
    """Its name; of slots ``ROLE_...``, and then the type of what they refer to; of relations also ``BT_...``."""
    is_slot: bool = False
    """Whether it has the roles of slots."""
    is_target: bool = False
    """Whether it says what slots refer to, and so has no value and no number of its own."""


@dataclass(frozen=True, slots=True)
class TsvRow:
    """A line for a token or a part of one."""

    number: int
    """Of its line, from 0."""
    unit: str
    """The name by which others refer to it: the number of the sentence and of the token in it; ``""`` for a part."""
    start: int | None
    stop: int | None
    """Its characters in the text; None inside a character."""
    fields: tuple[str, ...]

    @property
    def is_token(self) -> bool:
        return self.unit != "" and self.start != self.stop

    def cells(self, columns: Sequence[int]) -> list[str]:
        """What it has in some columns."""
        return [self.fields[NUM_FIRST + column] for column in columns]


@dataclass(slots=True)
class _Sentence:
    begin: int
    start: int
    text: str
    units: Units
    number: int
    num_tokens: int = 0


@dataclass
class TsvDocument:
    """What a file has."""

    path: Path
    mark: bytes = b""
    """The byte-order mark, if it begins with one."""
    lines: list[str] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    rows: list[TsvRow] = field(default_factory=list)
    text: str = ""
    breaks: list[int] = field(default_factory=list)

    @cached_property
    def entity_columns(self) -> list[int]:
        return [number for number, one in enumerate(self.columns) if (one.kind, one.layer) == ("SP", ENTITY)]

    @cached_property
    def value_column(self) -> int | None:
        """The place of ``value`` among the columns of entities."""
        names = [self.columns[number].feature for number in self.entity_columns]
        return names.index("value") if "value" in names else None

    @cached_property
    def token_rows(self) -> list[int]:
        """The numbers of the rows that are tokens."""
        return [number for number, row in enumerate(self.rows) if row.is_token]


def parsed(source: SourceFile, data: bytes) -> TsvDocument:
    """The document in the bytes of a file; DataError if they are not of this format."""
    return _Parser(source.path).read(source, data)


class _Parser:
    """Reads the lines of a file one after the other."""

    def __init__(self, path: Path) -> None:
        self._made, self._path, self._minor = TsvDocument(path), path, 0
        self._in_header = True
        self._fragments: list[str] | None = None
        self._sentence: _Sentence | None = None
        self._num_sentences = self._end = self._size = 0
        self._last_stop = 0
        self._texts: list[str] = []

    def read(self, source: SourceFile, data: bytes) -> TsvDocument:
        self._made.mark = _BOM if data.startswith(_BOM) else b""
        for number, line in source.texts(iter(io.BytesIO(data))):
            self._made.lines.append(line)
            self._line(line.removesuffix("\n").removesuffix("\r"), number)
        if not self._made.lines:
            raise DataError(f"{at(self._path)}: is empty, expected WebAnno TSV")
        self._close()
        self._made.text = "".join(self._texts)
        return self._made

    def _line(self, line: str, number: int) -> None:
        where = at(self._path, number)
        if number == 1:
            self._minor = _version(line, where)
        elif self._in_header and (layer := _LAYER.fullmatch(line)):
            self._made.columns += _columns(layer[1], layer[2], where)
        elif not line:
            self._in_header = False
            self._close()
        elif line.startswith("#"):
            self._head(line, where)
        else:
            self._in_header = False
            self._row(line, number - 1, where)

    def _close(self) -> None:
        if self._sentence is not None and self._last_stop > self._sentence.start:
            self._made.breaks += [self._sentence.start, self._last_stop]
        self._fragments = self._sentence = None

    def _head(self, line: str, where: str) -> None:
        """A line about the next sentence."""
        if self._sentence is not None:
            self._close()
        if line.startswith("#Text="):
            self._in_header = False
            try:
                text = unescaped_text(line.removeprefix("#Text="), self._minor)
            except UnicodeDecodeError:
                raise DataError(f"{where}: found half a surrogate pair; {AGAIN}") from None
            self._fragments = [*(self._fragments or ()), text]

    def _row(self, line: str, number: int, where: str) -> None:
        fields = tuple(line.split("\t"))
        expected = NUM_FIRST + len(self._made.columns)
        if len(fields) != expected and (len(fields) != expected + 1 or fields[-1]):
            raise DataError(f"{where}: found {len(fields)} fields, expected {expected}, as the header says; {AGAIN}")
        if any(cell.count("|") > MAX_STACKED for cell in fields[NUM_FIRST:]):
            raise DataError(f"{where}: has more than {MAX_STACKED:,} annotations of a layer on a token; check the file")
        unit, place = _UNIT.fullmatch(fields[0]), _RANGE.fullmatch(fields[1])
        if unit is None or place is None:
            found = shown("\t".join(fields[:2]))
            raise DataError(f"{where}: found {found}, expected the name of a token and its offsets, as in 1-1 and 0-3")
        begin, end = int(place[1]), int(place[2])
        sentence = self._sentence or self._new_sentence(begin, where)
        start, stop = self._characters(sentence, begin, end, where)
        name = self._token_name(sentence, (start, stop), fields[2], where) if unit[1] is None else ""
        self._made.rows.append(TsvRow(number, name, start, stop, fields))

    def _new_sentence(self, begin: int, where: str) -> _Sentence:
        if self._fragments is None:
            raise DataError(f"{where}: has no line #Text= before it; {AGAIN}")
        if begin < self._end:
            raise DataError(
                f"{where}: begins at {begin}, but the text of the sentence before it ends at {self._end}; {AGAIN}"
            )
        text, between = "\n".join(self._fragments), "\n" if self._texts and begin > self._end else ""
        units = Units(text)
        self._num_sentences += 1
        self._sentence = _Sentence(begin, self._size + len(between), text, units, self._num_sentences)
        self._end, self._size = begin + units.length, self._size + len(between) + len(text)
        self._texts += [between, text]
        return self._sentence

    def _characters(self, sentence: _Sentence, begin: int, end: int, where: str) -> tuple[int | None, int | None]:
        """The characters of the text that an offset of a row means; None inside a character."""
        if not sentence.begin <= begin <= end <= self._end:
            raise DataError(
                f"{where}: is from {begin} to {end}, but its sentence from {sentence.begin} to {self._end} (in UTF-16 "
                f"code units); {AGAIN}"
            )
        found = [sentence.units.character(place - sentence.begin) for place in (begin, end)]
        start, stop = (None if one is None else sentence.start + one for one in found)
        return start, stop

    def _token_name(self, sentence: _Sentence, place: tuple[int | None, int | None], written: str, where: str) -> str:
        """Check a token; the name by which others refer to it."""
        start, stop = place
        if start is None or stop is None:
            raise DataError(f"{where}: begins or ends inside a character; {AGAIN}")
        if start < self._last_stop:
            raise DataError(f"{where}: overlaps the token before it; {AGAIN}")
        text = sentence.text[start - sentence.start : stop - sentence.start]
        if text not in (written, unescaped(written), _unescaped_token(written, self._minor)):
            raise DataError(
                f"{where}: the token is {shown(written)}, but the text there is {shown(text)}; offsets have to count "
                f"UTF-16 code units of #Text=; {AGAIN}"
            )
        self._last_stop = stop
        sentence.num_tokens += 1
        return f"{sentence.number}-{sentence.num_tokens}"


def _unescaped_token(written: str, minor: int) -> str:
    try:
        return unescaped_text(written, minor)
    except UnicodeDecodeError:
        return written


def _version(line: str, where: str) -> int:
    found = _FORMAT.fullmatch(line)
    if found is None:
        raise DataError(
            f"{where}: found {shown(line)}, expected #FORMAT=WebAnno TSV 3.3 or another version 3; export the document "
            "as WebAnno TSV v3"
        )
    return int(found[1])


def _columns(kind: str, declared: str, where: str) -> list[Column]:
    """The columns of a layer; one without features has one, too."""
    layer, *features = [name for name in declared.split("|") if name] or [""]
    if not layer:
        raise DataError(f"{where}: a layer has no name; {AGAIN}")
    if len(features) > MAX_FEATURES:
        raise DataError(f"{where}: a layer has more than {MAX_FEATURES} features; check the file")
    is_slot = [kind == "SP" and name.startswith("ROLE_") for name in features]
    is_target = [False, *is_slot][: len(features)]
    made = [Column(kind, layer, *one) for one in zip(features, is_slot, is_target, strict=True)]
    return made or [Column(kind, layer, "")]
