"""``tagtrace demo``."""

from __future__ import annotations

from pathlib import Path

import click

from tagtrace.cli.options import Command
from tagtrace.cli.places import KeptFolder
from tagtrace.cli.show import note, refit_line, show, training_several
from tagtrace.demo import NUM_FOLDS, DemoOutput, run_demo


@click.command(cls=Command)
@click.option("--out", "folder", type=KeptFolder(), default=Path("tagtrace-demo"), show_default=True,
              metavar="FOLDER", help="Folder for everything that the demo writes. An earlier demo there is "
              "replaced.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
def demo(folder: Path, seed: int) -> None:
    """Try tagtrace on invented news reports with planted label errors. Takes about a minute, downloads nothing.

    The demo trains a tagger, explains one of its mispredictions and finds the planted errors.
    """
    with training_several() as training:
        made = run_demo(folder, seed, DemoOutput(show, note, training, refit_line))
    show(f"Everything is in {folder} ({made.seconds:.0f} s in all). Next, decide on the findings in the browser:")
    show(f"  tagtrace review {folder}")
    show("or repeat a step with other options:")
    data = folder / "data"
    if made.query is not None and made.query.sentence is not None:
        show(
            f"  tagtrace explain {folder / 'index'} --data {data / 'dev.conll'} --sentence {made.query.sentence.id} "
            f"--segment {made.query.start}:{made.query.stop}"
        )
    show(
        f"  tagtrace audit {folder / 'index'} --trusted {data / 'dev.conll'} --truth {data / 'train_true.conll'} "
        f"--folds {NUM_FOLDS} --out {folder / 'audit'}"
    )
