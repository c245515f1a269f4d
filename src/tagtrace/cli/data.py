"""``tagtrace data``: look at data files."""

from __future__ import annotations

import json
from typing import Any

import click

from tagtrace._checks import DataError
from tagtrace.cli.options import read_options, reading_options
from tagtrace.cli.show import out, summary_table
from tagtrace.data import Summary, read_corpus, summarise

_MOST_LISTED = 10


@click.group()
def data() -> None:
    """Look at data files."""


@data.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@reading_options
def check(files: tuple[str, ...], as_json: bool, **values: Any) -> None:
    """Count documents, sentences, tokens and segments, and list broken labels.

    Reads CoNLL columns or JSON lines, plain or gzip; the label scheme is found out unless given.
    """
    options = read_options(values)
    summaries = [summarise(read_corpus(path, options)) for path in files]
    if as_json:
        click.echo(json.dumps([summary.to_json() for summary in summaries], ensure_ascii=False, indent=1))
        return
    out.print(summary_table(summaries))
    for summary in summaries:
        _list_oddities(summary)
    _compare_labels(summaries)


def _list_oddities(summary: Summary) -> None:
    for kind, entries in (("violation", summary.violations), ("skipped", summary.skipped)):
        for line, message in entries[:_MOST_LISTED]:
            click.echo(f"{summary.path}, line {line}: {kind}: {message}")
        if len(entries) > _MOST_LISTED:
            click.echo(f"{summary.path}: and {len(entries) - _MOST_LISTED} more (all of them with --json)")


def _compare_labels(summaries: list[Summary]) -> None:
    """Say which types a file has that the first one lacks: a tagger trained on it cannot know them."""
    first = summaries[0]
    for summary in summaries[1:]:
        unknown = sorted(set(summary.segments_per_type) - set(first.segments_per_type))
        if unknown:
            raise DataError(
                f"{summary.path}: has types that {first.path} lacks: {', '.join(unknown)}; a tagger trained on the one "
                "cannot know them (give the training file first)"
            )
