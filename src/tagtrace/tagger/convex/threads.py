"""Work shared by threads, for compiled loops and small products that release Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from threading import Barrier, current_thread
from typing import TypeVar

import torch

_Result = TypeVar("_Result")

WORKER = "tagtrace-share"
"""How the names of the threads begin."""
_num_shared: ContextVar[int | None] = ContextVar("_num_shared", default=None)
"""The number of threads of ``share``, if torch is to have one."""


@contextmanager
def torch_alone() -> Iterator[None]:
    """Inside, torch computes in the calling thread and only ``share`` uses others, for work of a few milliseconds.

    Threads that torch starts go on running for about 5 ms in case there is more to do, on the cores that ``share``
    needs.
    """
    count = _num_threads()
    before, number = torch.get_num_threads(), _num_shared.set(count)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _num_shared.reset(number)


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
    return list(_workers(num_threads, os.getpid()).map(work, ranges))


def _num_threads() -> int:
    return _num_shared.get() or torch.get_num_threads()


def _is_worker() -> bool:
    return current_thread().name.startswith(WORKER)


@cache
def _workers(num_threads: int, process: int) -> ThreadPoolExecutor:  # noqa: ARG001
    """Threads in which torch starts no further threads. A forked process needs its own."""
    pool = ThreadPoolExecutor(num_threads, WORKER, _start_worker)
    everyone = Barrier(num_threads)
    before = torch.get_num_threads()
    list(pool.map(lambda _: everyone.wait(), range(num_threads)))  # all of them have started
    torch.set_num_threads(before)
    return pool


def _start_worker() -> None:
    torch.get_num_threads()  # the first call in a thread sets its number
    torch.set_num_threads(1)
