"""CoNLL-U with named entities in MISC, its tenth column: ``NER=B-PER|SpaceAfter=No``.

- The label of a token is the value of the key ``NER``, or ``ner``, or of the one that the options name. A token without
  it is ``O``.
- A file without that key is read by columns (``conll``), and so is one for which a column is chosen as the label.
- ``# sent_id = `` names a sentence. ``# newdoc`` starts a document, and ``# newdoc id = `` names it.
- Multiword ranges (``3-4``) and empty nodes (``3.1``) are listed as skipped, and kept.

A new label changes nothing but its value. The key is added where the alphabet puts it, and is removed for ``O`` unless
the file writes ``NER=O``, or would be left without the key.
"""

from __future__ import annotations

import io
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tagtrace._checks import DataError, NoLabelsError, at
from tagtrace.data.columns.fields import field_spans, split_fields
from tagtrace.data.columns.layout import Layout, LineKind
from tagtrace.data.columns.numbering import RANGE_OR_EMPTY_NODE
from tagtrace.data.conll import ConllReader
from tagtrace.data.options import ReadOptions
from tagtrace.data.source import Row, SourceFile, shown, stem
from tagtrace.data.spans.json_spans import replace_spans

if TYPE_CHECKING:
    from tagtrace.data.corpus import Corpus

KEYS = ("NER", "ner")
"""The keys that labels are looked for under, in this order."""

_FORM, _UPOS, _MISC = 1, 3, 9
_LAYOUT = Layout(num_columns=10, has_tabs=True, numbered=True, token=_FORM, label=None, pos=_UPOS)
_NAMED = re.compile(r"#[ \t]*(sent_id|newdoc)\b(?:[ \t]+id)?[ \t]*(?:=[ \t]*(.*))?")
_NOT_IN_A_VALUE = re.compile(r"[| \t\r\n]")


def open_rows(data: bytes, options: ReadOptions, path: Path) -> ConlluReader | ConllReader:
    key = options.labels_key or next((one for one in KEYS if _has(data, one)), None)
    if options.label_column is not None or key is None:
        return ConllReader(SourceFile(path).texts(io.BytesIO(data)), replace(options, format="conll"), path)
    if options.labelled and not _has(data, key):
        raise NoLabelsError(
            f"{at(path)}: found no token with the key {shown(key)} in MISC, the tenth of ten columns "
            "separated by tabs; set labels_key, choose a label_column, or read the file as unlabelled"
        )
    return ConlluReader(data, key, options, path)


def edited(data: bytes, corpus: Corpus, changes: Mapping[int, Mapping[int, str]]) -> bytes:
    """The file with new labels, by the numbers of their lines."""
    key = corpus.options.labels_key
    assert key is not None
    made = _edited(data, key, corpus, changes, writes_o=_has(data, key, "O"))
    return made if _has(made, key) else _edited(data, key, corpus, changes, writes_o=True)


def _edited(
    data: bytes, key: str, corpus: Corpus, changes: Mapping[int, Mapping[int, str]], *, writes_o: bool
) -> bytes:
    lines = io.BytesIO(data).readlines()
    for number, labels in changes.items():
        label = labels[0]
        if not label or label == "_" or _NOT_IN_A_VALUE.search(label):
            where = at(corpus.path, number)
            raise DataError(f"{where}: the new label {label!r} is empty, _, or contains | or spaces; rename it")
        text = lines[number - 1].decode()
        span = field_spans(text.rstrip("\r\n"))[_MISC]
        misc = _with_label(text[slice(*span)], key, None if label == "O" and not writes_o else label)
        lines[number - 1] = replace_spans(text, [(span, misc)]).encode()
    return b"".join(lines)


def _has(data: bytes, key: str, label: str = "") -> bool:
    """Whether a token of the file has the key, with this label if one is given."""
    wanted = re.escape(key.encode()) + b"=" + (re.escape(label.encode()) + rb" *(?:[|\r\n]|\Z)" if label else b"")
    return (
        re.search(rb"^(?:\xef\xbb\xbf)?+[0-9]++(?:\t[^\t\n]*+){8}\t *+(?:[^\t\n]*\|)?" + wanted, data, re.M) is not None
    )


def _with_label(misc: str, key: str, label: str | None) -> str:
    """MISC with another label, or with none.

    >>> _with_label("SpaceAfter=No", "NER", "B-PER"), _with_label("NER=B-PER", "NER", None)
    ('NER=B-PER|SpaceAfter=No', '_')
    """
    parts = [] if misc in ("", "_") else misc.split("|")
    names = [part.partition("=")[0] for part in parts]
    if key in names:
        parts[names.index(key)] = f"{key}={label}"
        if label is None:
            del parts[names.index(key)]
    elif label is not None:
        later = (place for place, name in enumerate(names) if name.lower() > key.lower())
        parts.insert(next(later, len(parts)), f"{key}={label}")
    return "|".join(parts) or "_"


def _kind(text: str, fields: list[str]) -> LineKind:
    """The kind of a line; ``-DOCSTART-`` is a token like others."""
    kind = _LAYOUT.kind(text, fields)
    if kind is LineKind.DOCUMENT:
        return LineKind.RANGE if RANGE_OR_EMPTY_NODE.fullmatch(fields[0]) else LineKind.TOKEN
    return kind


class ConlluReader:
    """Iterate to get the rows of a CoNLL-U file; the attributes report what was found on the way."""

    options: ReadOptions
    num_comments: int
    has_pos: bool
    doubts: tuple[str, ...] = ()

    def __init__(self, data: bytes, key: str, options: ReadOptions, path: Path) -> None:
        self.options = options
        self.skipped: list[tuple[int, str]] = []
        self.num_comments = 0
        self.has_pos = False
        self._data, self._key, self._path = data, key, path
        self._names = _SentenceNames(stem(path))

    def resolved_options(self) -> ReadOptions:
        """The options with the columns and the key that were found."""
        pos = _UPOS if self.has_pos else None
        return replace(self.options, token_column=_FORM, pos_column=pos, labels_key=self._key)

    def __iter__(self) -> Iterator[Row]:
        tokens: list[tuple[int, list[str]]] = []
        for number, line in SourceFile(self._path).texts(io.BytesIO(self._data)):
            text = line.rstrip("\r\n")
            fields = split_fields(text)
            kind = _kind(text, fields)
            if kind is LineKind.TOKEN:
                self._check(number, text, fields)
                tokens.append((number, fields))
            elif kind is LineKind.COMMENT:
                self.num_comments += 1
                self._names.note(text, is_inside=bool(tokens))
            elif kind is LineKind.RANGE:
                self.skipped.append((number, f"{kind.value} {fields[0]}"))
            elif tokens:
                yield self._row(tokens)
                tokens = []
        if tokens:
            yield self._row(tokens)

    def _check(self, number: int, text: str, fields: list[str]) -> None:
        if not _LAYOUT.is_sound(text, fields):
            raise DataError(
                f"{at(self._path, number)}: found {shown(text)}, expected the ten columns of CoNLL-U, separated by "
                "tabs: a number, a token and eight more; correct the line, or set the format"
            )

    def _row(self, tokens: list[tuple[int, list[str]]]) -> Row:
        columns = [[sys.intern(fields[column]) for _, fields in tokens] for column in (_FORM, _UPOS)]
        self.has_pos = self.has_pos or any(value != "_" for value in columns[1])
        labels = [self._label(number, fields[_MISC]) for number, fields in tokens] if self.options.labelled else []
        document, name = self._names.next_sentence()
        lines = tuple([number for number, _ in tokens])
        return Row(tuple(columns[0]), tuple(labels), lines, tuple(columns[1]), name, document)

    def _label(self, number: int, misc: str) -> str:
        """The label in MISC; ``O`` if it has none."""
        found = [value for name, _, value in (part.partition("=") for part in misc.split("|")) if name == self._key]
        if len(found) > 1:
            raise DataError(
                f"{at(self._path, number)}: found {shown(self._key)} {len(found)} times in {shown(misc)}; keep one"
            )
        return sys.intern(found[0]) if found and found[0] not in ("", "_") else "O"


class _SentenceNames:
    """Names sentences and documents by the comments before them, each differently."""

    def __init__(self, file_stem: str) -> None:
        self._stem = file_stem
        self._document, self._sentence = "", ""
        self._num_documents = self._num_sentences = 0
        self._documents, self._sentences = _Unused(), _Unused()

    def note(self, comment: str, *, is_inside: bool) -> None:
        """Take a name from a comment; a comment inside a sentence says nothing."""
        match = _NAMED.match(comment)
        if match is None or is_inside:
            return
        kind, name = match[1], (match[2] or "").strip()
        if kind == "sent_id":
            self._sentence = name
        else:
            self._document = self._documents.next(name or f"{self._stem}-{self._num_documents}")
            self._num_documents += 1
            self._num_sentences = 0

    def next_sentence(self) -> tuple[str, str]:
        """The document and the id of the next sentence."""
        name = self._sentence or f"{self._document or self._stem}:{self._num_sentences}"
        self._sentence = ""
        self._num_sentences += 1
        return self._document, self._sentences.next(name)


class _Unused:
    """Gives each name once: the second time as ``name#2``, or with the next number that is not taken."""

    def __init__(self) -> None:
        self._taken = set[str]()
        self._copies = Counter[str]()

    def next(self, name: str) -> str:
        found = name
        while found in self._taken:
            self._copies[name] += 1
            found = f"{name}#{self._copies[name] + 1}"
        self._taken.add(found)
        return found
