"""``tagtrace demo``."""

from __future__ import annotations

from pathlib import Path

import click

from tagtrace.cli.show import TrainingDisplay, note, refit_line, show
from tagtrace.demo import DemoOutput, run_demo


@click.command()
@click.option("--out", "folder", type=click.Path(path_type=Path), default=Path("tagtrace-demo"), show_default=True,
              help="Folder for everything the demo makes; an earlier demo there is replaced.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
def demo(folder: Path, seed: int) -> None:
    """Invent newswire with planted label errors, train a tagger, explain a misprediction and find the errors."""
    with TrainingDisplay() as display:
        run_demo(folder, seed, DemoOutput(show, note, display, refit_line))
