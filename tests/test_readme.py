"""The README's examples run to the end on the demo's data, and print what it says they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import REPOSITORY

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "OMP_NUM_THREADS": "1",
    "COLUMNS": "100",
}


def blocks(language: str) -> list[str]:
    """The code blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def run(command: list[str], folder: Path) -> str:
    found = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, f"{command}\n{found.stdout}\n{found.stderr}"
    return found.stdout


def spaced(text: str) -> str:
    """Text without the borders of tables and with single spaces, to compare what is said and not how it is set."""
    return " ".join(re.sub(r"[─│┌┐└┘├┤┬┴┼━┃┏┓┗┛┡┩╇╈╋┳┻]", " ", text).split())


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """What the shell block and then, in the folder it ends in, the Python block print."""
    folder = tmp_path_factory.mktemp("readme")
    (shell,) = blocks("sh")
    (python,) = blocks("python")
    first = run(["sh", "-euc", shell], folder)
    return first, run([sys.executable, "-c", python], folder / "tagtrace-demo")


def skeleton(text: str) -> str:
    """Words without numbers: the last digits depend on the machine."""
    return re.sub(r"[+-]?[0-9][0-9,.]*", "#", spaced(text))


@pytest.mark.parametrize(("number", "language"), enumerate(("sh", "python")), ids=("shell", "python"))
def test_an_example_prints_what_the_readme_says(printed: tuple[str, str], number: int, language: str) -> None:
    assert len(blocks(language)) == 1
    found = skeleton(printed[number])
    for line in filter(None, map(skeleton, blocks("text")[number].splitlines())):
        assert line == "..." or line in found, line


def test_the_demo_finds_the_planted_errors(printed: tuple[str, str]) -> None:
    text = spaced(printed[0])
    assert float(re.findall(r"average precision ([0-9.]+)", text)[0]) == pytest.approx(0.858, abs=0.02)
    assert "330 of 516 LOC segments in documents that begin with HANDBALL are probably ORG" in text
    assert "5 of the 5 supporters are planted errors" in text
    gains = [float(found) for found in re.findall(r"raise segment F1 by ([0-9.]+) points", " ".join(printed))]
    assert gains == pytest.approx([5.99, 5.99], abs=0.5)
