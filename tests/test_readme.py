"""The README's examples run to the end on the demo's data, and print what it says they print."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import tagtrace
from tagtrace.findings import Condition
from tests.pages import README, assert_printed, blocks, run


@dataclass(frozen=True)
class Ran:
    """The demo's folder, and what the shell block and then the Python block printed."""

    folder: Path
    printed: tuple[str, str]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("readme")
    (shell,) = blocks(README, "sh")
    (python,) = blocks(README, "python")
    first = run(["sh", "-euc", shell.code], folder)
    demo = folder / "tagtrace-demo"
    return Ran(demo, (first, run([sys.executable, "-c", python.code], demo)))


@pytest.mark.parametrize("number", [0, 1], ids=["shell", "python"])
def test_an_example_prints_what_the_readme_says(ran: Ran, number: int) -> None:
    assert_printed(blocks(README, "text")[number].code, ran.printed[number])


def test_the_audit_of_the_demo_finds_the_planted_errors(ran: Ran) -> None:
    """It names the planted mistake first, finds most planted errors, and fixing them gains what the README says."""
    audit = tagtrace.Audit.load(ran.folder / "audit")
    assert audit.truth[0].average_precision == pytest.approx(0.858, abs=0.02)  # the loss in sample reaches 0.46
    assert audit.truth[0].recall[1000] > 0.9
    assert audit.num_right == pytest.approx(193, abs=4)
    first = audit.patterns[0]
    assert (first.change, str(first.condition)) == ("LOC -> ORG", str(Condition("opening", "HANDBALL")))
    assert first.description.startswith(
        "330 of 516 LOC segments in documents that begin with HANDBALL are probably ORG"
    )
    assert first.effect is not None
    assert first.effect.change < -0.03
    assert first.effect.verdict != "hurts"
    found = re.search(r"(\d) of the 5 supporters are planted errors", ran.printed[0])
    assert found is not None
    assert int(found[1]) >= 2  # 2 % of the labels are
    gains = [float(found) for found in re.findall(r"raise segment F1 by ([0-9.]+) points", " ".join(ran.printed))]
    assert gains == pytest.approx([5.99, 5.99], abs=0.5)
    assert (ran.folder / "fixed.conll").read_bytes() == (ran.folder / "fixed-by-python.conll").read_bytes()
