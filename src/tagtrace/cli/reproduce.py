"""``tagtrace reproduce``."""

from __future__ import annotations

from pathlib import Path

import click

from tagtrace.cli.device import device_option, pick_device
from tagtrace.reproduce import Setting, parse_seeds, pick
from tagtrace.reproduce import reproduce as run


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--data", required=True, type=click.Path(path_type=Path), metavar="DIR",
              help="A folder that holds conll2003, conll2003_corrected, ebmnlp and glove.")  # fmt: skip
@click.option("--encoder", metavar="DIR", help="A folder with a transformer; or lexical, vectors:FILE, as for train.")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR",
              help="Where results and figures go; those that are there already are not worked out again.")  # fmt: skip
@click.option("--quick", is_flag=True, help="A small slice, word vectors; fails unless the result has its direction.")
@click.option("--seeds", default="0", show_default=True, help="Separated by commas; the table shows their mean.")
@device_option
def reproduce(name: str, data: Path, encoder: str | None, out: Path, quick: bool, seeds: str, device: str) -> None:
    """Run an experiment of the paper: its table, and its figures in the folder OUT.

    NAME is exact, artifact, errors, noise, dosage, sensitivity, or all. Progress goes to standard error, the table to
    standard output. Finished seeds, trained taggers and indexes are kept there: given again, the same command goes on
    from them.
    """
    setting = Setting(data, out, encoder, quick, pick_device(device), lambda line: click.echo(line, err=True))
    numbers = parse_seeds(seeds)
    for experiment in pick(name, setting):
        click.echo(run(experiment.name, setting, numbers))
