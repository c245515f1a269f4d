"""``tagtrace audit``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from tagtrace.cli.options import device_option, read_options, reading_options, tagger_option
from tagtrace.cli.show import counting_several, show, training_several
from tagtrace.data import ReadOptions, read_corpus
from tagtrace.findings import SCORES, AuditOptions, run_audit
from tagtrace.findings.audit_folder import check_audit_folder
from tagtrace.index import open_index


@click.command()
@click.argument("folder", metavar="INDEX", type=click.Path(path_type=Path))
@click.option("--trusted", "trusted_file", type=click.Path(path_type=Path), metavar="FILE",
              help="A little data with correct labels, not part of the training data. "
              "[default: none; systematic mistakes then stay hidden]")  # fmt: skip
@click.option("--out", "target", type=click.Path(path_type=Path), default=Path("tagtrace-audit"), show_default=True,
              help="Folder for findings, patterns and the report.")  # fmt: skip
@click.option("--query", metavar="GOLD:PREDICTED",
              help="Only one kind of error: ORG:LOC asks which labels make the tagger predict LOC for "
              "ORG.")  # fmt: skip
@click.option("--score", type=click.Choice(SCORES), default="combined", show_default=True,
              help="Score by which labels are ranked.")  # fmt: skip
@click.option("--judges", type=click.Choice(["auto", "head", "encoder"]), default="auto", show_default=True,
              help="Who judges the labels. head: heads refitted on the index's features. encoder: taggers trained "
              "again without each fold. auto: encoder, unless that needs a GPU and there is none.")  # fmt: skip
@click.option("--folds", type=int, default=5, show_default=True,
              help="Number of folds of the cross-validation over documents.")  # fmt: skip
@click.option("--most", type=int, default=1000, show_default=True, help="Maximum number of findings.")
@click.option("--effects", type=int, default=3, show_default=True,
              help="Number of patterns whose effect on the trusted data is verified by retraining.")  # fmt: skip
@click.option("--truth", "truth_file", type=click.Path(path_type=Path), metavar="FILE",
              help="The training data with its true labels, to measure what is found. "
              "It does not change the ranking.")  # fmt: skip
@click.option("--data", "data_file", type=click.Path(path_type=Path), metavar="FILE",
              help="The training data. [default: where it was when the index was built]")  # fmt: skip
@click.option("--encoder", help="The untrained encoder of the judges, as for train. [default: the tagger's]")
@tagger_option
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the folds and of new encoders.")
@device_option
@reading_options
def audit(folder: Path, **values: Any) -> None:
    """Find the training labels of an INDEX that are probably wrong, and the systematic mistakes behind them.

    The folder OUT gets the findings (JSON lines and CSV), the patterns and a report to read in the browser. An
    interrupted audit resumes when the same command is given again.
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
    corpus = None
    if values["data_file"] is not None:
        corpus = read_corpus(values["data_file"], ReadOptions(**index.manifest.data["options"]))
    with counting_several() as progress, training_several() as training:
        found = run_audit(
            index, trusted, options, truth=truth, corpus=corpus, tagger=values["tagger_folder"],
            work=target / "folds", device=values["device"], progress=progress,
            training=lambda fold, step: training(_run_name(fold, options.num_folds), step),
        )  # fmt: skip
    found.save(target)
    show(found)
    show(f"The report is {target / 'report.html'} ({time.monotonic() - start:.0f} s in all).")


_FILES = ("trusted_file", "truth_file")


def _run_name(fold: int, num_folds: int) -> str:
    return f"fold {fold + 1} of {num_folds}" if fold < num_folds else "the tagger itself, further on the trusted data"
