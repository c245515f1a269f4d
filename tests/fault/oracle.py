"""What a run must never do, whatever it is given."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.fault.forked import Outcome
from tests.fault.snapshot import Snapshot, inputs_changed, is_below, is_temporary, steady_text
from tests.fault.table import Case

PROGRESS = re.compile(
    r"epoch |step |query |training|resuming from |opening |reading |warning: |there are more |no misprediction |"
    r"building |the refit of the head |auditing |stopped; |retraining |exact-|wrote |no scores through|note: |figures |"
    r"exact, seed|"
    r"the curvature could not be stored |  |$"
)
"""Lines on standard error that are no errors."""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
STATUS = (0, 1, 2, 130)


@dataclass(frozen=True)
class Reference:
    """What a case does when nothing is wrong."""

    outcome: Outcome
    before: Snapshot
    after: Snapshot
    """Both canonical."""
    largest: int
    """The size of its largest output in bytes."""
    answers: str = ""
    """What the server said, of a case that serves."""


def printed(outcome: Outcome) -> list[str]:
    """What is wrong with the exit status and with what was printed."""
    found = list[str]()
    if outcome.timed_out:
        return ["hang"]
    text = outcome.stderr.decode("utf-8", "replace")
    if "Traceback" in text or b"Traceback" in outcome.stdout:
        found.append(f"traceback: {text.splitlines()[-1][:300]}")
    elif outcome.status not in STATUS:
        found.append(f"exit status {outcome.status}: {text[-200:]}")
    for stream in (text, outcome.stdout.decode("utf-8", "replace")):
        if hit := CONTROL.search(stream):
            found.append(f"control character {hit[0]!r}: {stream[max(hit.start() - 60, 0) : hit.end() + 20]!r}")
    if outcome.status in (1, 130) and not found:
        errors = [line for line in text.splitlines() if not PROGRESS.match(line)]
        if len(errors) != 1 or not errors[0].startswith("tagtrace: ") or not text.rstrip("\n").endswith(errors[0]):
            found.append(f"not one error line: {errors[:4]}")
        elif len(errors[0]) > 2000:
            found.append(f"a line of {len(errors[0])} characters: {errors[0][:100]}")
    if outcome.status == 2 and "Error: " not in text:
        found.append(f"usage: {text[-200:]}")
    return found


def disk(
    case: Case, outcome: Outcome, before: Snapshot, after: Snapshot, *, may_be_done: bool = False
) -> list[str]:  # fmt: skip
    """What is wrong with the disk after a run that was not killed: ``before`` and ``after`` are raw.

    With ``may_be_done`` a run that failed may have written its outputs: it could only not say so.
    """
    found = [f"input changed: {path}" for path in inputs_changed(case, before, after)[:3]]
    new = [path for path in after if path not in before]
    allowed = (*case.work, *case.changed, *((*case.outputs,) if outcome.status == 0 or may_be_done else ()))
    for path in new:
        if not is_below(path, allowed):
            found.append(f"left over: {path} (exit status {outcome.status})")
            break
    if outcome.status != 0:
        lost = [path for path in before if path not in after and not is_below(path, (*case.inputs, *case.work))]
        found += [f"lost: {path}" for path in lost[:1]]
    return found


def answer(
    case: Case, outcome: Outcome, after: Snapshot, reference: Reference, answers: str | None = None
) -> list[str]:
    """How the result of a run that succeeded differs from that of the reference; ``after`` is canonical."""
    ours, theirs = (
        {
            path: digest
            for path, digest in each.items()
            if is_below(path, (*case.outputs, *case.changed)) and not is_temporary(path)
        }
        for each in (after, reference.after)
    )
    found = [f"silent difference: {path}" for path in sorted({*ours, *theirs}) if ours.get(path) != theirs.get(path)]
    if steady_text(outcome.stdout) != steady_text(reference.outcome.stdout):
        found.append("silent difference: standard output")
    if answers not in (None, reference.answers):
        found.append("silent difference: the answers of the server")
    return found[:3]
