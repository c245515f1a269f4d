"""``tagtrace data``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tagtrace.cli.options import Command, overwrite_option, read_options, reading_options, unlabelled_option
from tagtrace.cli.places import Input, OutputData
from tagtrace.cli.show import show, show_json
from tagtrace.data import convert as convert_corpus
from tagtrace.data import read_corpus, summarise
from tagtrace.data.convert import FRESH_NAMES, format_of, is_folder
from tagtrace.data.summary import check_same_types, summary_table


@click.group()
def data() -> None:
    """Check data, or convert it to another format."""


@data.command(cls=Command, short_help="Count what data files contain, and list broken labels.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=Input())
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@reading_options
def check(files: tuple[Path, ...], as_json: bool, **values: Any) -> None:
    """Count documents, sentences, tokens and segments, and list broken labels.

    With several files, give the training data first: types that it does not have are an error in the others.
    """
    options = read_options(values)
    summaries = [summarise(read_corpus(path, options)) for path in files]
    if as_json:
        show_json([summary.to_json() for summary in summaries])
        return
    show(summary_table(summaries))
    for summary in summaries:
        for line in summary.oddities():
            show(line)
    check_same_types(summaries)


@data.command("convert", cls=Command, short_help="Write data in another format.")
@click.argument("source", metavar="IN", type=Input())
@click.argument("target", metavar="OUT", type=OutputData(lambda given: is_folder(given["to"])))
@click.option("--to", type=click.Choice(FRESH_NAMES), metavar="FORMAT",
              help=f"Format of OUT: {', '.join(FRESH_NAMES)}. [default: what its name says]")  # fmt: skip
@unlabelled_option
@overwrite_option
@reading_options
def convert(source: Path, target: Path, to: str | None, overwrite: bool, **values: Any) -> None:
    """Write the data of IN to OUT in another format, and say what is lost.

    Tokens of a format without texts are joined by spaces, one sentence in each line. OUT is read back before it gets
    its name: if labels would be lost, it is not written.
    """
    format_of(target, to or "auto")
    corpus = read_corpus(source, read_options(values), require_labels=not values["unlabelled"])
    show(convert_corpus(corpus, target, to or "auto", overwrite=overwrite))
