"""The ``tagtrace`` command: its group, and errors as one line."""

from __future__ import annotations

import errno
import io
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from types import TracebackType
from typing import Any

import click
from safetensors import SafetensorError

from tagtrace._checks import TagtraceError, describe_failure
from tagtrace._version import __version__
from tagtrace._visible import visible_lines, visible_message
from tagtrace.cli.interrupts import Interrupts

COMMANDS = {
    "demo": "Try everything on invented data with planted label errors.",
    "data": "Check data (counts, label scheme, broken labels), or convert it.",
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
    "doctor": "Check whether everything in a folder is whole, and repair it.",
    "reproduce": "Run an experiment of the paper.",
}
"""In the order of use. Each command is in the module of its name, which is imported when the command runs."""
INTERRUPTS = Interrupts()
INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells expect it: 128 and the number of the signal."""


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

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        never_fail_to_encode()
        sys.excepthook = _show_unexpected
        threading.excepthook = _show_unexpected_of_thread
        with INTERRUPTS.watched():
            if not standalone_mode:
                return super().main(*args, standalone_mode=False, **extra)
            with errors_as_lines():  # also before and after a command, where click would say "Aborted!"
                try:
                    status = super().main(*args, standalone_mode=False, **extra)
                    sys.stdout.flush()  # its disk may be full
                except BrokenPipeError:  # whoever read has gone
                    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                    status = 1
                except click.ClickException as error:
                    error.show()
                    status = error.exit_code
                except click.Abort as error:
                    raise KeyboardInterrupt from error
                sys.exit(status if isinstance(status, int) else 0)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with errors_as_lines(), visible_usage_errors():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        # Before torch is imported: threads that wait by spinning make a busy machine many times slower. On Linux they
        # may spin for a few microseconds, without which training by two threads is no faster than by one.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
        with errors_as_lines(), visible_usage_errors():
            return super().invoke(ctx)


def _show_unexpected(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """Print the traceback of an error of ours, which may have text from files in it."""
    print(visible_lines("".join(traceback.format_exception(kind, error, trace)).rstrip()), file=sys.stderr)


def _show_unexpected_of_thread(given: threading.ExceptHookArgs) -> None:
    if given.exc_type is not SystemExit:
        _show_unexpected(given.exc_type, given.exc_value, given.exc_traceback)


def never_fail_to_encode() -> None:
    """Characters that an output's encoding does not have (help texts may have some) become escapes, not errors."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


_OF_CLICK = (click.ClickException, click.exceptions.Exit, click.Abort)


@contextmanager
def errors_as_lines() -> Iterator[None]:
    """Errors that the user can correct become one line on standard error and an exit status."""
    try:
        yield
    except TagtraceError as error:
        _fail(str(error))
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # the reader of a pipe has gone: click exits quietly
        _fail(describe_failure(error))
    except SafetensorError as error:
        _fail(f"weights cannot be written or read ({error}); check that the disk has space left")
    except (KeyboardInterrupt, Exception) as error:
        if not isinstance(error, KeyboardInterrupt) and (isinstance(error, _OF_CLICK) or not INTERRUPTS.have_come):
            raise
        _fail("interrupted; run the same command again to resume", INTERRUPTED)


@contextmanager
def visible_usage_errors() -> Iterator[None]:
    """Arguments in messages of click may be file names that a pattern of the shell has found."""
    try:
        yield
    except click.ClickException as error:
        vars(error).update(message=visible_message(error.message))  # declared as final
        raise


def _fail(message: str, status: int = 1) -> None:
    # click would write UTF-8 to an output that has only ASCII
    print(f"tagtrace: {visible_message(message)}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:  # its disk is full, as the message said: Python would try again at the end, and say so once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(status)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tagtrace")
def main() -> None:
    """Find the training labels that taught a sequence tagger a prediction, and the labels that are wrong.

    Run `tagtrace demo` to try it. With your own data: train a tagger, build its index, then ask about a prediction
    (explain, what-if, flip) or look for wrong labels (audit, review, fix, gain).
    """
