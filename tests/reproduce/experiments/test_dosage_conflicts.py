"""Shares of queries with conflicting labels of dosages, and by chance."""

from __future__ import annotations

import pytest
import torch

from tagtrace.index import Index
from tagtrace.reproduce.experiments.dosage_conflicts import EXAMPLE, TOKEN, ConflictCounter
from tagtrace.reproduce.experiments.dosage_regex import DosageTokens
from tagtrace.reproduce.shared.retrieval import Strongest


def make_counter() -> ConflictCounter:
    """Three documents of 2, 3 and 1 tokens: a dosage outside in the first, one inside in the second."""
    outside, inside = torch.tensor([0, 1, 0, 0, 0, 0]).bool(), torch.tensor([0, 0, 0, 1, 1, 0]).bool()
    document = torch.tensor([0, 0, 1, 1, 1, 2])
    has = torch.tensor([[1, 0, 0], [0, 1, 0]]).bool()
    return ConflictCounter(DosageTokens(outside, inside), document, has[0], has[1])


def test_shares_at_both_levels() -> None:
    counter = make_counter()
    found = Strongest(torch.tensor([1, 0, 5, 1]), torch.tensor([3, 2, 4, 5]))
    assert counter.shares(found) == dict(zip((*EXAMPLE, *TOKEN), (0.75, 0.75, 0.5, 0.5, 0.5, 0.25), strict=True))
    documents = Strongest(torch.tensor([0, 0]), torch.tensor([0, 1]), are_tokens=False)
    assert counter.shares(documents) == dict(zip(EXAMPLE, (1.0, 0.5, 0.5), strict=True))
    none = Strongest(torch.zeros(0).long(), torch.zeros(0).long())
    assert set(counter.shares(none).values()) == {0.0}


def test_chance() -> None:
    chance = make_counter().chance(torch.tensor([0, 1, 1, 0, 1, 1]).bool())  # rows 1, 2, 4, 5 against 0 and 3
    assert chance["random documents"] == pytest.approx(dict(zip(EXAMPLE, (1 / 3, 1 / 3, 1 / 9), strict=True)))
    expected = (0.25, 0.5, 0.125, 0.25, 0.5, 0.125)
    assert chance["random tokens"] == pytest.approx(dict(zip((*EXAMPLE, *TOKEN), expected, strict=True)))


def test_documents_with_dosages_are_found_in_the_index(index: Index) -> None:
    outside = torch.zeros(index.num_tokens).bool()
    outside[int(index.starts[4])] = True
    counter = ConflictCounter.of(index, DosageTokens(outside, ~outside))
    assert counter.has_outside.nonzero().flatten().tolist() == [4]
    expected = torch.ones(index.num_sentences).bool()
    expected[4] = bool(index.lengths[4] > 1)
    assert torch.equal(counter.has_inside, expected)
