"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tagtrace._checks import OptionError
from tagtrace.data import ReadOptions

_F = TypeVar("_F", bound=Callable[..., Any])

_READING = (
    click.option("--format", "file_format", default="auto", show_default=True,
                 type=click.Choice(["auto", "conll", "jsonl"]), help="Format of the data files."),
    click.option("--scheme", default="auto", show_default=True,
                 help="Label scheme: iob1, iob2, bioes, bilou, io or plain."),
    click.option("--token-column", type=int, help="CoNLL: column of the token, from 0. [default: detected]"),
    click.option("--label-column", type=int, help="CoNLL: column of the label. [default: the last]"),
    click.option("--pos-column", type=int, help="CoNLL: column of the part of speech. [default: detected]"),
    click.option("--tokens-key", default="tokens", show_default=True, help="JSON lines: key of the tokens."),
    click.option("--labels-key", help="JSON lines: key of the labels. [default: ner_tags, labels, tags, ...]"),
    click.option("--label-names", help="JSON lines: names of numbered labels, separated by commas."),
)  # fmt: skip

READING_NAMES = (
    "file_format", "scheme", "token_column", "label_column", "pos_column", "tokens_key", "labels_key", "label_names"
)  # fmt: skip

device_option = click.option(
    "--device", default="auto", show_default=True, help="auto (a GPU if there is one), cpu, cuda, cuda:1, ..."
)
tagger_option = click.option(
    "--tagger", "tagger_folder", type=click.Path(path_type=Path),
    help="The index's tagger. [default: where it was when the index was built]",
)  # fmt: skip
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace the output if it exists.")
json_option = click.option(
    "--json", "json_file", type=click.Path(path_type=Path), metavar="FILE", help="Also write the answer as JSON."
)
unlabelled_option = click.option("--unlabelled", is_flag=True, help="The data has no labels. [default: detected]")


def together(*options: Callable[[_F], _F]) -> Callable[[_F], _F]:
    """Several options as one decorator, in this order."""

    def decorate(command: _F) -> _F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


reading_options = together(*_READING)


def read_options(values: dict[str, Any]) -> ReadOptions:
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
        labelled=not values.get("unlabelled", False),
    )


def parse_slice(text: str | None) -> tuple[int, int] | None:
    """``3:5`` as (3, 5)."""
    if text is None:
        return None
    try:
        start, stop = (int(part) for part in text.split(":"))
    except ValueError:
        raise OptionError(f"--segment {text!r}: expected START:STOP, for example 3:5") from None
    return start, stop
