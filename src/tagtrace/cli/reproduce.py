"""``tagtrace reproduce``."""

from __future__ import annotations

from pathlib import Path

import click

from tagtrace.cli.options import Command, device_option
from tagtrace.cli.places import EncoderName, Input, KeptFolder
from tagtrace.reproduce import Setting, parse_seeds, pick
from tagtrace.reproduce import reproduce as run
from tagtrace.tagger import pick_device


@click.command(cls=Command)
@click.argument("name", metavar="NAME")
@click.option("--data", required=True, type=Input(may_hold_outputs=True), metavar="DIR",
              help="Folder that contains conll2003, conll2003_corrected, ebmnlp and glove.")  # fmt: skip
@click.option("--encoder", type=EncoderName(), metavar="DIR",
              help="Folder of a transformer, or an encoder as for train: lexical, vectors:FILE.")  # fmt: skip
@click.option("--out", required=True, type=KeptFolder(), metavar="DIR",
              help="Folder for results and figures. Results that are already there are not computed "
              "again.")  # fmt: skip
@click.option("--quick", is_flag=True,
              help="Run on a small part of the data with word vectors, and fail unless the result has the expected "
              "direction.")  # fmt: skip
@click.option("--seeds", default="0", show_default=True, help="Seeds separated by commas; the table shows their mean.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True,
              help="Number of trainings at a time, for lds.")  # fmt: skip
@device_option
def reproduce(
    name: str, data: Path, encoder: str | None, out: Path, quick: bool, seeds: str, jobs: int, device: str
) -> None:
    """Run an experiment of the paper: print its table and write its figures to OUT.

    NAME is exact, artifact, errors, noise, dosage, sensitivity, lds, directed, loop, or all. Finished seeds, trained
    taggers and indexes are kept in OUT, so an interrupted run resumes when the same command is run again.
    """
    setting = Setting(data, out, encoder, quick, pick_device(device), lambda line: click.echo(line, err=True), jobs)
    numbers = parse_seeds(seeds)
    for experiment in pick(name, setting):
        click.echo(run(experiment.name, setting, numbers))
