"""The ``tagtrace`` command as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from tagtrace.cli import main


def tagtrace(*arguments: object) -> Result:
    """The result of a command, whether it succeeds or not."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def succeed(*arguments: object) -> Result:
    """The result of a command that must succeed."""
    result = tagtrace(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refused(result: Result, *words: str, status: int = 1) -> str:
    """The one line with which a command failed; it contains all ``words``."""
    assert result.exit_code == status, result.output
    assert isinstance(result.exception, SystemExit), "a traceback"
    message = result.stderr.splitlines()[-1]
    assert message.startswith("tagtrace: ")
    for word in words:
        assert word in message, message
    return message


def answer(result: Result, path: Path) -> Any:
    """What a command that must succeed wrote as JSON."""
    assert result.exit_code == 0, result.output
    return json.loads(path.read_text(encoding="utf-8"))
