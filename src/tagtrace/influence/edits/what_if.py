"""What if: the effect on a query of editing training labels together, by refine and by exact retraining."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from tagtrace._checks import OptionError
from tagtrace.influence.edits.edit import Edit, EditedSentences, Group
from tagtrace.influence.edits.effect import Effect, effect
from tagtrace.influence.explain import Explainer
from tagtrace.influence.query import Query
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import Rows


@dataclass(frozen=True)
class WhatIf:
    """Edits made together, and what they do to a query on each rung that was asked for."""

    edits: tuple[Edit, ...]
    effects: dict[Literal["refine", "verify"], Effect]
    """``refine``: predicted. ``verify``: retrained. Sentences too many to refine are retrained whether asked or not."""

    @property
    def best(self) -> Effect:
        """The effect on the highest rung there is."""
        return self.effects.get("verify") or self.effects["refine"]


def what_if(explainer: Explainer, query: Query, edits: Group, verify: bool = False) -> WhatIf:
    """What happens to ``query`` when all ``edits`` are made; with ``verify`` also after exact retraining."""
    head, rows = explainer.optimum, explainer.rows
    check_edits(edits, head, rows)
    effects: dict[Literal["refine", "verify"], Effect] = {}
    can_refine = explainer.refiner.can_refine(edits)
    if can_refine:
        effects["refine"] = explainer.refiner.effects([edits], query)[0]
    if verify or not can_refine:
        moved = head.at(explainer.retrainer.retrain(edits).theta)
        effects["verify"] = effect(query, head, moved)
    return WhatIf(tuple(edits), effects)


@torch.no_grad()
def check_edits(edits: Group, head: Head, rows: Rows) -> None:
    """Raise where edits overlap, name labels or sentences that do not exist, or break the head's constraints."""
    taken: set[tuple[int, int]] = set()
    for edit in edits:
        if not 0 <= edit.sentence_number < len(rows.lengths):
            raise OptionError(
                f"edit of sentence {edit.sentence_number}: there are sentences 0 to {len(rows.lengths) - 1}"
            )
        if any(not 0 <= label < head.num_labels for label in edit.labels or ()):
            raise OptionError(f"edit with labels {edit.labels}: there are labels 0 to {head.num_labels - 1}")
        tokens = {(edit.sentence_number, t) for t in range(edit.start, edit.stop)}
        if taken & tokens:
            raise OptionError(
                f"two edits of sentence {edit.sentence_number} both hold token {min(taken & tokens)[1]}; give one"
            )
        taken |= tokens
    edited = EditedSentences(rows, edits)
    is_allowed = edited.losses_after(head(edited.features, edited.lengths)).isfinite()
    if not bool(is_allowed.all()):
        sentence_number = edited.sentences[int((~is_allowed).nonzero()[0])]
        raise OptionError(
            f"sentence {sentence_number}: the tagger's constraints forbid its labels once edited; "
            "relabel the whole segment"
        )
