"""Runs that are killed at each of their changes of the file system in turn."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tagtrace import _folders

CHANGES = ("replace", "mkdir", "unlink", "rmdir", "fsync", "chmod", "link")
"""Functions of ``os`` that change a disk."""


class KilledError(BaseException):
    """Nothing catches it, as nothing catches a signal."""


class _Steps:
    """Counts the changes before and after they are made, and raises at one of them, and at all later ones if dead."""

    def __init__(self, at: int, *, stays_dead: bool, ends: Callable[[], Any] | None) -> None:
        self.at, self.stays_dead, self.ends, self.count = at, stays_dead, ends, 0

    def check(self) -> None:
        self.count += 1
        if self.count == self.at or (self.stays_dead and self.count > self.at):
            if self.ends is not None:
                self.ends()
            raise KilledError

    def around(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*arguments: Any, **named: Any) -> Any:
            self.check()
            found = change(*arguments, **named)
            self.check()
            return found

        return changed


def killed_at(
    step: int, run: Callable[[], object], *, stays_dead: bool, can_exchange: bool, ends: Callable[[], Any] | None = None
) -> bool:
    """Kill a run at a step; returns whether it got there. It can tidy up unless it ``stays_dead``."""
    steps = _Steps(step, stays_dead=stays_dead, ends=ends)
    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGES:
            patch.setattr(os, name, steps.around((lambda _: None) if name == "fsync" else getattr(os, name)))
        exchange = _folders._exchange if can_exchange else lambda *_: False  # pyright: ignore[reportPrivateUsage]
        patch.setattr(_folders, "_exchange", steps.around(exchange))
        with suppress(KilledError):
            run()
    return steps.count >= step


def every_kill(
    prepare: Callable[[], object], run: Callable[[], object], *, stays_dead: bool, can_exchange: bool
) -> Iterator[int]:
    """Prepare and kill the run at each of its steps; the caller looks at the result after each."""
    for step in range(1, 10_000):
        prepare()
        if not killed_at(step, run, stays_dead=stays_dead, can_exchange=can_exchange):
            assert step > 1
            return
        yield step
    raise AssertionError("the run has too many steps")


def killed_in_a_fork(step: int, run: Callable[[], object], *, can_exchange: bool) -> bool:
    """Kill a run in a process of its own, which ends without any tidying; returns whether it got to the step."""
    child = os.fork()
    if child == 0:
        try:
            killed_at(step, run, stays_dead=True, can_exchange=can_exchange, ends=lambda: os._exit(9))
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
