"""Trials in which something that a command is given is wrong: a file, a flag, a name, the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from random import Random

import click

from tests.fault import mutations
from tests.fault.forked import Fault, Outcome
from tests.fault.oracle import answer, disk, printed
from tests.fault.snapshot import canonical, is_below, raw
from tests.fault.stage import BY_NAME, Stage, said
from tests.fault.table import CASES, Case

NUMBERS = ("-1", "0", "1", "x", "", str(10**30), str(-(10**30)), "nan", "inf", "1e308", "0x10", "9" * 5000, "²")
WORDS = (
    "",
    "x",
    "\x1b[31mred",
    "a\nb",
    "\udcff",
    "é" * 300,
    "y" * 100_000,
    "[",
    "%s",
    "--",
    "ORG:",
    ":",
    "1:0",
    "-3:99",
)
PLACES = (
    "", ".", "nowhere/deeper/x", "x" * 300, "a\nb", "\x1b[31mred", "\udcff", "/dev/full", "/dev/null", "loop", "pipe",
    "folder", "folder/x", "other",
)  # fmt: skip
NAMES = {
    "a newline": "a\nb", "control characters": "\x1b[31mred\x07", "not UTF-8": "caf\udce9", "spaces": " a [b] ",
    "long": "x" * 200,
}  # fmt: skip
ENCODINGS = ("ascii", "latin-1")


@dataclass(frozen=True)
class Trial:
    """One run; ``kind`` and the rest say what is done to it, and are enough to do it again."""

    case: str
    kind: str
    member: str
    what: str
    number: int = 0

    def __str__(self) -> str:
        return json.dumps([self.case, self.kind, self.member, self.what, self.number])


def every_trial(stage: Stage, rng: Random) -> Iterator[Trial]:
    """All combinations of cases and what can be wrong, in the order drawn, again and again with other draws."""
    number = 0
    while True:
        all_of_them = ((case, trial) for case in CASES for trial in of_case(stage, case))
        trials = [replace(trial, number=number) for case, trial in all_of_them if _is_drawn(case, trial, rng)]
        rng.shuffle(trials)
        yield from trials
        number += 1


def _is_drawn(case: Case, trial: Trial, rng: Random) -> bool:
    """Slow commands are run less often with data that they accept."""
    accepts = trial.kind != "file" or is_below(trial.member, case.free)
    return not case.is_slow or not accepts or rng.random() < 0.15


def of_case(stage: Stage, case: Case) -> Iterator[Trial]:
    for member in stage.members(case):
        for what in (*mutations.mutations_of(stage.world / member), "of another run"):
            yield Trial(case.name, "file", member, what)
    for parameter in parameters(case):
        for value in values_of(parameter, case):
            yield Trial(case.name, "flag", _option(parameter), value)
    for place, part in enumerate(case.argv):
        if part in (*case.inputs, *case.outputs):
            for what in NAMES:
                yield Trial(case.name, "name", str(place), what)
            for value in (*PLACES, *case.inputs):
                yield Trial(case.name, "place", str(place), value)
    for encoding in ENCODINGS:
        yield Trial(case.name, "terminal", "", encoding)
    yield Trial(case.name, "terminal", "", "full")


def parameters(case: Case) -> list[click.Option]:
    """The options of the command of a case that take a value."""
    found = [one for one in command_of(case).params if isinstance(one, click.Option)]
    return [one for one in found if not one.is_flag and not one.is_eager]


def command_of(case: Case) -> click.Command:
    """The click command of a case."""
    found: click.Command = import_module("tagtrace.cli.main").main
    for name in case.command.split():
        assert isinstance(found, click.Group)
        command = found.get_command(click.Context(found), name)
        assert command is not None, name
        found = command
    return found


def values_of(parameter: click.Option, case: Case) -> tuple[str, ...]:
    """Values that an option may not expect."""
    if isinstance(parameter.type, click.Choice):
        return ("x", "")
    if parameter.name in ("host", "allow_remote"):
        return ("", "256.1.1.1", "\x1b[31m", "::1::")
    if parameter.type in (click.INT, click.FLOAT) or isinstance(parameter.type, click.IntRange):
        return NUMBERS
    is_place = isinstance(parameter.type, click.Path) or parameter.metavar in ("FILE", "FOLDER", "DIR", "PROJECT")
    return (*PLACES, *case.inputs, *case.outputs) if is_place else WORDS


def _option(parameter: click.Option) -> str:
    return max(parameter.opts, key=len)


def perform(stage: Stage, trial: Trial) -> tuple[list[str], Outcome]:
    """Run a trial; returns what is wrong with the result."""
    case = BY_NAME[trial.case]
    reference = stage.reference(case)
    if trial.what == "of another run":
        _ = stage.other  # made in the same place
    stage.fill(case)
    _add_places(stage.here)
    argv, fault, may_differ = _prepared(stage, case, trial)
    before = raw(stage.here)
    outcome, visitor = stage.run(case, argv, fault)
    after = raw(stage.here)
    if trial.kind in ("flag", "place", "name"):  # outputs may be elsewhere, an input may have another name
        named = {case.argv[int(trial.member)]: argv[int(trial.member)]} if trial.kind == "name" else {}
        inputs, changed = (tuple(named.get(one, one) for one in each) for each in (case.inputs, case.changed))
        case = replace(case, inputs=inputs, changed=changed, outputs=("*",))
    may_be_done = (trial.kind, trial.what) == ("terminal", "full")
    found = printed(outcome) + disk(case, outcome, before, after, may_be_done=may_be_done)
    found += [f"server: {problem}" for problem in visitor.problems]
    if outcome.status == 0 and not may_differ and not outcome.timed_out:
        found += answer(case, outcome, canonical(stage.here), reference, said(visitor))
    return found, outcome


def _add_places(here: Path) -> None:
    (here / "folder").mkdir()
    (here / "folder" / "somebody's").write_text("own")
    (here / "other").write_text("somebody else's file")
    (here / "loop").symlink_to("loop")


def _prepared(stage: Stage, case: Case, trial: Trial) -> tuple[tuple[str, ...], Fault | None, bool]:
    """The arguments, what befalls the run, and whether another answer is right."""
    rng, argv = Random(str(trial)), list(case.argv)
    if trial.kind == "terminal":
        fault = Fault(no_output=True) if trial.what == "full" else Fault(encoding=trial.what)
        return case.argv, fault, True
    if trial.kind == "flag":
        return (*argv, trial.member, trial.what), None, True
    if trial.kind in ("name", "place"):
        place = int(trial.member)
        old, new = argv[place], NAMES.get(trial.what, trial.what) if trial.kind == "name" else trial.what
        if trial.kind == "name" and (stage.here / old).exists():
            (stage.here / old).rename(stage.here / new)
        return tuple(new if i == place else part for i, part in enumerate(argv)), None, True
    path, mutate = stage.here / trial.member, _mutation(stage, trial)
    mutate(path, rng)
    fault = None
    if trial.what == "unreadable":
        _open_up(stage.here, path)
        fault = Fault(nobody=True)
    return case.argv, fault, is_below(trial.member, case.free) or _is_optional(trial)


def _mutation(stage: Stage, trial: Trial) -> mutations.Mutate:
    if trial.what == "of another run":
        return lambda path, rng: mutations.swapped(path, rng, _other(stage, trial.member))
    return mutations.mutations_of(stage.world / trial.member)[trial.what]


def _other(stage: Stage, member: str) -> Path:
    found = stage.other / member
    return found if found.exists() else stage.other / "train.conll"


def _open_up(here: Path, unless: Path) -> None:
    for path in (here, *here.rglob("*")):
        if path != unless and not path.is_symlink():
            path.chmod(0o777 if path.is_dir() else 0o666)


def _is_optional(trial: Trial) -> bool:
    """Parts that may be missing, and change what is asked for by default."""
    return trial.what in ("missing", "a dangling link") and "/whole/" in trial.member
