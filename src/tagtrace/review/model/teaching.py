"""Teaching from the decisions of a project: the findings ranked again, what to ask next, and what is left.

A lesson is computed in the background, after every ``EVERY`` decisions and on request; until it is ready, the one
before it is used. The random sample of sentences (``Draws``) follows from the findings alone, before any decision, so
it is the same after a restart, and the estimate of what is left does not depend on what the decisions taught.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from torch import Tensor

from tagtrace._checks import OptionError, TagtraceError
from tagtrace._progress import Progress
from tagtrace.findings.finding import Finding
from tagtrace.findings.teaching.asking import Question, next_questions
from tagtrace.findings.teaching.decided import Decided, Place
from tagtrace.findings.teaching.errors_left import Draws, ErrorsLeft, errors_left, expected_wrong
from tagtrace.findings.teaching.teach import Taught, finding_features, first_tokens, teach
from tagtrace.index import Index
from tagtrace.review.decisions.decide import Decisions
from tagtrace.review.model.jobs import Jobs

EVERY = 10
"""Number of decisions after which findings are ranked again."""
AHEAD = 50
"""Number of questions that what comes next is summed over."""
SPARE = 50
"""Number of further questions that are kept, because some of them may be decided before they are asked."""
FIRST = 100
"""A finding that rises among so many is counted."""
MOVED = 0.1
"""A confidence that changes by more than this is counted."""
PART = 200
"""Number of sentences whose decisions are read at a time, so that no request has to wait long."""

State = Literal["none", "running", "ready"]


@dataclass(frozen=True)
class Known:
    """What the decisions of a project say, as of a version of the ledger."""

    decided: Decided
    checked: Mapping[int, int]
    """The number of labels that were wrong, by number of the sentences whose tokens are all decided."""
    num_fixed: int
    """Number of labels that differ from the given ones."""
    num_decisions: int
    skipped: frozenset[int]
    """Ranks of skipped findings: nothing is known of them, but they were asked."""
    version: int


@dataclass(frozen=True)
class Lesson:
    """What was learned from the decisions up to a version of the ledger."""

    version: int
    num_decisions: int
    findings: Mapping[int, Finding]
    """By rank, with the scores and confidences that follow from the decisions; empty before the first decision."""
    places: Mapping[int, int]
    """The place of each rank in the new order: open findings first, the most probably wrong one first."""
    questions: list[Question]
    chances: list[float]
    """The probability that each question finds a wrong label."""
    left: ErrorsLeft
    line: str
    """What changed, what is left and what to expect next."""

    @property
    def num_next(self) -> float:
        """How many of the next questions should find a wrong label."""
        return sum(self.chances[:AHEAD])


def read_known(decisions: Decisions) -> Known:
    """Read the decisions, a few sentences at a time. Later decisions count where they overlap, as in an export."""
    data, labels = decisions.data, dict[Place, str]()
    checked, num_fixed = dict[int, int](), 0
    with decisions.reading() as ledger:
        version, num_decisions, numbers = ledger.last, ledger.num_decisions(), ledger.decided_sentences()
        skipped = frozenset(rank for rank in data.by_rank if ledger.status(rank) == "skipped")
    for first in range(0, len(numbers), PART):
        with decisions.reading() as ledger:
            found = {number: ledger.decided_labels(number) for number in numbers[first : first + PART]}
        for number, some in found.items():
            given = data.sentences[number].labels
            num_wrong = sum(label != given[t] for t, label in some.items())
            num_fixed += num_wrong
            labels |= {(number, t): label for t, label in some.items()}
            if len(some) == len(given):
                checked[number] = num_wrong
    return Known(Decided(labels), checked, num_fixed, num_decisions, skipped, version)


class Teaching:
    """The lessons of a project. All methods can be called from any thread; only ``learn`` takes long."""

    decisions: Decisions
    jobs: Jobs
    index: Index | None
    lesson: Lesson | None

    def __init__(self, decisions: Decisions, jobs: Jobs, index: Index | None = None) -> None:
        """With the ``index`` of the data, findings are also compared by their features."""
        self.decisions, self.jobs, self.index, self.lesson = decisions, jobs, index, None
        self._lock = threading.Lock()
        self._job: int | None = None
        self._tried = 0  # the version of the last attempt

    @property
    def state(self) -> State:
        if self._job is not None and self.jobs.get(self._job).state == "running":
            return "running"
        return "none" if self.lesson is None else "ready"

    @property
    def taught(self) -> Lesson | None:
        """The lesson, if anything was decided before it."""
        return self.lesson if self.lesson is not None and self.lesson.findings else None

    def start(self) -> int:
        """Learn from the decisions in the background; returns the number of the job, of the one that runs if any."""
        if not self.decisions.data.findings:
            raise OptionError("this project has no findings to rank; audit its data first")
        with self._lock:
            if self._job is None or self.state != "running":
                self._job = self.jobs.start(self._work, "teaching")
            return self._job

    def notice(self, version: int) -> None:
        """Start if there are enough new decisions; ``version`` is that of the ledger."""
        if version - self._tried >= EVERY and self.decisions.data.findings and self.state != "running":
            with suppress(TagtraceError):  # too many jobs are waiting: the next decision tries again
                self.start()

    def to_json(self) -> dict[str, Any]:
        one = self.lesson
        found: dict[str, Any] = {"state": self.state, "version": 0, "line": "", "left": None, "margin": None}
        if one is None:
            return {**found, "next": None, "decisions": 0}
        margin = one.left.margin if math.isfinite(one.left.margin) else None
        return {
            "state": self.state,
            "version": one.version,
            "decisions": one.num_decisions,
            "line": one.line,
            "left": one.left.count,
            "margin": margin,
            "next": one.num_next,
        }

    def _work(self, _: Progress) -> dict[str, Any]:
        with self.decisions.reading() as ledger:
            self._tried = ledger.last
        self.lesson = self.learn(read_known(self.decisions))
        return {**self.to_json(), "state": "ready"}

    @cached_property
    def _openings(self) -> dict[int, str]:
        return first_tokens(self.decisions.data.sentences)

    @cached_property
    def _features(self) -> Tensor | None:
        return None if self.index is None else finding_features(self.index, self.decisions.data.findings)

    @cached_property
    def expected(self) -> dict[int, float]:
        """The number of wrong labels that the findings lead to expect before any decision, by sentence number."""
        before = teach(self.decisions.data.findings, Decided(), self._openings, self._features)
        return expected_wrong(before.findings, before.wrong.probabilities.tolist())

    @cached_property
    def draws(self) -> Draws:
        return Draws.of([len(one) for one in self.decisions.data.sentences], self.expected)

    def learn(self, known: Known) -> Lesson:
        """The lesson that follows from decisions."""
        taught = teach(self.decisions.data.findings, known.decided, self._openings, self._features)
        left = errors_left(self.draws, known.checked, self.expected, known.num_fixed)
        questions = self._questions(taught, known)
        chances = _chances(taught, questions)
        after = f"{left}; the next {len(chances[:AHEAD])} decisions should find about {sum(chances[:AHEAD]):.0f}"
        if not known.decided:
            line = f"nothing is decided yet; {after}"
            return Lesson(known.version, known.num_decisions, {}, {}, questions, chances, left, line)
        findings, places = {one.rank: one for one in taught.findings}, _places(taught)
        line = f"ranked again after {known.num_decisions:,} decisions: {self._changes(taught)}; {after}"
        return Lesson(known.version, known.num_decisions, findings, places, questions, chances, left, line)

    def _questions(self, taught: Taught, known: Known) -> list[Question]:
        """The next questions; skipped findings are not asked again."""
        count = AHEAD + SPARE + len(known.skipped)
        found = next_questions(taught, self.draws, known.checked, count, known.num_decisions)
        return [one for one in found if one.finding is None or one.finding.rank not in known.skipped][: AHEAD + SPARE]

    def _changes(self, taught: Taught) -> str:
        """What is different from the lesson before, of the findings that are still open."""
        before = self.taught
        ranks = [one.rank for one in taught.ranked()]
        old = sorted(ranks, key=lambda rank: rank if before is None else before.places[rank])
        num_risen = len(set(ranks[:FIRST]) - set(old[:FIRST]))
        known = self.decisions.data.by_rank if before is None else before.findings
        new = {one.rank: one.confidence for one in taught.findings}
        num_moved = sum(abs(new[rank] - known[rank].confidence) > MOVED for rank in ranks)
        return (
            f"{num_risen:,} findings rose into the first {FIRST}, {num_moved:,} confidences changed by more than "
            f"{MOVED}"
        )


def _places(taught: Taught) -> dict[int, int]:
    """The place of each rank: open findings in their new order, then those that are decided."""
    ranks = [one.rank for one in taught.ranked()]
    rest = [one.rank for one in taught.findings]
    return {rank: place for place, rank in enumerate(dict.fromkeys([*ranks, *rest]))}


def _chances(taught: Taught, questions: list[Question]) -> list[float]:
    """The probability that each question finds a wrong label: of a sentence, that one of its findings is right."""
    right: dict[int, float] = {}
    for one in taught.findings:
        right[one.sentence_number] = right.get(one.sentence_number, 1.0) * (1.0 - one.score)
    return [
        1.0 - right.get(one.sentence_number, 1.0) if one.finding is None else one.finding.score for one in questions
    ]
