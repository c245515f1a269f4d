"""Questions about one prediction of the folder ``indexed``, asked with any of the commands that answer some."""

from __future__ import annotations

from pathlib import Path

from click.testing import Result

from tests.cli.command import tagtrace

SENTENCE = "dev-0:1"
COMMANDS: dict[str, list[object]] = {
    "explain": [],
    "verify": ["--top", 1],
    "what-if": ["--remove", "train-0:0:0:1"],
    "flip": ["--most", 1, "--max-retrainings", 1],
}
"""Each command, and options with which it answers soon."""


def ask(made: Path, name: str, *options: object, data: str = "dev.conll", segment: str = "0:1") -> Result:
    """Ask about a segment of a dev sentence."""
    place = ("--sentence", SENTENCE, "--segment", segment)
    return tagtrace(name, made / "index", "--data", made / data, *place, *options)


def ask_soon(made: Path, name: str, *options: object, data: str = "dev.conll", segment: str = "0:1") -> Result:
    """As ``ask``, with the options of ``COMMANDS``."""
    return ask(made, name, *COMMANDS[name], *options, data=data, segment=segment)
