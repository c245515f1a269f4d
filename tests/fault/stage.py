"""Where runs take place: a folder that is filled anew for each run, and the reference of each case."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from tests.fault import forked, world
from tests.fault.forked import Fault, Outcome
from tests.fault.oracle import Reference
from tests.fault.snapshot import canonical
from tests.fault.table import CASES, Case
from tests.fault.visitor import Visitor

BY_NAME = {case.name: case for case in CASES}


class Stage:
    """A world, that of another run, and the folder ``here`` in which commands run."""

    root: Path
    here: Path

    def __init__(self, root: Path) -> None:
        self.root, self.here = root, root / "here"
        self.world = world.build(root, 0)
        self._references: dict[str, Reference] = {}

    @cached_property
    def other(self) -> Path:
        """The world of another run."""
        return world.build(self.root, 1)

    def fill(self, case: Case) -> None:
        """Make ``here`` anew, with what the case reads and the older output that it replaces."""
        if self.here.exists():
            _make_removable(self.here)
            shutil.rmtree(self.here)
        self.here.mkdir(parents=True)
        self.fill_again(case)

    def fill_again(self, case: Case) -> None:
        """Fill an empty ``here``."""
        for name in case.inputs:
            _copy(self.world / name, self.here / name)
        if case.replaced:
            _copy(self.world / case.replaced, self.here / case.outputs[0])

    def run(
        self, case: Case, argv: tuple[str, ...] | None = None, fault: Fault | None = None
    ) -> tuple[Outcome, Visitor]:
        """Run the case as it stands in ``here``, visited if it serves."""
        visitor = Visitor()
        during = visitor if case.command == "review" else None
        return forked.run(case.argv if argv is None else argv, self.here, fault, during=during), visitor

    def reference(self, case: Case) -> Reference:
        """What the case does when nothing is wrong; it must do the same twice."""
        if case.name not in self._references:
            self.fill(case)
            before = canonical(self.here)
            outcome, visitor = self.run(case)
            assert outcome.status == 0, (case.name, outcome.stderr.decode())
            outputs = [path for path in self.here.rglob("*") if path.is_file()]
            largest = max((path.stat().st_size for path in outputs), default=1)
            self._references[case.name] = Reference(outcome, before, canonical(self.here), largest, said(visitor))
        return self._references[case.name]

    def members(self, case: Case) -> list[str]:
        """The files that a case reads."""
        found = list[str]()
        for name in case.inputs:
            path = self.world / name
            each = [path] if path.is_file() else sorted(path.rglob("*"))
            found += [str(one.relative_to(self.world)) for one in each if one.is_file()]
        return found


def said(visitor: Visitor) -> str:
    return json.dumps(visitor.answers, sort_keys=True)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    (shutil.copytree if source.is_dir() else shutil.copy2)(source, target)


def _make_removable(folder: Path) -> None:
    for place, _, _ in os.walk(folder):
        with suppress(OSError):
            os.chmod(place, 0o777)
