"""The ``tagtrace`` command: its group, and errors as one line."""

from __future__ import annotations

import errno
import os
import sys
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click
from safetensors import SafetensorError

from tagtrace._checks import TagtraceError
from tagtrace._version import __version__

COMMANDS = {
    "demo": "Try everything on invented data with planted label errors.",
    "data": "Check data files: counts, label scheme, broken labels.",
    "train": "Train a tagger.",
    "refit": "Refit the head of a tagger to its exact optimum.",
    "predict": "Label a file with a tagger.",
    "evaluate": "Compare the predictions of a tagger with labels.",
    "index": "Build the index that the commands below need.",
    "explain": "Show the training labels that support or oppose a prediction.",
    "verify": "Explain a prediction and check the answer by retraining.",
    "what-if": "Show how a prediction changes if training labels are edited.",
    "flip": "Find a few training labels that decide a prediction.",
    "audit": "Find training labels that are probably wrong.",
    "review": "Decide on findings in the browser, and export corrected data.",
    "fix": "Write a copy of the data in which chosen findings are fixed.",
    "gain": "Retrain before and after a fix, and compare F1.",
    "reproduce": "Run an experiment of the paper.",
}
"""In the order of use. Each command is in the module of its name, which is imported when the command runs."""


class LazyCommands(click.Group):
    """Imports a command when it is needed, so that the overview and the version do not wait for torch."""

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
        # Before torch is imported: threads that wait by spinning make a busy machine many times slower. On Linux they
        # may spin for a few microseconds, without which training by two threads is no faster than by one.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
        try:
            return super().invoke(ctx)
        except TagtraceError as error:
            _fail(str(error))
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # the reader of a pipe has gone: click exits quietly
            _fail(_describe(error))
        except SafetensorError as error:
            _fail(f"weights cannot be written or read ({error}); check that the disk has space left")
        except KeyboardInterrupt:
            _fail("interrupted; run the same command again to resume")


def _describe(error: OSError) -> str:
    what = error.strerror or str(error)
    path = error.filename2 or error.filename  # the second is the one that the user named
    where = f"{path}: " if path else ""
    hint = "; free some space and run again" if error.errno == errno.ENOSPC else ""
    return f"{where}{what}{hint}"


def _fail(message: str) -> None:
    click.echo("tagtrace: " + " ".join(message.split()), err=True)
    sys.exit(1)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tagtrace")
def main() -> None:
    """Find the training labels that taught a sequence tagger a prediction, and the labels that are wrong.

    Run `tagtrace demo` to try it. With your own data: train a tagger, build its index, then ask about a prediction
    (explain, what-if, flip) or look for wrong labels (audit, review, fix, gain).
    """
