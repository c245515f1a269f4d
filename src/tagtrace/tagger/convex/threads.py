"""Work shared by threads, for compiled loops and small products that release Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier, current_thread
from typing import TypeVar

import torch

_Result = TypeVar("_Result")

WORKER = "tagtrace-share"
"""How the names of the threads begin."""


def share(work: Callable[[range], _Result], count: int, step: int = 1, *, is_cuda: bool = False) -> list[_Result]:
    """Split ``range(count)`` into a range for each of torch's threads, in multiples of ``step``, and call ``work``.

    What is shared inside ``work`` stays in its thread. On a GPU there is one range. Nothing is differentiated.
    """
    num_threads = 1 if is_cuda or _is_worker() else torch.get_num_threads()
    size = step * max(-(-count // (step * num_threads)), 1)
    ranges = [range(count)[start : start + size] for start in range(0, count, size)]
    work = torch.no_grad()(work)
    if len(ranges) < 2:
        return [work(some) for some in ranges]
    return list(_workers(num_threads, os.getpid()).map(work, ranges))


def _is_worker() -> bool:
    return current_thread().name.startswith(WORKER)


@cache
def _workers(num_threads: int, process: int) -> ThreadPoolExecutor:  # noqa: ARG001
    """Threads in which torch starts no further threads. A forked process needs its own."""
    pool = ThreadPoolExecutor(num_threads, WORKER, _start_worker)
    everyone = Barrier(num_threads)
    list(pool.map(lambda _: everyone.wait(), range(num_threads)))  # all of them have started
    torch.set_num_threads(num_threads)
    return pool


def _start_worker() -> None:
    torch.get_num_threads()  # the first call in a thread sets its number
    torch.set_num_threads(1)
