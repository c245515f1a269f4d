"""Small training data with labels of two types, queries for it, and edits of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tagtrace.data import LabelSet
from tagtrace.influence import Edit, Query
from tagtrace.influence.edits.edit_pool import Pool
from tagtrace.tagger import Head, HeadOptions, Rows
from tests.influence.fitted import Fitted

L2 = 0.5
TWO_TYPES = LabelSet(("O", "B-X", "I-X", "B-Y", "I-Y"), "iob2")


def make_rows(seed: int, lengths: tuple[int, ...], dim: int = 3) -> Rows:
    """Features that tell a little about valid labels of two types."""
    generator = torch.Generator().manual_seed(seed)
    labels: list[int] = []
    for length in lengths:
        previous = 0
        for _ in range(length):
            allowed = {0: [0, 1, 3], 1: [0, 1, 2, 3], 2: [0, 1, 2, 3], 3: [0, 1, 3, 4], 4: [0, 1, 3, 4]}[previous]
            previous = allowed[int(torch.randint(len(allowed), (1,), generator=generator))]
            labels.append(previous)
    means = torch.randn(len(TWO_TYPES), dim, generator=generator)
    features = means[torch.tensor(labels)] + 0.8 * torch.randn(len(labels), dim, generator=generator)
    return Rows(features, torch.tensor(labels), torch.tensor(lengths))


def make_query(seed: int, length: int = 4, start: int = 1, stop: int = 2, dim: int = 3) -> Query:
    features = torch.randn(length, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Query(features, torch.zeros(length, dtype=torch.long), start, stop)


def all_edits(pool: Pool) -> list[Edit]:
    return [pool.edit(index) for index in range(len(pool.segments))]


def fit(rows: Rows, options: HeadOptions | None = None, l2: float = L2) -> Fitted:
    """A head at its optimum on ``rows``."""
    return Fitted(options or HeadOptions(), rows, TWO_TYPES, l2, tolerance=1e-10)


def retrained(fitted: Fitted, edits: Sequence[Edit]) -> Head:
    """The head retrained with edits made."""
    return fitted.head.at(fitted.retrainer().retrain(edits, tolerance=1e-8).theta)
