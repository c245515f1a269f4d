"""Writing predicted labels beside those of a file, with everything else unchanged."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import merge
from itertools import groupby
from pathlib import Path

from tagtrace._checks import DataError, at
from tagtrace.data.columns.fields import LINE_END, split_fields
from tagtrace.data.columns.layout import Layout, LineKind, find_layout
from tagtrace.data.conll import SPACE_IN_LABEL, probe
from tagtrace.data.corpus import Corpus
from tagtrace.data.formats import FORMATS
from tagtrace.data.relabel import in_scheme, wanted_rows
from tagtrace.data.rewrite import check_source, stream_edited
from tagtrace.data.source import SourceFile
from tagtrace.data.spans.json_spans import set_member

_KEY = "predicted"


def write_predictions(
    corpus: Corpus, predicted: Sequence[Sequence[str]], target: str | Path, *, scheme: str | None = None
) -> None:
    """Write the corpus's file to ``target`` with one predicted label per token.

    ``predicted`` has the labels of each sentence of the corpus in the normalised scheme ``scheme`` (default: the
    corpus's). They are written in the file's own scheme, or unchanged if the file's labels are of another kind.
    CoNLL: a new last column, and a further ``#`` in comments that would otherwise be read as tokens with it. JSONL: the
    key ``predicted``, a list of strings, empty in rows without tokens. What is written reads back equal.
    """
    if corpus.format not in ("conll", "jsonl"):
        raise DataError(
            f"{at(corpus.path)}: predictions cannot be written beside {FORMATS[corpus.format].what}; "
            "convert the data first"
        )
    check_source(corpus)
    if len(predicted) != len(corpus.sentences):
        raise DataError(
            f"{at(corpus.path)}: found predictions for {len(predicted)} sentences, expected "
            f"{len(corpus.sentences)}; predict every sentence of the corpus"
        )
    is_alike = scheme is None or scheme == corpus.normalised_scheme
    written = corpus.scheme if is_alike else "none"
    if corpus.format == "jsonl":
        if corpus.options.tokens_key == _KEY:
            raise DataError(f"{at(corpus.path)}: its tokens have the key {_KEY!r}, which is for labels; rename theirs")
        empty = ((line, list[str]()) for line, _ in corpus.skipped)
        lines = merge(_predicted_lines(corpus, predicted, written), empty, key=lambda each: each[0])
        stream_edited(corpus, target, lines, _add_key)
    else:
        stream_edited(corpus, target, _further_column(corpus, predicted, written), _add_column)


def _predicted_lines(
    corpus: Corpus, predicted: Sequence[Sequence[str]], scheme: str
) -> Iterator[tuple[int, list[str]]]:
    """The predicted labels of each line that has tokens."""
    for row, labels in wanted_rows(corpus, predicted):
        if labels is None:
            raise DataError(
                f"{at(corpus.path, row.lines[0])}: found no predicted labels for this sentence; predict every "
                "sentence of the corpus"
            )
        pairs = zip(row.lines, in_scheme(labels, scheme), strict=True)
        for line, group in groupby(pairs, key=lambda pair: pair[0]):
            yield line, [label for _, label in group]


def _add_key(_: int, text: str, labels: list[str]) -> str:
    return set_member(text, _KEY, json.dumps(labels, ensure_ascii=text.isascii()))


def _add_column(number: int, text: str, label: str) -> str:
    if not label or SPACE_IN_LABEL.search(label):
        raise DataError(f"line {number}: the predicted label {label!r} is empty or contains spaces; use JSON lines")
    end = len(text.rstrip(LINE_END))
    separator = "\t" if "\t" in text[:end] else " "
    return text[:end] + separator + label + text[end:]


def _further_column(corpus: Corpus, predicted: Sequence[Sequence[str]], scheme: str) -> Iterator[tuple[int, str]]:
    """What to append to each line that has all columns; for lines that are not tokens, their own filler.

    A comment that has as many columns as a token will have gets one more, so that it stays a comment.
    """
    labels = _predicted_lines(corpus, predicted, scheme)
    probed, rest = probe(SourceFile(corpus.path).texts())
    layout = find_layout(probed, corpus.options, corpus.path)
    assert layout is not None
    wider = replace(layout, num_columns=layout.num_columns + 1)
    for number, line in (line for part in (probed, rest) for line in part):
        text = line.rstrip(LINE_END)
        fields = split_fields(text)
        kind = layout.kind(text, fields)
        if kind is LineKind.TOKEN:
            yield number, next(labels)[1][0]
        elif kind in (LineKind.DOCUMENT, LineKind.RANGE) and len(fields) == layout.num_columns:
            yield number, fields[_filler_column(layout)]
        elif kind is LineKind.COMMENT and wider.kind(text, fields) is not kind:
            yield number, "#"
    assert next(labels, None) is None


def _filler_column(layout: Layout) -> int:
    return layout.num_columns - 1 if layout.label is None else layout.label
