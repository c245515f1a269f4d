"""Work shared by threads, for compiled loops and small products that release Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier, current_thread, local
from typing import TypeVar

import torch

_Result = TypeVar("_Result")

WORKER, CONDUCTOR = "tagtrace-share", "tagtrace-alone"
"""How the names of the threads begin."""
NUM_ALONE = 4
"""Number of calls of ``alone`` at a time."""
_local = local()


def alone(work: Callable[[], _Result]) -> _Result:
    """Call ``work``, of a few milliseconds, in a thread where torch starts no others and only ``share`` does.

    Threads that torch starts go on running for about 5 ms in case there is more to do, on the cores that ``share``
    needs. Nothing is differentiated.
    """
    num_threads, work = _num_threads(), torch.no_grad()(work)

    def call() -> _Result:
        _local.num_threads = num_threads
        return work()

    is_there = current_thread().name.startswith((WORKER, CONDUCTOR))
    return work() if is_there else _pool(CONDUCTOR, NUM_ALONE, os.getpid()).submit(call).result()


def share(work: Callable[[range], _Result], count: int, step: int = 1, *, is_cuda: bool = False) -> list[_Result]:
    """Split ``range(count)`` into a range for each of torch's threads, in multiples of ``step``, and call ``work``.

    What is shared inside ``work`` stays in its thread. On a GPU there is one range. Nothing is differentiated.
    """
    num_threads = 1 if is_cuda or _is_worker() else _num_threads()
    size = step * max(-(-count // (step * num_threads)), 1)
    ranges = [range(count)[start : start + size] for start in range(0, count, size)]
    work = torch.no_grad()(work)
    if len(ranges) < 2:
        return [work(some) for some in ranges]
    return list(_pool(WORKER, num_threads, os.getpid()).map(work, ranges))


def _num_threads() -> int:
    """The number of threads of ``share``: torch's, or in a thread of ``alone`` that of its caller."""
    return getattr(_local, "num_threads", 0) or torch.get_num_threads()


def _is_worker() -> bool:
    return current_thread().name.startswith(WORKER)


@cache
def _pool(name: str, num_threads: int, process: int) -> ThreadPoolExecutor:  # noqa: ARG001
    """Threads in which torch starts no further threads. A forked process needs its own."""
    pool = ThreadPoolExecutor(num_threads, name, _start_worker)
    everyone = Barrier(num_threads)
    before = torch.get_num_threads()
    list(pool.map(lambda _: everyone.wait(), range(num_threads)))  # all of them have started
    torch.set_num_threads(before)
    return pool


def _start_worker() -> None:
    torch.get_num_threads()  # the first call in a thread sets its number
    torch.set_num_threads(1)
