"""What commands print: results on standard output, progress and notes on standard error.

Text from files is printed with escapes for what a terminal would obey or a person could not see (``_visible``), and for
characters that the terminal's encoding does not have. Markup is never interpreted: names and labels contain brackets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table as RichTable

from tagtrace._table import Described, Table
from tagtrace._visible import visible

if TYPE_CHECKING:  # so that looking at data needs no torch
    from tagtrace._progress import Progress as Callback
    from tagtrace.tagger.training import Step

NARROW = 32
"""Maximum width, in characters, of columns that are not wrapped."""

_BEYOND_ASCII = re.compile(r"[^\x00-\x7e]")

out: Console = Console(markup=False, emoji=False, highlight=False)
err: Console = Console(markup=False, emoji=False, highlight=False, stderr=True)


def show(result: Described | Table | str) -> None:
    """Print a result: its lines as they are, its tables with borders."""
    if isinstance(result, Described):
        for part in result.describe():
            show(part)
    elif isinstance(result, Table):
        _show_table(result)
    else:
        out.print(_shown(result, out), soft_wrap=True)


def _show_table(result: Table) -> None:
    if result.title:
        out.print(_shown(result.title, out), soft_wrap=True)
    rows = [[[_shown(line, out) for line in cell] for cell in row] for row in result.lines()]
    table = RichTable()
    for number, name in enumerate(result.columns):
        shown = _shown(name, out)
        width = max(map(len, [shown, *(line for row in rows for line in row[number])]))
        justify = "right" if name in result.right else "left"
        table.add_column(shown, justify=justify, overflow="fold", no_wrap=width <= NARROW)
    for row in rows:
        table.add_row(*("\n".join(cell) for cell in row))
    out.print(table)


def show_json(value: object) -> None:
    """Print data as JSON; what a terminal would obey or cannot encode is escaped in the way of JSON: the same data."""
    text = json.dumps(value, ensure_ascii=not out.encoding.startswith("utf"), indent=1)
    out.file.write(_BEYOND_ASCII.sub(_json_escape, text) + "\n")


def _json_escape(match: re.Match[str]) -> str:
    character = match[0]
    return character if visible(character) == character else json.dumps(character)[1:-1]


def note(line: str) -> None:
    """Print a line on standard error."""
    err.print(_shown(line, err), soft_wrap=True)


def _shown(text: str, console: Console) -> str:
    return visible(text).encode(console.encoding, "backslashreplace").decode(console.encoding)


def _bars() -> Progress:
    """A progress display; on a terminal it disappears when done, elsewhere it prints nothing."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[detail]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )


@contextmanager
def counting(description: str) -> Iterator[Callback]:
    """A progress bar for one kind of work."""
    with counting_several() as update:
        yield lambda done, total: update(description, done, total)


@contextmanager
def counting_several() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar for each kind of work that is reported."""
    with _bars() as bars:
        tasks: dict[str, TaskID] = {}

        def update(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(_shown(what, err), total=None, detail="")
            bars.update(tasks[what], completed=done, total=total, detail=f"{done:,}/{total:,}")

        yield update


class TrainingDisplay:
    """A progress bar over all training steps, and one line for each epoch."""

    bars: Progress
    task: TaskID
    loss: float
    count: int

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
            note(f"epoch {step.epoch:>2}/{step.num_epochs}  loss {self.loss / self.count:.4f}{dev}{left}")
            self.loss, self.count = 0.0, 0


@contextmanager
def training_several() -> Iterator[Callable[[str, Step], None]]:
    """As ``TrainingDisplay``, for several training runs one after another, each with its name."""
    with ExitStack() as stack:
        shown: dict[str, TrainingDisplay] = {}

        def update(run: str, step: Step) -> None:
            if run not in shown:
                stack.close()
                shown.clear()
                note(f"training: {run}")
                shown[run] = stack.enter_context(TrainingDisplay())
            shown[run](step)

        yield update


def refit_line(step: int, objective: float, max_gradient: float) -> None:
    """Print one line for each step of a refit."""
    note(f"step {step:>2}  objective {objective:.8f}  max |gradient| {max_gradient:.1e}")
