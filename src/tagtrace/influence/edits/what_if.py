"""What if: the effect on a query of editing training labels together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from tagtrace._checks import OptionError
from tagtrace._table import Table, Tabular
from tagtrace.data.schemes import violations
from tagtrace.index import Index
from tagtrace.influence.edits.edit import (
    Edit,
    EditedSentences,
    Group,
    check_segment,
    check_sentence_number,
    edit_table,
    edit_to_json,
)
from tagtrace.influence.edits.effect import Effect, effect_to_json, probability_table
from tagtrace.influence.edits.seed_effects import SeedEffects, seed_effects_to_json
from tagtrace.influence.query import Query
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import RowParts, Rows

Estimate = Literal["refine", "step", "verify", "retrain"]
"""How an effect was computed: a close estimate, one Newton step (for edits of very many sentences), retraining of the
head, or training the whole tagger again."""
COLUMNS: dict[Estimate, str] = {
    "refine": "after, refined",
    "step": "after, one Newton step",
    "verify": "after, verified",
    "retrain": "after, retrained",
}


@dataclass(frozen=True)
class WhatIf(Tabular):
    """Edits made together, and their effect on a query."""

    index: Index = field(repr=False, compare=False)
    query: Query = field(repr=False)
    edits: tuple[Edit, ...]
    effects: dict[Estimate, Effect] = field(default_factory=dict[Estimate, Effect])
    """By how they were computed: ``refine`` or ``step``, and ``verify`` and ``retrain`` if they were asked for."""
    retrained: SeedEffects | None = None
    """What ``retrain`` is the mean of."""

    @property
    def best(self) -> Effect:
        """The most exact of the effects."""
        return self.effects[self.rung]

    @property
    def rung(self) -> Estimate:
        """How ``best`` was computed."""
        return next(name for name in ("retrain", "verify", "refine", "step") if name in self.effects)

    @property
    def explained(self) -> tuple[str, ...]:
        """The labels whose loss is computed, one for each token of the query."""
        return self.index.labels.decode(self.query.explained)

    def describe(self) -> list[str | Table]:
        found: list[str | Table] = ["", *self.query.describe()]
        if "step" in self.effects:
            found.append("the edits change too many sentences for a close estimate; one Newton step is shown instead")
        found += [f"note: {note}" for note in self.problems()]
        found.append(edit_table(self.index, self.edits, "edits, made together"))
        named = {COLUMNS[name]: effect for name, effect in self.effects.items() if name != "retrain"}
        found.append(probability_table(self.index.labels, self.query, named))
        for name, one in named.items():
            found.append(f"loss of {' '.join(self.explained)}: {one.before:.4f}; {name} {one.after:.4f}")
        return found if self.retrained is None else [*found, *self._describe_retrained(self.retrained)]

    def _describe_retrained(self, retrained: SeedEffects) -> list[str | Table]:
        """The whole tagger trained again has other probabilities before the edits, too."""
        mean, count, interval = retrained.mean, len(retrained.effects), retrained.interval
        within = "" if interval is None else f", 95 % interval {interval[0]:+.4f} to {interval[1]:+.4f}"
        return [
            "",
            f"the whole tagger trained again, with and without the edits, mean of {count} seed{'s' * (count > 1)}:",
            probability_table(self.index.labels, self.query, {COLUMNS["retrain"]: mean}),
            f"loss of {' '.join(self.explained)}: {mean.before:.4f}; {COLUMNS['retrain']} {mean.after:.4f} "
            f"(change {mean.change:+.4f}{within})",
            f"the prediction changes in {retrained.num_flips} of {count}",
        ]

    def problems(self) -> list[str]:
        """Places where the edited labels break the scheme."""
        found: list[str] = []
        for edit in self.edits:
            if edit.labels is None:
                continue
            sentence, new = self.index.sentence(edit.sentence_number), self.index.labels.decode(edit.labels)
            changed = (*sentence.labels[: edit.start], *new, *sentence.labels[edit.stop :])
            for _, problem in violations(changed, self.index.labels.scheme)[:1]:
                found.append(f"{sentence.id} {edit.start}:{edit.stop}: after the edit, {problem}")
        return found

    def to_json(self) -> dict[str, Any]:
        """The result as data."""
        return {
            **self.query.to_json(),
            "explained": list(self.explained),
            "effects": {name: effect_to_json(one, self.index.labels) for name, one in self.effects.items()},
            "retrained": None if self.retrained is None else seed_effects_to_json(self.retrained),
            "edits": [edit_to_json(self.index, edit) for edit in self.edits],
        }

    def to_records(self) -> list[dict[str, Any]]:
        """One record for each token and label of the query."""
        return [
            {
                "token": self.query.start + t,
                "label": label,
                "estimate": name,
                "before": float(one.probabilities_before[t, c]),
                "after": float(one.probabilities_after[t, c]),
            }
            for name, one in self.effects.items()
            for t in range(len(one.probabilities_before))
            for c, label in enumerate(self.index.labels.labels)
        ]


@torch.no_grad()
def check_edits(edits: Group, head: Head, rows: Rows | RowParts) -> None:
    """Raise OptionError if edits overlap, have unknown labels or sentences, or break the head's constraints."""
    taken: set[tuple[int, int]] = set()
    for edit in edits:
        check_sentence_number(edit.sentence_number, len(rows.lengths))
        if any(not 0 <= label < head.num_labels for label in edit.labels or ()):
            raise OptionError(f"edit with labels {edit.labels}: label numbers are 0 to {head.num_labels - 1}")
        check_segment(edit.sentence_number, edit.start, edit.stop, int(rows.lengths[edit.sentence_number]))
        tokens = {(edit.sentence_number, t) for t in range(edit.start, edit.stop)}
        if taken & tokens:
            token = min(taken & tokens)[1]
            raise OptionError(f"two edits of sentence {edit.sentence_number} overlap at token {token}; give only one")
        taken |= tokens
    edited = EditedSentences(rows, edits)
    is_allowed = edited.losses_after(head(edited.features, edited.lengths)).isfinite()
    if not bool(is_allowed.all()):
        sentence_number = edited.sentences[int((~is_allowed).nonzero()[0])]
        raise OptionError(
            f"sentence {sentence_number}: the tagger's constraints forbid its labels after the edit; "
            "relabel the whole segment"
        )
