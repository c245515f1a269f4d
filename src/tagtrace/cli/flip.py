"""``tagtrace flip``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from tagtrace._files import write_json
from tagtrace._markup import counted
from tagtrace.cli.options import Command
from tagtrace.cli.show import counting, note, show
from tagtrace.cli.what_if import prepare_question, query_options, read_retrain, retrain_options
from tagtrace.influence.edits.flip import HowToEdit, WhatToEdit


@click.command(cls=Command)
@query_options
@click.option("--edit", type=click.Choice(get_args(HowToEdit)), default="remove", show_default=True,
              help="Remove training labels, or change each to the label that competes with it.")  # fmt: skip
@click.option("--kind", type=click.Choice(get_args(WhatToEdit)), default="token", show_default=True,
              help="What is removed at a time. Ignored with --edit relabel.")  # fmt: skip
@click.option("--most", type=int, default=100, show_default=True, help="Maximum number of training labels to edit.")
@click.option("--to", metavar="LABEL", help="What the prediction should become. [default: any other label]")
@click.option("--max-retrainings", type=int, default=100, show_default=True,
              help="Maximum number of retrainings of the head.")  # fmt: skip
@retrain_options
def flip(folder: Path, **values: Any) -> None:
    """Find a small set of training labels that decide a prediction: if they are edited, it changes.

    The set is checked by retraining the head. It is small, but not always the smallest. With --retrain it is chosen by
    the score whole, and the whole tagger is trained again with a quarter, a half and all of --most edits: use a small
    --most, such as 20.
    """
    retrain = read_retrain(values)
    explainer, query = prepare_question(folder, values, "predicted", "whole" if retrain else "influence")

    def report(size: int, margin: float, number: int) -> None:
        note(f"retraining {number:>3}  {counted(size, 'label')}  margin {margin:+.4f}")

    with counting("training again") as progress:
        found = explainer.flip(
            query, values["edit"], values["kind"], values["most"], values["to"], values["max_retrainings"], report,
            retrain=retrain, retraining=lambda step: progress(step.done, step.total),
        )  # fmt: skip
    show(found)
    if values["json_file"]:
        write_json(values["json_file"], found.to_json())
