"""The harness: malformed input, kills and full disks for every command, from one table.

    python -m tests.fault --runs 5000 --kills 1000 --full 300 --real 20 --seed 0 --out FILE

Progress and failures go to FILE.log (JSON lines), from which an interrupted harness resumes; the summary goes to FILE
(JSON) and is printed. ``--only '["train", "file", ...]'`` repeats one trial and shows what it printed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from tests.fault import forked, interrupted, malformed, real
from tests.fault.malformed import Trial
from tests.fault.stage import BY_NAME, Stage

Perform = Callable[[Stage, Trial], tuple[list[str], forked.Outcome]]
PERFORM: dict[str, Perform] = {"kill": interrupted.perform, "full": interrupted.perform, "real": real.perform}


def main() -> int:
    """Run what the arguments ask for; exits with 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault", description=(__doc__ or "").splitlines()[0])
    for name, default in (("runs", 5000), ("kills", 1000), ("full", 300), ("real", 20), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--out", type=Path, help="file for the summary")
    parser.add_argument("--commands", help="only cases whose names begin so")
    parser.add_argument("--only", help="one trial, as the log names it")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many seconds")
    asked = parser.parse_args()
    start = time.monotonic()
    forked.import_all()
    with TemporaryDirectory(prefix="tagtrace-fault-", dir=_fast_folder()) as root:
        os.chmod(root, 0o755)  # for runs as another user
        stage = Stage(Path(root))
        if asked.only:
            return repeat(stage, Trial(*json.loads(asked.only)))
        return run_all(stage, asked, start)


def _fast_folder() -> str | None:
    """In memory, where there is a folder for that: the harness syncs files very often."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def repeat(stage: Stage, trial: Trial) -> int:
    found, outcome = perform(stage, trial)
    print(outcome.stdout.decode("utf-8", "backslashreplace"), outcome.stderr.decode("utf-8", "backslashreplace"))
    print(f"exit status {outcome.status}, {outcome.seconds:.1f} s", *found, sep="\n")
    return bool(found)


def perform(stage: Stage, trial: Trial) -> tuple[list[str], forked.Outcome]:
    """Run a trial; a mistake of the harness itself is reported as one, and does not end it."""
    try:
        return PERFORM.get(trial.kind, malformed.perform)(stage, trial)
    except Exception as error:
        traceback.print_exc()
        return [f"harness: {type(error).__name__}: {error}"], forked.Outcome(1, b"", b"", 0.0, False, 0)


def run_all(stage: Stage, asked: argparse.Namespace, start: float) -> int:
    """Run all trials that the log does not have, and write the summary."""
    log = None if asked.out is None else asked.out.with_name(f"{asked.out.name}.log")
    rows: dict[str, dict[str, Any]] = {}
    if log is not None and log.exists():
        rows = {row["trial"]: row for row in map(json.loads, log.read_text().splitlines())}
    for number, trial in enumerate(planned(stage, asked)):
        if time.monotonic() - start > asked.seconds:
            break
        if str(trial) not in rows:
            found, outcome = perform(stage, trial)
            rows[str(trial)] = row = {
                "trial": str(trial), "status": outcome.status, "seconds": round(outcome.seconds, 2), "found": found,
            }  # fmt: skip
            if log is not None:
                with log.open("a") as stream:
                    stream.write(f"{json.dumps(row)}\n")
            if found or number % 250 == 0:
                print(f"{number:>6} {trial} {'; '.join(found)}"[:300], file=sys.stderr, flush=True)
    made = summary(rows, asked.seed, time.monotonic() - start)
    if asked.out is not None:
        asked.out.write_text(f"{json.dumps(made, indent=1)}\n")
    print(json.dumps({name: value for name, value in made.items() if name != "failures"}, indent=1))
    for failure in made["failures"]:
        print(failure["trial"], *failure["found"], sep="\n    ")
    return bool(made["failures"])


def planned(stage: Stage, asked: argparse.Namespace) -> Iterator[Trial]:
    """Malformed runs, kills and full disks, mixed, so that a run that is stopped has some of each."""
    sources = (
        (malformed.every_trial(stage, Random(asked.seed)), asked.runs),
        (interrupted.every_kill(stage, Random(asked.seed + 1)), asked.kills),
        (interrupted.every_full_disk(stage, Random(asked.seed + 2)), asked.full),
        (real.every_command(Random(asked.seed + 3)), asked.real),
    )
    wanted = [list(islice(_chosen(source, asked), count)) for source, count in sources]
    places = [(number / len(each), trial) for each in wanted for number, trial in enumerate(each)]
    yield from (trial for _, trial in sorted(places, key=lambda one: one[0]))


def _chosen(trials: Iterator[Trial], asked: argparse.Namespace) -> Iterator[Trial]:
    return (trial for trial in trials if trial.case.startswith(asked.commands or ""))


def summary(rows: dict[str, dict[str, Any]], seed: int, seconds: float) -> dict[str, Any]:
    """Counts by command, by kind and by what was found, and every failure with its trial."""
    trials = [Trial(*json.loads(row["trial"])) for row in rows.values()]
    groups = {"kill": "kills", "full": "full disks", "real": "commands as users run them"}
    failures = [{"trial": row["trial"], "found": row["found"]} for row in rows.values() if row["found"]]
    return {
        "seed": seed,
        "seconds": round(seconds),
        "trials": dict(Counter(groups.get(trial.kind, "malformed") for trial in trials)),
        "by_command": dict(sorted(Counter(BY_NAME[trial.case].command for trial in trials).items())),
        "by_kind": dict(sorted(Counter(trial.kind for trial in trials).items())),
        "by_status": dict(sorted(Counter(str(row["status"]) for row in rows.values()).items())),
        "found": dict(Counter(each.partition(":")[0] for row in rows.values() for each in row["found"])),
        "failures": failures,
    }


if __name__ == "__main__":
    sys.exit(main())
