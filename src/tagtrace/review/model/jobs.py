"""Long computations in the background, identified by number."""

from __future__ import annotations

import itertools
import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tagtrace._checks import TagtraceError, describe_failure
from tagtrace._progress import Progress
from tagtrace.review.decisions.decide import NotFoundError

_log = logging.getLogger(__name__)

MAX_WAITING = 20
"""Maximum number of jobs of a lane that are running or waiting."""
MAX_KEPT = 200
"""Maximum number of jobs whose results are kept."""
Lane = Literal["short", "long", "teaching"]
"""Trainings of minutes do not hold up what takes seconds, and nothing holds up teaching."""


@dataclass
class Job:
    """The state, the progress and the result of a computation."""

    lane: Lane
    state: Literal["running", "done", "failed"] = "running"
    progress: tuple[int, int] | None = None
    result: dict[str, Any] | None = None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"state": self.state, "progress": self.progress}
        if self.state == "done":
            found["result"] = self.result
        if self.state == "failed":
            found["error"] = self.error
        return found


class Jobs:
    """Runs jobs of a lane one at a time, in the order in which they were started."""

    def __init__(self) -> None:
        self._pools = {
            lane: ThreadPoolExecutor(1, f"{lane}-job", step_back if lane == "teaching" else None)
            for lane in get_args(Lane)
        }
        self._jobs: dict[int, Job] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def start(self, work: Callable[[Progress], dict[str, Any]], lane: Lane = "short") -> int:
        """Run ``work`` in the background, with a progress callback, and return the number of the job."""
        with self._lock:
            if sum((job.state, job.lane) == ("running", lane) for job in self._jobs.values()) >= MAX_WAITING:
                raise TagtraceError(f"{MAX_WAITING} jobs are already waiting; try again later")
            number, job = next(self._numbers), Job(lane)
            self._jobs[number] = job
            ended = [key for key, one in self._jobs.items() if one.state != "running"]
            for key in ended[: max(len(self._jobs) - MAX_KEPT, 0)]:
                del self._jobs[key]
        self._pools[lane].submit(_run, job, work)
        return number

    def get(self, number: int) -> Job:
        job = self._jobs.get(number)
        if job is None:
            raise NotFoundError(f"there is no job {number}; if the server was restarted, start the job again")
        return job

    @property
    def is_busy(self) -> bool:
        return any(job.state == "running" for job in list(self._jobs.values()))

    def close(self) -> None:
        """Start nothing more; teaching, which takes seconds and reads the decisions, is waited for."""
        for lane, pool in self._pools.items():
            pool.shutdown(wait=lane == "teaching", cancel_futures=True)


def step_back() -> None:
    """Give this thread a lower priority than those that answer requests, if the system supports it."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


def why_failed(error: TagtraceError | OSError) -> str:
    """The reason in one line: these errors are no mistakes of ours, so no traceback is logged."""
    said = describe_failure(error) if isinstance(error, OSError) else str(error)
    return " ".join(said.split())


def _run(job: Job, work: Callable[[Progress], dict[str, Any]]) -> None:
    def progress(done: int, total: int) -> None:
        job.progress = (done, total)

    try:
        job.result = work(progress)
        job.state = "done"
    except (TagtraceError, OSError) as error:
        job.error, job.state = why_failed(error), "failed"
    except Exception as error:
        _log.exception("job failed")
        job.error, job.state = f"unexpected {type(error).__name__}; see the output of the server for details", "failed"
