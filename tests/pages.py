"""Pages of the documentation, and their code blocks run as a reader runs them.

A fenced block of ``sh`` or ``python`` is run, and a block of ``text`` below it is what it prints. Indented blocks are
patterns with placeholders, which are only parsed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.places import REPOSITORY

README = REPOSITORY / "README.md"
TUTORIALS = sorted((REPOSITORY / "docs" / "tutorials").glob("*.md"))
PAGES = [README, *sorted((REPOSITORY / "docs").glob("*.md")), *TUTORIALS]
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "OMP_NUM_THREADS": "1",
    "COLUMNS": "100",
}
_BLOCK = re.compile(r"^```([a-z]+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    code: str


def blocks(page: Path, *languages: str) -> list[Block]:
    """The fenced blocks in some languages (all, if none is named), in order."""
    found = [Block(*parts) for parts in _BLOCK.findall(page.read_text(encoding="utf-8"))]
    return [block for block in found if not languages or block.language in languages]


def run(command: list[str], folder: Path) -> str:
    """What a command that must succeed prints."""
    found = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, f"{command}\n{found.stdout}\n{found.stderr}"
    return found.stdout


def follow(page: Path, folder: Path) -> None:
    """Run the blocks of a page in a folder, which is the working folder, and compare what they print with the page.

    The Python blocks of a tutorial are one session; those of other pages stand alone.
    """
    session: dict[str, Any] = {}
    printed = ""
    for language, code in blocks(page, "sh", "python", "json", "text"):
        if language == "text":
            assert_printed(code, printed)
        elif language == "sh":
            printed = run(["sh", "-euc", code], folder)
        elif language == "json":
            json.loads(code)
        else:
            session = session if page in TUTORIALS and session else {"__name__": "__main__"}
            with contextlib.redirect_stdout(io.StringIO()) as stream:
                exec(compile(code, page.name, "exec"), session)
            printed = stream.getvalue()


def assert_printed(expected: str, printed: str) -> None:
    """Every line that a page says is printed is, but for numbers: their last digits depend on the machine."""
    found = skeleton(printed)
    for line in filter(None, map(skeleton, expected.splitlines())):
        assert line == "..." or line in found, f"{line}\nis not in\n{printed}"


def skeleton(text: str) -> str:
    """Words without numbers."""
    return re.sub(r"[+-]?[0-9][0-9,.]*", "#", spaced(text))


def spaced(text: str) -> str:
    """Text without the borders of tables and with single spaces, to compare what is said and not how it is set."""
    return " ".join(re.sub(r"[─│┌┐└┘├┤┬┴┼━┃┏┓┗┛┡┩╇╈╋┳┻]", " ", text).split())
