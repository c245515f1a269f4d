"""``tagtrace verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tagtrace.cli.explain import answer, explain_options
from tagtrace.cli.options import Command


@click.command(cls=Command)
@explain_options
def verify(folder: Path, **values: Any) -> None:
    """Explain a prediction and check the answer: retrain the head without each of the segments shown.

    The answer gives both the estimated and the actual change of the prediction. INDEX and the options are those of
    explain.
    """
    answer(folder, "verify", values)
