"""Lanes: threads for one kind of request, so that requests of another kind, however many, cannot keep them waiting."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tagtrace._checks import TagtraceError
from tagtrace.review.model.jobs import step_back


class BusyError(TagtraceError):
    """Too many requests of this kind are waiting."""


class Lane:
    """Threads that carry out the requests of one kind, in their order; at most ``most`` at once, waiting ones included.

    With ``is_slow``, the threads have a lower priority than those of other lanes.
    """

    name: str
    most: int
    num_asked: int

    def __init__(self, name: str, num_threads: int, most: int, *, is_slow: bool = False) -> None:
        self.name, self.most, self.num_asked = name, most, 0
        self._pool = ThreadPoolExecutor(num_threads, name, step_back if is_slow else None)

    def __call__(self, work: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        """The route, carried out in this lane."""

        @functools.wraps(work)
        async def route(*args: Any, **named: Any) -> Any:
            if self.num_asked >= self.most:
                raise BusyError(f"{self.num_asked} requests for {self.name} are waiting already; try again in a moment")
            self.num_asked += 1
            try:
                return await asyncio.get_running_loop().run_in_executor(
                    self._pool, functools.partial(work, *args, **named)
                )
            finally:
                self.num_asked -= 1

        return route

    def close(self) -> None:
        """Start nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)
