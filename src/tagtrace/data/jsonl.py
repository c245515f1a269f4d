"""Reading JSONL files: one sentence per line, an object with a list of tokens and a list of labels.

- Labels are strings, or numbers whose names are given in the options.
- A row's name is its ``id``; rows without one are ``stem:0``, ``stem:1``..., and a repeated id gets ``#2``.
- A row's document is its ``document`` or ``doc_id``. If no row has these, and all ids have the form
  ``prefix_number`` with several prefixes, each in adjacent rows with rising numbers, then the prefix is the document.
  Otherwise every row with an id is a document of its own.
- A row without tokens is not a sentence: it is listed as skipped.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tagtrace._checks import DataError, NoLabelsError, at
from tagtrace.data.options import ReadOptions
from tagtrace.data.source import Row, shown, stem
from tagtrace.data.spans.json_spans import element_spans, member_spans, replace_spans

if TYPE_CHECKING:
    from tagtrace.data.corpus import Corpus
    from tagtrace.data.formats.fresh import FreshText

LABEL_KEYS = ("ner_tags", "labels", "tags", "pos_tags", "upos", "xpos", "ner", "pos", "chunk_tags", "label")
"""The keys that labels are looked for under, in this order."""

DOCUMENT_KEYS = ("document", "doc_id")
_NUMBERED_ID = re.compile(r"(.+)_([0-9]{1,18})", re.DOTALL)


class JsonlReader:
    """Iterate to get the rows of a JSONL file; the attributes report what was found on the way."""

    num_comments = 0
    has_pos = False
    doubts: tuple[str, ...] = ()

    def __init__(self, lines: Iterable[tuple[int, str]], options: ReadOptions, path: Path) -> None:
        self.options = options
        self.skipped: list[tuple[int, str]] = []
        self._lines = lines
        self._path = path
        self._labels_key = options.labels_key if options.labelled else None

    def resolved_options(self) -> ReadOptions:
        """The options with the key of the labels that was found."""
        return replace(self.options, labels_key=self._labels_key or self.options.labels_key)

    def __iter__(self) -> Iterator[Row]:
        for number, text in self._lines:
            if text.strip(" \t\r\n"):
                where = at(self._path, number)
                row = self.row(_parse(text, where), number, where)
                if row is not None:
                    if "\\" in text:
                        _check_encodable(row, where)
                    yield row

    def row(self, record: dict[str, Any], number: int, where: str) -> Row | None:
        """The row in a record; None, listed as skipped, for one without tokens."""
        tokens = _tokens(record, self.options.tokens_key, where)
        labels = self._labels(record, where)
        if labels is not None and len(labels) != len(tokens):
            raise DataError(f"{where}: found {len(tokens)} tokens and {len(labels)} labels; give each token one label")
        if not tokens:
            self.skipped.append((number, "a row without tokens"))
            return None
        row = Row(tokens, labels or (), (number,) * len(tokens))
        row.id = _name(record, ("id",), where)
        row.document = _name(record, DOCUMENT_KEYS, where)
        return row

    def _labels(self, record: dict[str, Any], where: str) -> tuple[str, ...] | None:
        if not self.options.labelled:
            return None
        if self._labels_key is None:
            self._labels_key = _find_labels_key(record, where)
        values = _list(record, self._labels_key, where)
        if set(map(type, values)) <= {str} and "" not in values:
            return tuple(map(sys.intern, values))
        return tuple([_label(value, self.options.labels, where) for value in values])


open_rows = JsonlReader


def edit_line(text: str, labels: dict[int, str], corpus: Corpus, number: int) -> str:
    """A JSONL row with some new labels."""
    key = corpus.options.labels_key
    assert key is not None
    spans = element_spans(text, member_spans(text)[key][0])
    return replace_spans(
        text,
        [(spans[place], _json_label(label, text, spans[place], corpus, number)) for place, label in labels.items()],
    )


def fresh(texts: Sequence[FreshText]) -> bytes:
    """A new file: ``id``, ``document`` if there is one, ``tokens`` and ``ner_tags``."""
    rows = [row for one in texts for row in one.rows]
    return "".join(f"{json.dumps(_fresh_row(row), ensure_ascii=False)}\n" for row in rows).encode()


def _fresh_row(row: Row) -> dict[str, Any]:
    names = {"id": row.id, "document": row.document}
    labels = {LABEL_KEYS[0]: row.labels} if row.labels else {}
    return {**{key: name for key, name in names.items() if name}, "tokens": row.tokens, **labels}


def _json_label(label: str, text: str, span: tuple[int, int], corpus: Corpus, number: int) -> str:
    """A label as the file writes it: a string, or the number of its name."""
    names: Sequence[str] = corpus.options.labels or ()
    if text[span[0]] == '"':
        return json.dumps(label, ensure_ascii=text.isascii())
    if label not in names:
        raise DataError(
            f"{at(corpus.path, number)}: the new label {label!r} is not one of the {len(names)} label names "
            "that the file was read with; add it to them, or choose another label"
        )
    return str(names.index(label))


def _parse(text: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "a value is too deep or too long"
        raise DataError(
            f"{where}: {shown(text)} is not valid JSON ({reason}); write one object per line, or set the format"
        ) from None
    if not isinstance(record, dict):
        raise DataError(f"{where}: found {shown(text.strip())}, expected an object with tokens and labels")
    return record


def _shown_value(value: Any) -> str:
    return type(value).__name__ if isinstance(value, list | dict) else shown(json.dumps(value))


def _list(record: dict[str, Any], key: str, where: str) -> list[Any]:
    if key not in record:
        keys = shown(", ".join(map(str, record)), limit=80)
        raise DataError(
            f"{where}: found no key {key!r}, only {keys}; add it, or name another with tokens_key or labels_key"
        )
    if not isinstance(record[key], list):
        found = _shown_value(record[key])
        raise DataError(f"{where}: found {found} under {key!r}, expected a list; give one item per token")
    return record[key]


def _tokens(record: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    values = _list(record, key, where)
    for value in values if set(map(type, values)) - {str} else ():
        if not isinstance(value, str):
            raise DataError(f"{where}: found the token {_shown_value(value)}, expected a string; put it in quotes")
    return tuple(map(sys.intern, values))


def _find_labels_key(record: dict[str, Any], where: str) -> str:
    for key in LABEL_KEYS:
        if key in record:
            return key
    keys = shown(", ".join(map(str, record)), limit=80)
    raise NoLabelsError(
        f"{where}: found no labels among the keys {keys}; set labels_key, or read the file as unlabelled"
    )


def _label(value: Any, names: Sequence[str] | None, where: str) -> str:
    """One label of a list that does not consist of strings only."""
    if isinstance(value, str) and value:
        return sys.intern(value)
    if not isinstance(value, int) or isinstance(value, bool):
        found = _shown_value(value)
        raise DataError(f"{where}: found the label {found}, expected a string or a whole number; rename it")
    if names is None:
        raise DataError(f"{where}: found the label {value}, a number; give the names of all labels")
    if not 0 <= value < len(names):
        last = len(names) - 1
        raise DataError(f"{where}: found the label {value}, expected 0 to {last}; give the names of all labels")
    return names[value]


def _name(record: dict[str, Any], keys: Sequence[str], where: str) -> str:
    """The first of these keys that the row has, as a string."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, bool) or not isinstance(value, str | int | float | None):
            found = _shown_value(value)
            raise DataError(f"{where}: found {found} under {key!r}, expected a string or a number; change it")
        if value is not None and value != "":
            return sys.intern(str(value))
    return ""


def _check_encodable(row: Row, where: str) -> None:
    """Raise for an escaped lone surrogate, which JSON allows but UTF-8 cannot encode."""
    for text in (*row.tokens, *row.labels, row.id, row.document):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(f"{where}: found half a surrogate pair in {shown(text)}; fix the escape") from None


def name_rows(rows: Sequence[Row], path: Path) -> None:
    """Set the id and the document of every row, once all rows are known."""
    if not any(row.document for row in rows):
        ids = [row.id for row in rows]
        for row, document in zip(rows, documents_of(ids) or ids, strict=True):
            row.document = document
    taken = {row.id for row in rows}
    met: set[str] = set()
    next_number: Counter[str] = Counter()
    for index, row in enumerate(rows):
        if not row.id or row.id in met:
            row.id = _unused(row.id or f"{stem(path)}:{index}", taken, next_number)
            taken.add(row.id)
        met.add(row.id)


def _unused(name: str, taken: set[str], next_number: Counter[str]) -> str:
    """The name, or the first of ``name#2``, ``name#3``... that no row has."""
    candidate = name
    while candidate in taken:
        next_number[name] = max(next_number[name] + 1, 2)
        candidate = f"{name}#{next_number[name]}"
    return candidate


def documents_of(ids: Sequence[str]) -> list[str] | None:
    """The document that each id names, or None if ids do not name documents.

    >>> documents_of(["a_1", "a_2", "b_1"])
    ['a', 'a', 'b']
    >>> documents_of(["a_1", "a_2"]) is None
    True
    """
    documents: list[str] = []
    seen: set[str] = set()
    last_number = -1
    for name in ids:
        match = _NUMBERED_ID.fullmatch(name)
        if match is None:
            return None
        document, number = sys.intern(match[1]), int(match[2])
        if documents and document == documents[-1]:
            if number <= last_number:
                return None
        elif document in seen:
            return None
        seen.add(document)
        documents.append(document)
        last_number = number
    return documents if len(seen) > 1 else None
