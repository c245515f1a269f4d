"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tagtrace.data import ReadOptions

_F = TypeVar("_F", bound=Callable[..., Any])

_READING = (
    click.option("--format", "file_format", default="auto", show_default=True,
                 type=click.Choice(["auto", "conll", "jsonl"]), help="Format of the data files."),
    click.option("--scheme", default="auto", show_default=True,
                 help="Label scheme: iob1, iob2, bioes, bilou, io, plain."),
    click.option("--token-column", type=int, help="CoNLL: column of the token, from 0. [default: found out]"),
    click.option("--label-column", type=int, help="CoNLL: column of the label. [default: the last]"),
    click.option("--pos-column", type=int, help="CoNLL: column of the part of speech. [default: found out]"),
    click.option("--tokens-key", default="tokens", show_default=True, help="JSON lines: key of the tokens."),
    click.option("--labels-key", help="JSON lines: key of the labels. [default: ner_tags, labels, tags, ...]"),
    click.option("--label-names", help="JSON lines: names of numbered labels, separated by commas."),
)  # fmt: skip

READING_NAMES = (
    "file_format", "scheme", "token_column", "label_column", "pos_column", "tokens_key", "labels_key", "label_names"
)  # fmt: skip


def reading_options(command: _F) -> _F:
    """Add the options that say how data files are read."""
    for option in reversed(_READING):
        command = option(command)
    return command


def read_options(values: dict[str, Any], *, labelled: bool = True) -> ReadOptions:
    """ReadOptions from what ``reading_options`` collected; takes them out of ``values``."""
    given = {name: values.pop(name) for name in READING_NAMES}
    names = given["label_names"]
    return ReadOptions(
        format=given["file_format"],
        scheme=given["scheme"],
        token_column=given["token_column"],
        label_column=given["label_column"],
        pos_column=given["pos_column"],
        labels=None if names is None else names.split(","),
        tokens_key=given["tokens_key"],
        labels_key=given["labels_key"],
        labelled=labelled,
    )
