"""The ``tagtrace`` command: its group, and errors as one line."""

from __future__ import annotations

import errno
import sys
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click
from safetensors import SafetensorError

from tagtrace._checks import TagtraceError
from tagtrace._version import __version__

COMMANDS = {
    "demo": ("demo", "Invent newswire with planted label errors, train a tagger, and find them."),
    "data": ("data", "Look at data files: formats, schemes, broken labels."),
    "train": ("tagger", "Train a tagger."),
    "refit": ("tagger", "Solve a tagger's head exactly on its frozen features."),
    "predict": ("tagger", "Label a file."),
    "evaluate": ("tagger", "Compare predictions with labels: segment and token F1."),
    "index": ("index", "Store what a tagger sees in each training token, for all that follows."),
    "explain": ("explain", "Show the training segments that support and oppose a prediction."),
    "verify": ("explain", "The same, with the head retrained without each of them."),
    "what-if": ("what_if", "Show a prediction as it would be with other training labels."),
    "flip": ("what_if", "Find a small set of training labels whose edit changes a prediction."),
    "audit": ("audit", "Find the training labels that are probably wrong, and the mistakes behind them."),
    "review": ("review", "Open the review page: see why, decide by keyboard, export corrected data."),
    "fix": ("fix", "Write the data with the labels that chosen findings propose."),
    "gain": ("gain", "Retrain before and after, and compare F1 on held-out data."),
    "reproduce": ("reproduce", "Run an experiment of the paper."),
}
"""In the order they are used: the module of each, imported when the command runs, and what the overview says of it."""


class LazyCommands(click.Group):
    """Imports a command when it is asked for, so that the overview and the version come without torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"tagtrace.cli.{COMMANDS[cmd_name][0]}")
        return getattr(module, cmd_name.replace("-", "_"))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            near = get_close_matches(args[0], COMMANDS)
            if args[0].startswith("-") or not near:
                raise
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


class Commands(LazyCommands):
    """Prints what the user can mend as one line on standard error and exits with 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TagtraceError as error:
            _fail(str(error))
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # click ends quietly when nobody reads on
            _fail(_describe(error))
        except SafetensorError as error:
            _fail(f"weights cannot be written or read ({error}); is there space left on the disk?")
        except KeyboardInterrupt:
            _fail("stopped; what was written is whole, and the same command goes on from what was finished")


def _describe(error: OSError) -> str:
    what = error.strerror or str(error)
    path = error.filename2 or error.filename  # of two, the one the user named
    where = f"{path}: " if path else ""
    hint = "; free some space and run again" if error.errno == errno.ENOSPC else ""
    return f"{where}{what}{hint}"


def _fail(message: str) -> None:
    click.echo("tagtrace: " + " ".join(message.split()), err=True)
    sys.exit(1)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tagtrace")
def main() -> None:
    """Which training labels taught a sequence tagger this prediction?"""
