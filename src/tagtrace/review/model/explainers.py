"""Explainers of one index, one per curvature; each answers one query at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import torch

from tagtrace._progress import Progress
from tagtrace.index import Index
from tagtrace.influence import Explainer, Score, SegmentKind
from tagtrace.influence.curvature.choice import Curvature
from tagtrace.tagger.convex.objective import Evaluation, Objective

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
    """An explainer whose retraining reports its progress."""

    def __init__(self, index: Index, curvature: Curvature, device: str | torch.device = "cpu") -> None:
        super().__init__(index, curvature, device=device)
        self._watcher: Progress | None = None
        self._num_evaluations = 0

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

    index: Index
    device: str | torch.device

    def __init__(self, index: Index, device: str | torch.device = "cpu") -> None:
        self.index, self.device = index, device
        self._lock = threading.Lock()
        self._found: dict[str, tuple[SharedExplainer, threading.Lock]] = {}
        self._ready: set[tuple[str, str]] = set()

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
                self._found[key] = SharedExplainer(self.index, curvature, self.device), threading.Lock()
            explainer, lock = self._found[key]
        with lock, explainer.watched(watcher):
            yield explainer
