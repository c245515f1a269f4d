"""The columns of a CoNLL file, and the kind of each line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tagtrace._checks import DataError, NoLabelsError, at
from tagtrace.data.columns.fields import DOCUMENT_START, LINE_END, split_fields
from tagtrace.data.columns.numbering import RANGE_OR_EMPTY_NODE, numbering
from tagtrace.data.options import ReadOptions
from tagtrace.data.source import shown

_INVISIBLE = " \t\ufeff"


class LineKind(Enum):
    """The kind of a line of a CoNLL file."""

    TOKEN = "token"
    BLANK = "blank"
    COMMENT = "comment"
    DOCUMENT = "document start"
    RANGE = "multiword range or empty node"


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a file. ``numbered``: the first column counts the tokens of a sentence."""

    num_columns: int
    has_tabs: bool
    numbered: bool
    token: int
    label: int | None
    pos: int | None

    def kind(self, text: str, fields: Sequence[str]) -> LineKind:
        """The kind of a line; ``text`` has no line end and no trailing spaces."""
        if not text:
            return LineKind.BLANK
        if text[0] == "#" and self._is_comment(text, fields):
            return LineKind.COMMENT
        if DOCUMENT_START in text and self._starts_document(fields):
            return LineKind.DOCUMENT
        if self.numbered and RANGE_OR_EMPTY_NODE.fullmatch(fields[0]):
            return LineKind.RANGE
        if text[0] in _INVISIBLE and not text.strip(_INVISIBLE):
            return LineKind.BLANK  # stray byte-order marks
        return LineKind.TOKEN

    def is_sound(self, text: str, fields: Sequence[str]) -> bool:
        """Whether a token line has all its columns, and a value in those that are read."""
        return (
            len(fields) == self.num_columns
            and bool(fields[self.token])
            and (self.label is None or bool(fields[self.label]))
            and "\r" not in text
            and (not self.numbered or fields[0].isdecimal())
        )

    def _is_comment(self, text: str, fields: Sequence[str]) -> bool:
        other_columns = len(fields) != self.num_columns or ("\t" in text) != self.has_tabs
        return self.numbered or other_columns

    def _starts_document(self, fields: Sequence[str]) -> bool:
        return fields[0] == DOCUMENT_START or fields[self.token : self.token + 1] == [DOCUMENT_START]


def find_layout(lines: Iterable[tuple[int, str]], options: ReadOptions, path: Path) -> Layout | None:
    """The layout of a file, inferred from its first lines; None if none of them can be a token.

    The number of columns is that of the first line which is neither a possible comment nor the start of a document.
    """
    probed = [(number, text.rstrip(LINE_END)) for number, text in lines]
    candidates = [line for line in probed if line[1].strip(_INVISIBLE) and not _is_document_line(line[1])]
    if not candidates:
        return None
    number, text = min(candidates, key=lambda line: _likeness_to_a_comment(line[1]))
    num_columns = len(split_fields(text))
    numbered = options.token_column != 0 and numbering(probed, labelled=options.labelled).counts_tokens
    first = 1 if numbered else 0
    if num_columns < first + 1 + options.labelled:
        wanted = "a token and a label" if options.labelled else "a token"
        kind = NoLabelsError if num_columns == first + 1 and options.label_column is None else DataError
        raise kind(
            f"{at(path, number)}: found {num_columns} column{'s' * (num_columns != 1)} in {shown(text)}, "
            f"expected {wanted}; separate them by a tab or spaces, or read the file as unlabelled"
        )
    columns = _Columns(num_columns, number, path)
    token = columns.resolve("token", options.token_column, default=first)
    is_conllu = numbered and num_columns == 10  # Universal Dependencies: the fourth column is the part of speech
    label = columns.resolve("label", options.label_column, default=3 if is_conllu else -1) if options.labelled else None
    pos = None if options.pos_column is None else columns.resolve("pos", options.pos_column, default=0)
    if pos is None and not is_conllu and num_columns - first >= 3 and token + 1 < num_columns and token + 1 != label:
        pos = token + 1
    columns.check_distinct(token=token, label=label, pos=pos)
    return Layout(num_columns, "\t" in text, numbered, token, label, pos)


@dataclass(frozen=True, slots=True)
class _Columns:
    num_columns: int
    line: int
    path: Path

    def resolve(self, name: str, column: int | None, default: int) -> int:
        """A column counted from 0."""
        chosen = default if column is None else column
        if -self.num_columns <= chosen < self.num_columns:
            return chosen % self.num_columns
        raise DataError(
            f"{at(self.path, self.line)}: found {self.num_columns} columns, expected a {name} in column "
            f"{column} (the first is 0); choose another {name}_column"
        )

    def check_distinct(self, **columns: int | None) -> None:
        """Raise if one column would be read as two things."""
        names: dict[int, str] = {}
        for name, column in columns.items():
            if column is not None and names.setdefault(column, name) != name:
                raise DataError(
                    f"{at(self.path, self.line)}: column {column} cannot be both the {names[column]} and the {name}; "
                    f"choose another {name}_column (the first is 0)"
                )


def _likeness_to_a_comment(text: str) -> int:
    """0 for a token; among lines that start with ``#``, those with tabs are less likely to be comments."""
    if text[0] != "#":
        return 0
    return 1 if "\t" in text else 2


def _is_document_line(text: str) -> bool:
    return DOCUMENT_START in split_fields(text)[:2]
