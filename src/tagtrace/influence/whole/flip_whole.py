"""Flip for the whole tagger: edits chosen by influence through the encoder, checked by training everything again.

Each check costs a training for each seed, so there is no search as for the head: the strongest edits that the score
finds are tried in three sizes, and the smallest that changes the prediction in most seeds is the answer. The score is
about the loss of the predicted labels; the labels asked for say only what relabelled segments become.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.index import Index
from tagtrace.influence.edits.edit import Edit
from tagtrace.influence.edits.edit_pool import Pool, relabellings, removals
from tagtrace.influence.edits.flip import Flip, HowToEdit, WhatToEdit
from tagtrace.influence.edits.margin import Margin
from tagtrace.influence.edits.seed_effects import RetrainOptions, SeedEffects, retrain_effects
from tagtrace.influence.options import check_at_least, check_choice
from tagtrace.influence.query import Query
from tagtrace.influence.whole.whole import WholeInfluence
from tagtrace.tagger.head import Head
from tagtrace.tagger.retrainings import RetrainingProgress
from tagtrace.tagger.rows import RowParts

SIZES = (0.25, 0.5, 1.0)
"""How many of the edits are tried, as shares of the largest number."""


@dataclass(frozen=True)
class WholeFlip:
    """Flips predictions of the whole tagger of an index."""

    index: Index
    whole: WholeInfluence
    head: Head
    rows: RowParts
    options: RetrainOptions
    device: torch.device

    def flip(
        self,
        query: Query,
        edit: HowToEdit,
        kind: WhatToEdit,
        most: int,
        to: str | Sequence[str] | None = None,
        progress: Callable[[RetrainingProgress], None] | None = None,
    ) -> Flip:
        """As ``Explainer.flip``."""
        check_choice("edit", edit, HowToEdit)
        check_choice("kind", kind, WhatToEdit)
        check_at_least(1, most=most)
        wanted = None if to is None else tuple(self.index.labels.parse(to, query.stop - query.start))
        predicted = Margin(query, self.head, wanted).predicted
        query = query.with_labels(torch.tensor(predicted))
        edits = self.edits(query, edit, kind, most, wanted)
        if not edits:
            raise OptionError("no training label that could be edited supports this prediction; edit other labels")
        sizes = sorted({max(round(share * len(edits)), 1) for share in SIZES})
        effects = retrain_effects(
            self.index, query, [edits[:size] for size in sizes], self.options, device=self.device, progress=progress
        )
        flips = [num_flips(found, predicted, wanted) for found in effects]
        is_found = [2 * count > len(found.effects) for count, found in zip(flips, effects, strict=True)]
        place = is_found.index(True) if any(is_found) else len(sizes) - 1
        mean = effects[place].mean
        return Flip(
            self.index, query, is_found[place], tuple(edits[: sizes[place]]), predicted,
            _usual_labels(effects[place]), _log_odds(mean.before), _log_odds(mean.after), mean,
            False, self.options.num_seeds * (1 + len(sizes)), effects[place], flips[place],
        )  # fmt: skip

    def edits(
        self, query: Query, edit: HowToEdit, kind: WhatToEdit, most: int, wanted: tuple[int, ...] | None = None
    ) -> list[Edit]:
        """At most ``most`` edits that should make the query's labels less likely, strongest first."""
        if edit == "remove":
            pool = removals(self.rows, self.index.labels, kind)
            scores = self.whole.segment_scores([query], pool.segments)[0]
        else:
            gap = Margin(query, self.head, wanted).at(self.head)
            pool = relabellings(self.rows, self.index.labels, gap)
            if pool.labels is None or not len(pool.segments):
                return []
            scores = self.whole.relabel_scores([query], pool.segments, pool.labels)[0]
        return strongest_edits(pool, scores, most)


def strongest_edits(pool: Pool, scores: Tensor, most: int) -> list[Edit]:
    """At most ``most`` edits of a pool with positive scores (S,), strongest first, none of which share a token."""
    taken, found = set[tuple[int, int]](), list[Edit]()
    for number in scores.argsort(descending=True, stable=True).tolist():
        if len(found) == most or float(scores[number]) <= 0:
            break
        one = pool.edit(number)
        tokens = {(one.sentence_number, t) for t in range(one.start, one.stop)}
        if not taken & tokens:
            found.append(one)
            taken |= tokens
    return found


def num_flips(found: SeedEffects, predicted: tuple[int, ...], wanted: tuple[int, ...] | None) -> int:
    """In how many seeds the labels were ``predicted`` and became others, or ``wanted``."""
    pairs = [(_labels(one.probabilities_before), _labels(one.probabilities_after)) for one in found.effects]
    return sum(
        before == predicted and (after != predicted if wanted is None else after == wanted) for before, after in pairs
    )


def _labels(probabilities: Tensor) -> tuple[int, ...]:
    return tuple(probabilities.argmax(1).tolist())


def _usual_labels(found: SeedEffects) -> tuple[int, ...]:
    """The labels that most seeds predict after the edits."""
    return Counter(_labels(one.probabilities_after) for one in found.effects).most_common(1)[0][0]


def _log_odds(loss: float) -> float:
    """log p / (1 - p) for p = exp(-loss)."""
    return -loss - math.log(-math.expm1(-max(loss, 1e-12)))
