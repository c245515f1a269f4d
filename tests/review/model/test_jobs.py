"""Jobs of one lane do not keep those of another waiting, and their errors are one line."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tagtrace._checks import TagtraceError
from tagtrace.review.model.jobs import MAX_WAITING, Job, Jobs, Lane

PATIENCE = 20.0


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    found = Jobs()
    yield found
    found.close()


def ended(jobs: Jobs, number: int) -> Job:
    job = jobs.get(number)
    while job.state == "running":
        threading.Event().wait(0.001)
    return job


@pytest.mark.parametrize(("full", "free"), [("long", "teaching"), ("short", "long"), ("teaching", "short")])
def test_each_lane_has_its_own_limit(jobs: Jobs, full: Lane, free: Lane) -> None:
    """Twenty trainings of one reviewer kept teaching out."""
    released = threading.Event()

    def wait(_: Any) -> dict[str, Any]:
        released.wait(PATIENCE)
        return {}

    try:
        for _ in range(MAX_WAITING):
            jobs.start(wait, full)
        with pytest.raises(TagtraceError, match="20 jobs are already waiting"):
            jobs.start(wait, full)
        assert ended(jobs, jobs.start(lambda _: {"is_free": True}, free)).result == {"is_free": True}
    finally:
        released.set()


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (TagtraceError("no  way"), "no way"),
        (PermissionError(13, "Permission denied", "seed-0.safetensors"), "seed-0.safetensors: Permission denied"),
        (OSError(28, "No space left on device"), "No space left on device; free some space and run again"),
    ],
)
def test_what_the_system_refuses_is_one_line(
    jobs: Jobs, caplog: pytest.LogCaptureFixture, error: Exception, line: str
) -> None:
    def fail(_: Any) -> dict[str, Any]:
        raise error

    job = ended(jobs, jobs.start(fail))
    assert (job.state, job.error, caplog.text) == ("failed", line, "")


def test_a_mistake_of_ours_is_logged(jobs: Jobs, caplog: pytest.LogCaptureFixture) -> None:
    job = ended(jobs, jobs.start(lambda _: {"x": 1 // 0}))
    assert (job.state, job.error) == (
        "failed",
        "unexpected ZeroDivisionError; see the output of the server for details",
    )
    assert "Traceback" in caplog.text
