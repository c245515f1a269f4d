"""Explainers of one index, one for each curvature, that share what they can and answer one question at a time."""

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
"""Scores with a curvature."""
MAX_EVALUATIONS = 400
"""Of the objective, in one retraining: the default of ``Retrainer.retrain``."""


class CountedObjective(Objective):
    """Tells how often it was evaluated."""

    def __init__(self, explainer: SharedExplainer) -> None:
        super().__init__(explainer.head, explainer.rows, explainer.index.manifest.fit.l2)
        self.explainer = explainer

    def evaluate(self, theta: torch.Tensor) -> Evaluation:
        self.explainer.count()
        return super().evaluate(theta)


class SharedExplainer(Explainer):
    """An explainer whose rows belong to several, and whose retraining can be watched."""

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
        """Tell ``watcher`` about work inside the block: sentences of a Hessian, or evaluations of the objective."""
        self._watcher, self._num_evaluations, self.progress = watcher, 0, watcher
        try:
            yield
        finally:
            self._watcher = self.progress = None

    def count(self) -> None:
        self._num_evaluations += 1
        if self._watcher is not None:
            self._watcher(min(self._num_evaluations, MAX_EVALUATIONS), MAX_EVALUATIONS)


class Explainers:
    """By curvature. Whoever asks has an explainer alone; those of other curvatures answer meanwhile."""

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
        """Whether a question has no preparation to wait for."""
        if curvature == "identity" or score not in CURVED:
            return True
        return (curvature, kind if score == "relative" else "") in self._ready

    def made_ready(self, curvature: Curvature, score: Score, kind: SegmentKind) -> None:
        """Remember that such a question was answered."""
        if score in CURVED:
            self._ready |= {(curvature, ""), (curvature, kind if score == "relative" else "")}

    @property
    def is_ready_for_edits(self) -> bool:
        explainer, _ = self._found.get("auto edits", (None, None))
        return explainer is not None and "retrainer" in vars(explainer)

    @contextmanager
    def of(
        self, curvature: Curvature, watcher: Progress | None = None, *, edits: bool = False
    ) -> Iterator[SharedExplainer]:
        """The explainer of a curvature, for the block alone; with ``edits`` one apart, as retraining takes long."""
        with self._lock:
            key = f"{curvature} edits" if edits else curvature
            if key not in self._found:
                self._found[key] = SharedExplainer(self.index, curvature, self._rows), threading.Lock()
            explainer, lock = self._found[key]
        with lock, explainer.watched(watcher):
            yield explainer
