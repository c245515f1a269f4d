"""``tagtrace evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tagtrace.cli.options import Command, device_option, pooling_option, read_options, reading_options
from tagtrace.cli.places import Input
from tagtrace.cli.show import counting, show, show_json
from tagtrace.data import read_corpus
from tagtrace.tagger import load_tagger, pick_device


@click.command(cls=Command)
@click.argument("folder", metavar="TAGGER", type=Input())
@click.argument("file", metavar="FILE", type=Input())
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--constrained/--free", default=True, show_default=True, help="Predict only well-formed label sequences.")
@pooling_option
@device_option
@reading_options
def evaluate(folder: Path, file: Path, as_json: bool, **values: Any) -> None:
    """Compare the predictions of TAGGER with the labels in FILE: precision, recall and F1 of segments and tokens.

    TAGGER is the folder of a saved tagger or of a Hugging Face token classifier.
    """
    corpus = read_corpus(file, read_options(values))
    tagger = load_tagger(folder, pooling=values["pooling"]).to(pick_device(values["device"]))
    with counting("predicting") as progress:
        card = tagger.evaluate(corpus, constrained=values["constrained"], progress=progress)
    if as_json:
        show_json(card.to_json())
    else:
        show(card.table(str(file)))
        show(f"accuracy {100 * card.accuracy:.2f}")
