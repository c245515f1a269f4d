"""``tagtrace verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tagtrace.cli.explain import answer, explain_options
from tagtrace.cli.options import Command
from tagtrace.cli.show import counting
from tagtrace.cli.what_if import read_retrain, retrain_options


@click.command(cls=Command)
@explain_options
@retrain_options
def verify(folder: Path, **values: Any) -> None:
    """Explain a prediction and check the answer: retrain the head without each of the segments shown.

    The answer gives both the estimated and the actual change of the prediction. With --retrain the whole tagger is
    trained again instead, for several seeds without each segment. INDEX and the other options are those of explain.
    """
    retrain = read_retrain(values)
    with counting("training again") as progress:
        answer(
            folder, "verify" if retrain is None else "retrain", values, retrain,
            lambda step: progress(step.done, step.total),
        )  # fmt: skip
