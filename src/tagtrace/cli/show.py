"""What commands print: tables and progress on standard error, results on standard output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tagtrace.data import Summary

if TYPE_CHECKING:  # so that looking at data needs no torch
    from tagtrace.tagger.metrics import Score, Scorecard
    from tagtrace.tagger.tagger import Progress as Callback
    from tagtrace.tagger.training import Step

# No markup: file names and labels may hold brackets and colons.
out = Console(markup=False, emoji=False, highlight=False)
err = Console(markup=False, emoji=False, highlight=False, stderr=True)


def _bars() -> Progress:
    """A progress display; on a terminal it disappears when done, elsewhere it prints nothing."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )


@contextmanager
def counting(description: str) -> Iterator[Callback]:
    """A bar for work that counts sentences."""
    with _bars() as bars:
        task = bars.add_task(description, total=None, detail="")

        def update(done: int, total: int) -> None:
            bars.update(task, completed=done, total=total, detail=f"{done:,}/{total:,}")

        yield update


class TrainingDisplay:
    """A bar over all steps, and one line an epoch."""

    def __init__(self) -> None:
        self.bars = _bars()
        self.loss = 0.0
        self.count = 0

    def __enter__(self) -> TrainingDisplay:
        self.bars.start()
        self.task = self.bars.add_task("training", total=None, detail="")
        return self

    def __exit__(self, *exc: object) -> None:
        self.bars.stop()

    def __call__(self, step: Step) -> None:
        self.loss += step.loss
        self.count += 1
        detail = f"epoch {step.epoch}/{step.num_epochs}  loss {step.loss:.3f}"
        self.bars.update(self.task, completed=step.step, total=step.num_steps, detail=detail)
        if step.step % (step.num_steps // step.num_epochs) == 0:
            dev = "" if step.dev_loss is None else f"  dev loss {step.dev_loss:.4f}"
            left = f"  about {step.seconds_left:.0f} s left" if step.seconds_left >= 1 else ""
            err.print(
                f"epoch {step.epoch:>2}/{step.num_epochs}  loss {self.loss / self.count:.4f}{dev}{left}",
                highlight=False,
            )
            self.loss, self.count = 0.0, 0


def refit_line(step: int, objective: float, max_gradient: float) -> None:
    err.print(f"step {step:>2}  objective {objective:.8f}  max |gradient| {max_gradient:.1e}", highlight=False)


def scorecard_table(card: Scorecard, title: str) -> Table:
    """Precision, recall and F1 per type and overall, in percent."""
    table = Table("type", title=title, title_justify="left")
    for name in ("precision", "recall", "F1", "gold", "predicted"):
        table.add_column(name, justify="right")
    for name, score in card.by_type.items():
        table.add_row(name, *_percentages(score))
    table.add_section()
    table.add_row("all segments", *_percentages(card.segments))
    table.add_row("tokens", *_percentages(card.tokens))
    return table


def _percentages(score: Score) -> list[str]:
    shares = (score.precision, score.recall, score.f1)
    return [f"{100 * share:.2f}" for share in shares] + [f"{score.num_gold:,}", f"{score.num_predicted:,}"]


def summary_table(summaries: Sequence[Summary]) -> Table:
    """Counts of several files side by side, one column a file."""
    types = sorted({name for summary in summaries for name in summary.segments_per_type})
    table = Table("", title="data", title_justify="left")
    for summary in summaries:
        table.add_column(Path(summary.path).name, justify="right", overflow="fold")
    table.add_row("format", *(s.format for s in summaries))
    table.add_row("scheme", *(s.scheme for s in summaries))
    for name in ("documents", "sentences", "tokens", "segments"):
        table.add_row(name, *(f"{getattr(s, name):,}" for s in summaries))
    for name in types:
        table.add_row(f"  {name}", *(f"{s.segments_per_type.get(name, 0):,}" for s in summaries))
    table.add_row("violations", *(f"{len(s.violations):,}" for s in summaries))
    return table
