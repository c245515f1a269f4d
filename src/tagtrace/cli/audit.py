"""``tagtrace audit``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, get_args

import click

from tagtrace.cli.options import Command, device_option, read_options, reading_options, tagger_option
from tagtrace.cli.places import EncoderName, IndexFolder, Input, KeptFolder
from tagtrace.cli.show import counting_several, show, training_several
from tagtrace.data import read_corpus
from tagtrace.findings import SCORES, AuditOptions, run_audit
from tagtrace.findings.audit_folder import check_audit_folder
from tagtrace.findings.options import Judges
from tagtrace.index import open_index


@click.command(cls=Command)
@click.argument("folder", metavar="INDEX", type=IndexFolder())
@click.option("--trusted", "trusted_file", type=Input(), metavar="FILE",
              help="Some data with correct labels that is not part of the training data. Without it, systematic "
              "mistakes stay hidden.")  # fmt: skip
@click.option("--out", "target", type=KeptFolder(), default=Path("tagtrace-audit"), show_default=True,
              metavar="FOLDER", help="Folder for the findings, the patterns and the report.")  # fmt: skip
@click.option("--query", metavar="GOLD:PREDICTED",
              help="Look for the causes of one kind of error only. ORG:LOC: labels that make the tagger predict LOC "
              "where ORG is correct.")  # fmt: skip
@click.option("--score", type=click.Choice(SCORES), default="combined", show_default=True, metavar="SCORE",
              help=f"Score that ranks the labels: {', '.join(SCORES)}.")  # fmt: skip
@click.option("--judges", type=click.Choice(get_args(Judges)), default="auto", show_default=True,
              help="Who judges each label, without having seen it in training. head: heads refitted on the features of "
              "the index. encoder: taggers trained again, encoder included, and asked after every epoch if there is no "
              "trusted data. auto: encoder, unless that needs a GPU and there is none.")  # fmt: skip
@click.option("--folds", type=int, default=5, show_default=True,
              help="Number of parts into which documents are divided; each part is judged by a tagger that was "
              "trained on the others.")  # fmt: skip
@click.option("--most", type=int, default=1000, show_default=True, help="Maximum number of findings.")
@click.option("--effects", type=int, default=3, show_default=True,
              help="Number of patterns whose effect on the trusted data is checked by retraining.")  # fmt: skip
@click.option("--truth", "truth_file", type=Input(), metavar="FILE",
              help="The training data with correct labels, to measure how many errors are found. It does not change "
              "the ranking.")  # fmt: skip
@click.option("--data", "data_file", type=Input(), metavar="FILE",
              help="The training data. [default: where it was when the index was built]")  # fmt: skip
@click.option(
    "--encoder",
    type=EncoderName(),
    help="Untrained encoder that the judges start from, as for train. [default: the tagger's]",
)
@tagger_option
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed of the folds and of new encoders.")
@device_option
@reading_options
def audit(folder: Path, **values: Any) -> None:
    """Find the training labels in INDEX that are probably wrong, and the systematic mistakes behind them.

    The folder given by --out gets the findings (JSON lines and CSV), the patterns, and a report to read in a browser.
    An interrupted audit resumes when the same command is run again.
    """
    start = time.monotonic()
    reading, target = read_options(values), values["target"]
    options = AuditOptions(
        values["score"], values["query"], values["most"], num_effects=values["effects"], judges=values["judges"],
        num_folds=values["folds"], encoder=values["encoder"], seed=values["seed"],
    )  # fmt: skip
    check_audit_folder(target)
    index = open_index(folder, verify=True)
    trusted, truth = (None if values[name] is None else read_corpus(values[name], reading) for name in _FILES)
    with counting_several() as progress, training_several() as training:
        found = run_audit(
            index, trusted, options, truth=truth, corpus=values["data_file"], tagger=values["tagger_folder"],
            work=target / "folds", device=values["device"], progress=progress, training=training,
        )  # fmt: skip
    found.save(target)
    show(found)
    show(f"The report is {target / 'report.html'} ({time.monotonic() - start:.0f} s in all).")


_FILES = ("trusted_file", "truth_file")
