"""Flip: a small set of training labels whose edit changes a prediction.

After Yang, Jain and Wallace (2023), "How Many and Which Training Points Would Need to be Removed to Flip this
Prediction?", who remove whole instances of a linear classifier in the order of their influence. Here the labels of
segments are removed or changed, and every step is checked by retraining:

1. *Rank* every edit by its first-order effect on the margin m (``margin``); refine the best few alone.
2. *Grow*: add the strongest edits that should together cover what is left of m, at most doubling the set (a label that
   others repeat shows its effect only once some of them are removed), retrain with all of them, and rank again at the
   retrained head (with the old Hessian), until m < 0.
3. *Prune*: bisect for the shortest beginning of the list that flips, then leave out single edits, the weakest first,
   for as long as the prediction stays flipped.

The set returned flips the prediction of a head retrained with it. It is *minimal* if no single edit can be left out,
which is known if pruning ended within its budget of retrainings. Only a search of all subsets could prove that no
smaller set flips the prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from tagtrace._markup import counted
from tagtrace._table import Table, Tabular
from tagtrace.data.labels import LabelSet
from tagtrace.index import Index
from tagtrace.influence.edits.edit import Edit, edit_table, edit_to_json
from tagtrace.influence.edits.edit_pool import Pool, relabellings, removals
from tagtrace.influence.edits.effect import Effect, effect, effect_to_json, probability_table
from tagtrace.influence.edits.margin import Gap, Margin, best_labels
from tagtrace.influence.edits.refine import Refiner
from tagtrace.influence.edits.retrain import Retrainer
from tagtrace.influence.edits.seed_effects import SeedEffects, seed_effects_to_json
from tagtrace.influence.options import check_at_least, check_choice
from tagtrace.influence.query import Query
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import RowParts, Rows

HowToEdit = Literal["remove", "relabel"]
WhatToEdit = Literal["token", "entity", "sentence"]
FlipProgress = Callable[[int, float, int], None]
"""Called after each retraining with the size of the set, its margin and the number of retrainings so far."""

NUM_REFINED = 20
"""Number of edits, the best by first order, that are refined before the first is chosen."""
REFINED_LOGITS = 2_000
"""Edits of sentences with more tokens times labels than this are not refined."""
SHORTLIST = 1_000
"""Minimum number of edits that are ranked again in every round."""


@dataclass(frozen=True)
class Flip(Tabular):
    """A set of edits and the effect on the query of retraining with them."""

    index: Index = field(repr=False, compare=False)
    query: Query = field(repr=False)
    found: bool
    """Whether the edits change the prediction. If not, ``edits`` is the largest set that was tried."""
    edits: tuple[Edit, ...]
    """Strongest first."""
    labels_before: tuple[int, ...]
    labels_after: tuple[int, ...]
    """The most likely labels of the segment, given the labels around it."""
    margin_before: float
    margin_after: float
    effect: Effect
    """On the loss and probabilities of ``labels_before``, by exact retraining."""
    is_minimal: bool
    """Whether retraining showed that no single edit can be left out."""
    num_retrainings: int
    retrained: SeedEffects | None = None
    """If the whole tagger was trained again: for each seed, what ``effect`` is the mean of."""
    num_flips: int | None = None
    """In how many of these seeds the prediction changes as it was asked to."""

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        before, after = (" ".join(self.index.labels.decode(ids)) for ids in (self.labels_before, self.labels_after))
        size, times = counted(len(self.edits), "label"), counted(self.num_retrainings, "retraining")
        if not self.found:
            margins = f"margin {self.margin_before:.3f} -> {self.margin_after:.3f}"
            return f"not found: after editing {size}, the prediction is still {after} ({margins}; {times})"
        if self.retrained is not None:
            seeds = f"{self.num_flips} of {counted(len(self.retrained.effects), 'seed')}"
            return f"editing {size} changes the best labels from {before} to {after} in {seeds} ({times})"
        minimal = "none can be left out" if self.is_minimal else "whether each is needed was not checked"
        return f"editing {size} changes the best labels from {before} to {after}; {minimal} ({times})"

    def describe(self) -> list[str | Table]:
        after = "after, verified" if self.retrained is None else "after, retrained"
        how = "relabel" if any(edit.labels is not None for edit in self.edits) else "remove"
        return [
            "",
            *self.query.describe(),
            self.verdict,
            edit_table(self.index, self.edits, f"training labels to {how}, strongest first"),
            probability_table(self.index.labels, self.query, {after: self.effect}),
            "These are probabilities of single labels; the prediction is the best labelling of all tokens together, so "
            "the two may differ.",
        ]

    def to_json(self) -> dict[str, Any]:
        """The result as data."""
        return {
            **self.query.to_json(),
            "found": self.found,
            "is_minimal": self.is_minimal,
            "num_retrainings": self.num_retrainings,
            "labels_before": list(self.index.labels.decode(self.labels_before)),
            "labels_after": list(self.index.labels.decode(self.labels_after)),
            "margin_before": self.margin_before,
            "margin_after": self.margin_after,
            "effects": {"retrain" if self.retrained else "verify": effect_to_json(self.effect, self.index.labels)},
            "retrained": None if self.retrained is None else seed_effects_to_json(self.retrained),
            "edits": self.to_records(),
        }

    def to_records(self) -> list[dict[str, Any]]:
        """One record for each edit."""
        return [edit_to_json(self.index, edit) for edit in self.edits]


class Flipper:
    """Flips predictions of the head that ``refiner`` and ``retrainer`` start from."""

    index: Index
    labels: LabelSet
    refiner: Refiner
    retrainer: Retrainer
    head: Head
    rows: Rows | RowParts

    def __init__(self, index: Index, refiner: Refiner, retrainer: Retrainer) -> None:
        self.index, self.labels, self.refiner, self.retrainer = index, index.labels, refiner, retrainer
        self.head, self.rows = refiner.head, refiner.rows

    def flip(
        self,
        query: Query,
        edit: HowToEdit = "remove",
        kind: WhatToEdit = "token",
        most: int = 100,
        to: str | Sequence[str] | None = None,
        max_retrainings: int = 100,
        progress: FlipProgress | None = None,
    ) -> Flip:
        """As ``Explainer.flip``."""
        check_choice("edit", edit, HowToEdit)
        check_choice("kind", kind, WhatToEdit)
        check_at_least(1, most=most, max_retrainings=max_retrainings)
        wanted = None if to is None else self.labels.parse(to, query.stop - query.start)
        margin = Margin(query, self.head, wanted)
        search = _Search(self, margin, kind if edit == "remove" else None, most, max_retrainings, progress)
        edits, is_minimal = search.run()
        last = search.states[frozenset(edits)]
        query = query.with_labels(torch.tensor(margin.predicted))
        return Flip(
            self.index, query, last.gap.flips, tuple(edits), margin.predicted, best_labels(query, last.head),
            search.states[frozenset()].gap.value, last.gap.value, effect(query, self.head, last.head),
            is_minimal, search.num_retrainings,
        )  # fmt: skip


@dataclass(frozen=True)
class _State:
    """A head retrained with some edits, and its margin."""

    head: Head
    gap: Gap


class _OutOfBudgetError(Exception):
    """No more retrainings are allowed."""


class _Search:
    """One search; ``kind`` is None to relabel."""

    def __init__(
        self,
        flipper: Flipper,
        margin: Margin,
        kind: WhatToEdit | None,
        most: int,
        budget: int,
        progress: FlipProgress | None,
    ) -> None:
        self.flipper, self.margin = flipper, margin
        self.kind: WhatToEdit | None = kind
        self.most, self.budget, self.progress = most, budget, progress
        self.num_retrainings = 0
        self.num_short = 0
        """The length of the longest beginning of the grown edits that is known not to flip."""
        self.states = {frozenset[Edit](): _State(flipper.head, margin.at(flipper.head))}
        self.pools: dict[tuple[tuple[int, ...], ...], Pool] = {}

    def run(self) -> tuple[list[Edit], bool]:
        """The edits, and whether they are minimal."""
        edits = self._grow()
        if not self.states[frozenset(edits)].gap.flips:
            return edits, False
        return self._prune(edits)

    def _state(self, edits: Sequence[Edit], near: Sequence[Edit] = ()) -> _State:
        """The head retrained with ``edits``, starting from the head retrained with ``near``."""
        key = frozenset(edits)
        if key in self.states:
            return self.states[key]
        if self.num_retrainings == self.budget:
            raise _OutOfBudgetError
        usual, start = self.flipper.retrainer, self.states[frozenset(near)].head.flat()
        retrainer = Retrainer(usual.objective, usual.rows, start, usual.solver)
        head = self.flipper.head.at(retrainer.retrain(edits, tolerance=1e-7).theta)
        self.num_retrainings += 1
        self.states[key] = _State(head, self.margin.at(head))
        if self.progress is not None:
            self.progress(len(edits), self.states[key].gap.value, self.num_retrainings)
        return self.states[key]

    def _grow(self) -> list[Edit]:
        """Edits that flip, or the largest set that was tried."""
        edits: list[Edit] = []
        state = self.states[frozenset(edits)]
        for _ in range(self.budget):
            added = self._strongest(state, edits)
            if not added:
                break
            state = self._state([*edits, *added], near=edits)
            self.num_short = len(edits)
            edits += added
            if state.gap.flips:
                break
        return edits

    def _strongest(self, state: _State, edits: list[Edit]) -> list[Edit]:
        """The strongest edits that should together bring the margin to 0: at least one, at most doubling the set."""
        gradient = self.margin.gradient(state.gap, state.head)
        direction = self.flipper.retrainer.solver.solve(gradient.unsqueeze(0)).value[0]  # V (P,)
        pool = self._pool(state, direction)
        if not len(pool.segments):
            return []
        effects = pool.effects(state.head, self.flipper.rows, direction)  # (S,)
        if not edits:
            self._refine_best(pool, effects, state.gap)
        taken = {(edit.sentence_number, t) for edit in edits for t in range(edit.start, edit.stop)}
        room, left = min(max(len(edits), 1), self.most - len(edits)), state.gap.value
        added: list[Edit] = []
        for index in effects.argsort(stable=True).tolist():
            edit = pool.edit(index)
            if float(effects[index]) >= 0 or len(added) == room or left < 0:
                break
            tokens = {(edit.sentence_number, t) for t in range(edit.start, edit.stop)}
            if not taken & tokens:
                added.append(edit)
                taken |= tokens
                left += float(effects[index])
        return added

    def _pool(self, state: _State, direction: Tensor) -> Pool:
        """The edits worth ranking: the best by first order when this rival first occurred."""
        kind = self.kind
        key = (state.gap.keep, state.gap.rival) if kind is None else ()
        if key not in self.pools:
            rows, labels = self.flipper.rows, self.flipper.labels
            pool = relabellings(rows, labels, state.gap) if kind is None else removals(rows, labels, kind)
            effects = pool.effects(state.head, rows, direction) if len(pool.segments) else torch.empty(0)
            count = min(len(effects), max(SHORTLIST, 10 * self.most))
            self.pools[key] = pool.take(effects.topk(count, largest=False).indices)
        return self.pools[key]

    def _refine_best(self, pool: Pool, effects: Tensor, gap: Gap) -> None:
        """Replace the first-order effect of the best few edits by the refined one."""
        flipper = self.flipper
        best = effects.topk(min(NUM_REFINED, len(effects)), largest=False).indices.tolist()
        sizes = {
            index: int(flipper.rows.lengths[pool.edit(index).sentence_number]) * flipper.head.num_labels
            for index in best
        }
        short = [index for index in best if sizes[index] <= REFINED_LOGITS]
        changes = flipper.refiner.changes([[pool.edit(index)] for index in short])  # (G, P)
        for index, change in zip(short, changes, strict=True):
            moved = flipper.head.at(flipper.head.flat() + change)
            effects[index] = self.margin.at(moved).value - gap.value

    def _prune(self, edits: list[Edit]) -> tuple[list[Edit], bool]:
        """Fewer edits that still flip, and whether each of them was found to be needed."""
        try:
            low, high = self.num_short, len(edits)  # the first ``low`` do not flip, the first ``high`` do
            while high - low > 1:
                middle = (low + high) // 2
                flips = self._state(edits[:middle], near=edits).gap.flips
                low, high = (low, middle) if flips else (middle, high)
            edits = edits[:high]
            num_before = len(edits) + 1
            while len(edits) < num_before:  # until every remaining edit was found to be needed
                num_before = len(edits)
                for edit in reversed(edits):
                    rest = [other for other in edits if other != edit]
                    edits = rest if self._state(rest, near=edits).gap.flips else edits
        except _OutOfBudgetError:
            return edits, False
        return edits, True
