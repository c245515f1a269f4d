"""Explainers of one index, one per curvature. They share the rows of the index; each answers one query at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property

import torch

from tagtrace._progress import Progress
from tagtrace.index import Index
from tagtrace.influence import Explainer, Score, SegmentKind
from tagtrace.influence.curvature.choice import Curvature
from tagtrace.tagger import Rows
from tagtrace.tagger.objective import Evaluation, Objective

CURVED: tuple[Score, ...] = ("influence", "relative")
"""Scores that use a curvature."""
MAX_EVALUATIONS = 400
"""Maximum number of evaluations of the objective in one retraining, the default of ``Retrainer.retrain``."""


class CountedObjective(Objective):
    """An objective that reports each evaluation to its explainer."""

    def __init__(self, explainer: SharedExplainer) -> None:
        super().__init__(explainer.head, explainer.rows, explainer.index.manifest.fit.l2)
        self.explainer = explainer

    def evaluate(self, theta: torch.Tensor) -> Evaluation:
        self.explainer.count()
        return super().evaluate(theta)


class SharedExplainer(Explainer):
    """An explainer that shares its rows with others, and whose retraining reports its progress."""

    def __init__(self, index: Index, curvature: Curvature, rows: Callable[[], Rows]) -> None:
        super().__init__(index, curvature)
        self._shared_rows = rows
        self._watcher: Progress | None = None
        self._num_evaluations = 0

    @cached_property
    def rows(self) -> Rows:
        return self._shared_rows()

    @cached_property
    def objective(self) -> Objective:
        return CountedObjective(self)

    @contextmanager
    def watched(self, watcher: Progress | None) -> Iterator[None]:
        """Report progress to ``watcher`` inside the block: sentences of a Hessian, or evaluations of the objective."""
        self._watcher, self._num_evaluations, self.progress = watcher, 0, watcher
        try:
            yield
        finally:
            self._watcher = self.progress = None

    def count(self) -> None:
        """Count and report one evaluation of the objective."""
        self._num_evaluations += 1
        if self._watcher is not None:
            self._watcher(min(self._num_evaluations, MAX_EVALUATIONS), MAX_EVALUATIONS)


class Explainers:
    """The explainers by curvature. One thread at a time uses an explainer; other curvatures can be used meanwhile."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._lock = threading.Lock()
        self._rows_lock = threading.Lock()
        self._found: dict[str, tuple[SharedExplainer, threading.Lock]] = {}
        self._ready: set[tuple[str, str]] = set()

    def _rows(self) -> Rows:
        with self._rows_lock:
            return self._float_rows

    @cached_property
    def _float_rows(self) -> Rows:
        return self.index.rows(torch.float32)

    def is_ready(self, curvature: Curvature, score: Score, kind: SegmentKind) -> bool:
        """Whether an explanation can be computed at once, because the curvature is ready."""
        if curvature == "identity" or score not in CURVED:
            return True
        return (curvature, kind if score == "relative" else "") in self._ready

    def made_ready(self, curvature: Curvature, score: Score, kind: SegmentKind) -> None:
        """Remember that the curvature is ready for such explanations."""
        if score in CURVED:
            self._ready |= {(curvature, ""), (curvature, kind if score == "relative" else "")}

    @property
    def is_ready_for_edits(self) -> bool:
        """Whether a what-if can be computed at once."""
        explainer, _ = self._found.get("auto edits", (None, None))
        return explainer is not None and "retrainer" in vars(explainer)

    @contextmanager
    def of(
        self, curvature: Curvature, watcher: Progress | None = None, *, edits: bool = False
    ) -> Iterator[SharedExplainer]:
        """The explainer of a curvature, which no other thread uses inside the block.

        What-ifs (``edits``) have an explainer of their own, because retraining takes long.
        """
        with self._lock:
            key = f"{curvature} edits" if edits else curvature
            if key not in self._found:
                self._found[key] = SharedExplainer(self.index, curvature, self._rows), threading.Lock()
            explainer, lock = self._found[key]
        with lock, explainer.watched(watcher):
            yield explainer
