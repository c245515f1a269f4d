"""Make the picture of the first tutorial: ``python experiments/tutorial_picture.py``.

It follows the tutorial in a temporary folder and takes the chart of the audit's report, with its style.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.pages import follow
from tests.places import REPOSITORY

TUTORIAL = REPOSITORY / "docs" / "tutorials" / "first_audit.md"


def standalone(report: str) -> str:
    """The first chart of a report as a file of its own."""
    chart, style = (
        re.search(r"<svg.*?</svg>", report, re.DOTALL),
        re.search(r"<style.*?>(.*?)</style>", report, re.DOTALL),
    )
    assert chart is not None
    assert style is not None
    colours = style[1][: style[1].index("* {")]  # light and dark
    rules = "\n".join(line for line in style[1].splitlines() if line.startswith(".chart "))
    start, rest = chart[0].split(">", 1)
    return f'{start} xmlns="http://www.w3.org/2000/svg"><style>{colours}\n{rules}</style>{rest}\n'


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        follow(TUTORIAL, Path(folder))
        picture = standalone(Path("audit/report.html").read_text(encoding="utf-8"))
    TUTORIAL.with_suffix(".svg").write_text(picture, encoding="utf-8")
    print(TUTORIAL.with_suffix(".svg"))


if __name__ == "__main__":
    main()
