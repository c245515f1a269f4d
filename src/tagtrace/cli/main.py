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
    "demo": "Invent newswire with planted label errors, train a tagger, and find the errors.",
    "data": "Check data files: format, label scheme, broken labels.",
    "train": "Train a tagger.",
    "refit": "Solve a tagger's head exactly on its frozen features.",
    "predict": "Label a file.",
    "evaluate": "Compare predictions with labels: segment and token F1.",
    "index": "Build the index that the commands below use.",
    "explain": "Show the training segments that support and oppose a prediction.",
    "verify": "As explain, and retrain the head without each of these segments.",
    "what-if": "Show a prediction as it would be with other training labels.",
    "flip": "Find a small set of training labels whose edit changes a prediction.",
    "audit": "Find the training labels that are probably wrong, and the mistakes behind them.",
    "review": "Open the review page: see why, decide by keyboard, export corrected data.",
    "fix": "Write the data with the labels that chosen findings propose.",
    "gain": "Retrain before and after a fix, and compare F1 on held-out data.",
    "reproduce": "Run an experiment of the paper.",
}
"""In the order of use. The module of a command has its name and is imported when the command runs."""


class LazyCommands(click.Group):
    """Imports a command when it is asked for, so that the overview and the version do not wait for torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        return getattr(import_module(f"tagtrace.cli.{name}"), name)

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
            formatter.write_dl(list(COMMANDS.items()))


class Commands(LazyCommands):
    """Prints errors that the user can correct as one line on standard error and exits with 1."""

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
            _fail("interrupted; run the same command again to resume")


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
