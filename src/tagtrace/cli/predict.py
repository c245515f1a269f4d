"""``tagtrace predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tagtrace.cli.options import (
    Command,
    device_option,
    overwrite_option,
    pooling_option,
    read_options,
    reading_options,
    unlabelled_option,
)
from tagtrace.cli.places import Input, OutputFile
from tagtrace.cli.show import counting, show
from tagtrace.data import read_corpus, write_predictions
from tagtrace.tagger import load_tagger, pick_device


@click.command(cls=Command)
@click.argument("folder", metavar="TAGGER", type=Input())
@click.argument("file", metavar="FILE", type=Input())
@click.argument("target", metavar="OUT", type=OutputFile())
@unlabelled_option
@overwrite_option
@click.option("--constrained/--free", default=True, show_default=True, help="Predict only well-formed label sequences.")
@pooling_option
@device_option
@reading_options
def predict(folder: Path, file: Path, target: Path, **values: Any) -> None:
    """Label FILE with TAGGER. OUT is a copy of FILE with one more column (in JSON lines, the key `predicted`).

    TAGGER is the folder of a saved tagger or of a Hugging Face token classifier.
    """
    options = read_options(values)
    tagger = load_tagger(folder, pooling=values["pooling"]).to(pick_device(values["device"]))
    corpus = read_corpus(file, options, require_labels=False)
    with counting("predicting") as progress:
        predicted = tagger.predict(corpus, constrained=values["constrained"], progress=progress)
    write_predictions(corpus, predicted, target, scheme=tagger.labels.scheme)
    show(f"wrote {target}: {len(predicted):,} sentences")
