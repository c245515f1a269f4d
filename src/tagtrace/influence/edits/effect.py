"""The effect of edits on a query: its loss and its label probabilities, before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tagtrace._table import Table
from tagtrace.data.labels import LabelSet
from tagtrace.influence.query import Query
from tagtrace.tagger.head import Head

MIN_SHOWN = 0.005
"""Labels less likely than this both before and after are not shown."""


@dataclass(frozen=True, eq=False)
class Effect:
    """A query's conditional loss and p(y_t | labels outside the segment, x), (tokens of the segment, C)."""

    before: float
    after: float
    probabilities_before: Tensor
    probabilities_after: Tensor

    @property
    def change(self) -> float:
        """The change of the loss; positive if a supporter is removed."""
        return self.after - self.before

    @property
    def flips(self) -> bool:
        """Whether the likeliest label of a token of the segment changes."""
        return not torch.equal(self.probabilities_before.argmax(1), self.probabilities_after.argmax(1))


def effect(query: Query, head: Head, moved: Head) -> Effect:
    """The effect on ``query`` of moving from ``head`` to ``moved``."""
    return effects_of(query, head, [moved])[0]


@torch.no_grad()
def effects_of(query: Query, head: Head, moved: Iterable[Head]) -> list[Effect]:
    """The effect of moving to each of several heads."""
    before, probabilities = float(query.loss(head)), query.probabilities(head)
    return [Effect(before, float(query.loss(one)), probabilities, query.probabilities(one)) for one in moved]


def effect_to_json(one: Effect, labels: LabelSet) -> dict[str, Any]:
    """Losses and label probabilities, before and after."""
    tables = {"probabilities_before": one.probabilities_before, "probabilities_after": one.probabilities_after}
    named = {
        name: [dict(zip(labels.labels, row, strict=True)) for row in table.tolist()] for name, table in tables.items()
    }
    return {"loss_before": one.before, "loss_after": one.after, "change": one.change, **named}


def probability_table(labels: LabelSet, query: Query, effects: Mapping[str, Effect]) -> Table:
    """The query's label probabilities before and after, given the labels around the segment; effects by column name."""
    first = next(iter(effects.values()))
    tokens = query.sentence.tokens[query.start : query.stop] if query.sentence else ("",) * len(query.explained)
    rows: list[tuple[str, ...]] = []
    for t, token in enumerate(tokens):
        columns = [first.probabilities_before[t], *(one.probabilities_after[t] for one in effects.values())]
        for c in columns[0].argsort(descending=True).tolist():
            if max(float(column[c]) for column in columns) >= MIN_SHOWN:
                rows.append((token, labels.labels[c], *(f"{float(column[c]):.4f}" for column in columns)))
    names = ("before", *effects)
    return Table("label probabilities of the query", ("token", "label", *names), tuple(rows), names)
