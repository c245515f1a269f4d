"""Options for reading a data file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tagtrace._checks import OptionError
from tagtrace.data.schemes import named_scheme

FORMAT_NAMES = (
    "auto", "conll", "jsonl", "conllu", "parquet", "dataset", "docbin", "xmi", "cas-json", "webanno-tsv", "doccano",
    "brat", "prodigy", "label-studio",
)  # fmt: skip
"""``auto`` and the names of all formats (``formats``)."""


@dataclass(frozen=True)
class ReadOptions:
    """How to read a data file; the defaults detect everything. Columns are counted from 0; -1 is the last."""

    format: str = "auto"
    """One of ``FORMAT_NAMES``; ``auto`` detects it."""
    scheme: str = "auto"
    """A label scheme (see ``schemes``) or ``auto``."""
    token_column: int | None = None
    """CoNLL: by default the first column, or the second if the first counts the tokens."""
    label_column: int | None = None
    """CoNLL: by default the last column."""
    pos_column: int | None = None
    """CoNLL: by default the column after the token, if there are three columns or more."""
    labels: Sequence[str] | None = None
    """JSONL: the names of labels that the file gives as numbers."""
    tokens_key: str = "tokens"
    """JSONL: the key of the tokens."""
    labels_key: str | None = None
    """JSONL: the key of the labels; by default the first common one in the first row (``ner_tags``, ``labels``...).
    CoNLL-U: the key in MISC; by default ``NER`` or ``ner``."""
    labelled: bool = True
    """False for a file without labels, or to ignore its labels."""

    def __post_init__(self) -> None:
        if self.format not in FORMAT_NAMES:
            raise OptionError(f"unknown format {self.format!r}; choose one of {', '.join(FORMAT_NAMES)}")
        if self.scheme != "auto":
            object.__setattr__(self, "scheme", named_scheme(self.scheme))
        self._check_columns()
        self._check_names()
        for name, key in (("tokens_key", self.tokens_key), ("labels_key", self.labels_key)):
            if key is not None and (not isinstance(key, str) or not key):
                raise OptionError(f"{name} must be the name of a key; got {key!r}")
            _check_is_text(name, key or "")
        if self.tokens_key == self.labels_key:
            raise OptionError(f"tokens_key and labels_key are both {self.tokens_key!r}; they must differ")

    def _check_columns(self) -> None:
        columns: dict[int, str] = {}
        for name in ("token_column", "label_column", "pos_column"):
            column = getattr(self, name)
            if column is None:
                continue
            if not isinstance(column, int) or isinstance(column, bool):
                raise OptionError(f"{name} must be a whole number (the first column is 0); got {column!r}")
            if column in columns:
                raise OptionError(f"{columns[column]} and {name} are both {column}; they must differ")
            columns[column] = name

    def _check_names(self) -> None:
        if self.labels is None:
            return
        if isinstance(self.labels, str) or not all(isinstance(name, str) and name for name in self.labels):
            raise OptionError(f"labels must be a list of names; got {self.labels!r}")
        if len(set(self.labels)) < len(self.labels):
            raise OptionError("labels must be distinct names; one occurs twice")
        for name in self.labels:
            _check_is_text("labels", name)
        object.__setattr__(self, "labels", tuple(self.labels))


def _check_is_text(name: str, value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:  # bytes of a command line that are not UTF-8
        raise OptionError(f"{name}: {value!r} is not UTF-8; write it in UTF-8") from None
