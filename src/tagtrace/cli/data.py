"""``tagtrace data``."""

from __future__ import annotations

import json
from typing import Any

import click

from tagtrace.cli.options import Command, read_options, reading_options
from tagtrace.cli.show import show
from tagtrace.data import read_corpus, summarise
from tagtrace.data.summary import check_same_types, summary_table


@click.group()
def data() -> None:
    """Look at data files."""


@data.command(cls=Command, short_help="Count what data files contain, and list broken labels.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@reading_options
def check(files: tuple[str, ...], as_json: bool, **values: Any) -> None:
    """Count documents, sentences, tokens and segments, and list broken labels.

    With several files, give the training data first: types that it does not have are an error in the others.
    """
    options = read_options(values)
    summaries = [summarise(read_corpus(path, options)) for path in files]
    if as_json:
        click.echo(json.dumps([summary.to_json() for summary in summaries], ensure_ascii=False, indent=1))
        return
    show(summary_table(summaries))
    for summary in summaries:
        for line in summary.oddities():
            show(line)
    check_same_types(summaries)
