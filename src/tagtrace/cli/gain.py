"""``tagtrace gain``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tagtrace._documents import recorded_path
from tagtrace._files import write_json
from tagtrace.cli.labels_to_learn import decisions_option, trusted_option, trusted_sentences
from tagtrace.cli.options import (
    Command,
    device_option,
    json_option,
    read_options,
    reading_options,
    tagger_option,
)
from tagtrace.cli.places import EncoderName, IndexFolder, Input, KeptFolder
from tagtrace.cli.show import counting, refit_line, show, training_several
from tagtrace.data import read_corpus
from tagtrace.findings import gain as measure_gain
from tagtrace.index import open_index_or_tagger


@click.command(cls=Command)
@click.argument("folder", metavar="INDEX_OR_TAGGER", type=IndexFolder())
@click.argument("before_file", metavar="BEFORE", type=Input())
@click.argument("after_file", metavar="AFTER", type=Input())
@click.option("--test", "test_file", required=True, metavar="FILE", type=Input(),
              help="Held-out data with correct labels.")  # fmt: skip
@click.option("--retrain", type=click.Choice(["head", "everything"]), default="head", show_default=True,
              help="Retrain only the head, to its exact optimum, or everything: the encoder too, as the tagger was "
              "trained.")  # fmt: skip
@click.option("--seeds", type=int, default=1, show_default=True,
              help="With --retrain everything: number of training runs on each side, which are averaged.")  # fmt: skip
@click.option("--dev", "dev_file", metavar="FILE", type=Input(),
              help="With --retrain everything: data that chooses the epoch, as in training.")  # fmt: skip
@trusted_option
@decisions_option
@click.option("--encoder", type=EncoderName(),
              help="With --retrain everything: untrained encoder to start from, as for train. "
              "[default: the tagger's]")  # fmt: skip
@click.option("--work", type=KeptFolder(), metavar="FOLDER",
              help="With --retrain everything: folder for finished runs, so that an interrupted command can "
              "resume.")  # fmt: skip
@click.option("--l2", type=float,
              help="With --retrain head: L2 strength. [default: that of the index or tagger]")  # fmt: skip
@click.option(
    "--samples", type=int, default=1000, show_default=True, help="Number of bootstrap samples for the interval."
)
@json_option
@tagger_option
@device_option
@reading_options
def gain(folder: Path, before_file: Path, after_file: Path, **values: Any) -> None:
    """Measure what a fix gains: retrain on BEFORE and on AFTER, and compare F1 on held-out data.

    BEFORE and AFTER are the same training data with different labels. The interval of the difference comes from a
    paired bootstrap over documents, or over sentences if the data has no documents. With --retrain everything, training
    on AFTER can end on labels that are known to be right (--trusted, --decisions).
    """
    options = read_options(values)
    source = open_index_or_tagger(folder)
    before, after, test = (read_corpus(path, options) for path in (before_file, after_file, values["test_file"]))
    dev = read_corpus(values["dev_file"], options) if values["dev_file"] else None
    trusted = trusted_sentences(values["trusted_file"], values["project_folder"], after, options)
    with counting("encoding") as encoding, training_several() as training:
        found = measure_gain(
            source, before, after, test, values["retrain"], dev=dev, trusted=trusted, num_seeds=values["seeds"],
            encoder=values["encoder"], l2=values["l2"], samples=values["samples"], tagger=values["tagger_folder"],
            work=values["work"], device=values["device"], encoding=encoding, refitting=refit_line, training=training,
        )  # fmt: skip
    show(found)
    if values["json_file"] is not None:
        files = {"before_file": before_file, "after_file": after_file, "test_file": values["test_file"]}
        asked = {name: recorded_path(path) for name, path in files.items()} | {"samples": values["samples"]}
        write_json(values["json_file"], {**asked, "seeds": values["seeds"], **found.to_json()})
