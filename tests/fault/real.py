"""Trials that run a command as users do, in a process of its own, to see that forks do the same."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from random import Random

from tests.fault.forked import Outcome
from tests.fault.malformed import Trial
from tests.fault.oracle import answer, disk, printed
from tests.fault.snapshot import canonical, raw
from tests.fault.stage import BY_NAME, Stage
from tests.fault.table import CASES

MADE_SMALL = ("train", "demo", "reproduce")
"""Commands with parts that ``small`` makes small."""
ROUNDED = ("index pipeline",)
"""Cases whose head differs by 1e-10 in a process of its own, and so its checksums."""


def every_command(rng: Random) -> Iterator[Trial]:
    """All cases that do the same in a process of their own, but for those that serve."""
    cases = [case for case in CASES if case.command not in (*MADE_SMALL, "review") and case.name not in ROUNDED]
    rng.shuffle(cases)
    yield from (Trial(case.name, "real", "", "") for case in cases)


def perform(stage: Stage, trial: Trial) -> tuple[list[str], Outcome]:
    """Run a trial; returns how its result differs from that of a fork."""
    case = BY_NAME[trial.case]
    reference = stage.reference(case)
    stage.fill(case)
    before, start = raw(stage.here), time.monotonic()
    code = (  # without compiled loops, as ``small``: they round otherwise
        "from tagtrace.tagger.convex import products; products.USE_LOOPS = False; "
        "from tagtrace.cli import main; main(prog_name='tagtrace')"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *case.argv], cwd=stage.here, env=environment, capture_output=True, check=False
    )
    outcome = Outcome(done.returncode, done.stdout, done.stderr, time.monotonic() - start, False, 0)
    found = printed(outcome) + disk(case, outcome, before, raw(stage.here))
    return [*found, *answer(case, outcome, canonical(stage.here), reference)], outcome
