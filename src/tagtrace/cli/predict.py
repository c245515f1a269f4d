"""``tagtrace predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tagtrace._files import check_outputs
from tagtrace.cli.options import device_option, overwrite_option, read_options, reading_options, unlabelled_option
from tagtrace.cli.show import counting, show
from tagtrace.data import read_corpus, write_predictions
from tagtrace.tagger import load_tagger, pick_device


@click.command()
@click.argument("folder", metavar="TAGGER", type=click.Path(path_type=Path))
@click.argument("file", metavar="FILE")
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@unlabelled_option
@overwrite_option
@click.option("--constrained/--free", default=True, show_default=True, help="Allow only well-formed labels.")
@device_option
@reading_options
def predict(folder: Path, file: str, target: Path, **values: Any) -> None:
    """Label FILE; OUT is FILE with one more column (JSON lines: the key `predicted`)."""
    options = read_options(values)
    if target.is_file():
        check_outputs({"the predictions": target}, {"FILE": Path(file)}, overwrite=values["overwrite"])
    tagger = load_tagger(folder).to(pick_device(values["device"]))
    corpus = read_corpus(file, options, require_labels=False)
    tagger.encoder.check_corpus(corpus)
    with counting("predicting") as progress:
        predicted = tagger.predict(corpus.sentences, constrained=values["constrained"], progress=progress)
    write_predictions(corpus, predicted, target, scheme=tagger.labels.scheme)
    show(f"wrote {target}: {len(predicted):,} sentences")
