"""Trials in which a run is killed or its disk is full, and the same command is run again."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from random import Random

from tests.fault.forked import Fault, Outcome
from tests.fault.malformed import Trial
from tests.fault.oracle import Reference, answer, printed
from tests.fault.snapshot import Snapshot, canonical, inputs_changed, is_below, is_temporary
from tests.fault.stage import BY_NAME, Stage
from tests.fault.table import CASES, Case
from tests.fault.visitor import Visitor

SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM}
DONE = ("exists already", "is complete")
"""What a command says whose output is there."""


def every_kill(stage: Stage, rng: Random) -> Iterator[Trial]:
    """Kills of all cases in turn: at a change of the disk, in the middle of writing, at some time."""
    number = 0
    while True:
        for case in CASES:
            if number % 4 and case.command == "demo":
                continue
            reference = stage.reference(case)
            how = rng.choices(("event", "bytes", "time"), (6, 2, 2))[0]
            if how == "event" and reference.outcome.num_events:
                at = str(rng.randint(1, reference.outcome.num_events))
            elif how == "bytes":
                at = str(int(reference.largest ** rng.random()))
            else:
                how, at = "time", f"{reference.outcome.seconds * rng.random():.3f}"
            name = "SIGKILL" if how == "bytes" else rng.choices(tuple(SIGNALS), (6, 2, 2))[0]
            yield Trial(case.name, "kill", name, f"{how} {at}", number)
        number += 1


def every_full_disk(stage: Stage, rng: Random) -> Iterator[Trial]:
    """Disks that are full at sizes drawn, for the cases that write."""
    number = 0
    while True:
        for case in CASES:
            if case.outputs and not (number % 4 and case.command == "demo"):
                size = int(stage.reference(case).largest ** rng.random())
                yield Trial(case.name, "full", rng.choice(("limit", "disk")), str(size), number)
        number += 1


def perform(stage: Stage, trial: Trial) -> tuple[list[str], Outcome]:
    """Run a trial; returns what is wrong with the result, at once or after the command was run again."""
    case = BY_NAME[trial.case]
    _ = stage.reference(case)  # made before anything is mounted
    if trial.kind == "full" and trial.member == "disk":
        with _small_disk(stage, case, int(trial.what)) as is_there:
            return _full(stage, case, Fault() if is_there else Fault(full_at=int(trial.what)))
    stage.fill(case)
    if trial.kind == "full":
        return _full(stage, case, Fault(full_at=int(trial.what)))
    how, at = trial.what.split()
    number = SIGNALS[trial.member]
    if how == "bytes":
        fault = Fault(at_bytes=int(at))
    else:
        fault = Fault(number, after=float(at)) if how == "time" else Fault(number, at_event=int(at))
    return _killed(stage, case, fault)


def _killed(stage: Stage, case: Case, fault: Fault) -> tuple[list[str], Outcome]:
    reference, before = stage.reference(case), canonical(stage.here)
    outcome, visitor = stage.run(case, fault=fault)
    found = ["hang"] if outcome.timed_out else []
    if outcome.status >= 0:
        found += printed(outcome)
    after = canonical(stage.here)
    found += _lost(case, before, after, reference)
    if fault.signal == signal.SIGINT and outcome.status >= 0:
        found += [f"left over after Ctrl-C: {path}" for path in _left_over(case, before, after, reference)]
    return [*found, *_again(stage, case, before, visitor)], outcome


def _full(stage: Stage, case: Case, fault: Fault) -> tuple[list[str], Outcome]:
    reference = stage.reference(case)
    before = reference.before  # as it is here: SQLite cannot read on a disk without space
    outcome, visitor = stage.run(case, fault=fault)
    if fault == Fault():  # there is space again
        subprocess.run(["mount", "-o", "remount,size=100m", stage.here], check=True)
    after = canonical(stage.here)
    found = [*printed(outcome), *_lost(case, before, after, reference)]
    if outcome.status == 0 and not visitor.problems:  # a server says what it could not save, and goes on
        found += answer(case, outcome, after, reference)
    else:
        found += [f"left over on a full disk: {path}" for path in _left_over(case, before, after, reference)]
    return [*found, *_again(stage, case, before, visitor)], outcome


def _lost(case: Case, before: Snapshot, after: Snapshot, reference: Reference) -> list[str]:
    """Inputs that changed, and an older output that is neither as it was nor as it will be."""
    found = [f"input changed: {path}" for path in inputs_changed(case, before, after)[:3]]
    if case.replaced and case.outputs[0] not in case.work:
        out = (case.outputs[0],)
        ours, old, new = (
            {path: digest for path, digest in each.items() if is_below(path, out) and not is_below(path, case.work)}
            for each in (after, before, reference.after)
        )
        if ours not in (old, new):
            missing = sorted((old.keys() & new.keys()) - ours.keys())
            found.append(f"lost: the older {out[0]} is neither whole nor replaced {missing[:2]}")
    return found


def _left_over(case: Case, before: Snapshot, after: Snapshot, reference: Reference) -> list[str]:
    allowed = (*case.work, *case.changed)
    new = [path for path in after if path not in before and not is_below(path, allowed)]
    return [path for path in new if after[path] != reference.after.get(path)][:1]


def _again(stage: Stage, case: Case, before: Snapshot, earlier: Visitor) -> list[str]:
    """What is wrong after the same command was run again, as a user would go on."""
    reference = stage.reference(case)
    outcome, visitor = stage.run(case)
    if outcome.status == 1 and any(word in outcome.stderr.decode() for word in DONE):
        if not answer(case, replace(outcome, stdout=reference.outcome.stdout), canonical(stage.here), reference):
            return []  # it was killed when all was done
        outcome, visitor = stage.run(case, (*case.argv, "--overwrite"))
    found = printed(outcome)
    if outcome.status != 0:
        return [*found, f"the rerun fails: {outcome.stderr.decode()[-300:]}"]
    after = canonical(stage.here)
    outcome = replace(outcome, stdout=reference.outcome.stdout)  # it may say that it resumed
    found += answer(case, outcome, after, reference, reference.answers)
    found += [f"input changed: {path}" for path in inputs_changed(case, before, after)[:3]]
    left = [path for path in after if path not in reference.after and not is_temporary(path)]
    found += [f"left over after the rerun: {path}" for path in left[:2]]
    return [*found, *_acknowledged(stage, case, earlier, visitor)]


def _acknowledged(stage: Stage, case: Case, *visits: Visitor) -> list[str]:
    """Decisions that were acknowledged and are not in the database."""
    if case.command != "review":
        return []
    folder = stage.here / (case.changed or case.outputs)[0]
    connection = sqlite3.connect(folder / "decisions.sqlite")
    rows = dict(connection.execute("select key, id from decision").fetchall())
    connection.close()
    promised = {key: number for visit in visits for key, number in visit.acknowledged.items()}
    return [f"lost decision: {key}" for key, number in promised.items() if rows.get(key) != number]


@contextmanager
def _small_disk(stage: Stage, case: Case, space: int) -> Iterator[bool]:
    """``here`` on a disk of its own with a little space left, where this machine lets us mount one."""
    stage.fill(case)
    mount = ["mount", "-t", "tmpfs", "-o", "size=100m", "none", str(stage.here)]
    is_there = os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        if is_there:
            stage.fill_again(case)
            used = os.statvfs(stage.here)
            size = (used.f_blocks - used.f_bfree) * used.f_frsize + space + 8192
            subprocess.run(["mount", "-o", f"remount,size={size}", stage.here], check=True)
        yield is_there
    finally:
        if is_there:
            with suppress(OSError):
                subprocess.run(["umount", "--lazy", stage.here], check=True)
