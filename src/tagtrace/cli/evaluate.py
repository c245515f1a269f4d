"""``tagtrace evaluate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from tagtrace.cli.options import Command, device_option, read_options, reading_options
from tagtrace.cli.show import counting, show
from tagtrace.data import read_corpus
from tagtrace.tagger import load_tagger, pick_device


@click.command(cls=Command)
@click.argument("folder", metavar="TAGGER", type=click.Path(path_type=Path))
@click.argument("file", metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--constrained/--free", default=True, show_default=True, help="Predict only well-formed label sequences.")
@device_option
@reading_options
def evaluate(folder: Path, file: str, as_json: bool, **values: Any) -> None:
    """Compare the predictions of TAGGER with the labels in FILE: precision, recall and F1 of segments and tokens."""
    corpus = read_corpus(file, read_options(values))
    tagger = load_tagger(folder).to(pick_device(values["device"]))
    with counting("predicting") as progress:
        card = tagger.evaluate(corpus, constrained=values["constrained"], progress=progress)
    if as_json:
        click.echo(json.dumps(card.to_json(), indent=1))
    else:
        show(card.table(file))
        show(f"accuracy {100 * card.accuracy:.2f}")
