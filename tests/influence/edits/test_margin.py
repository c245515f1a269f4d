"""The margin of a prediction against all labellings of its segment."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from tagtrace.data import violations
from tagtrace.influence.edits.margin import Margin, best_labels
from tagtrace.tagger import Head, HeadOptions
from tests.influence.edits.two_types import TWO_TYPES, make_query
from tests.strategies import HEADS, random_theta


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize("stop", [2, 4])
def test_the_margin_is_that_of_the_two_best_labellings(options: HeadOptions, stop: int) -> None:
    head = Head(3, TWO_TYPES, options).double()
    for seed in range(4):
        head.set_flat(random_theta(head, seed))
        query = make_query(seed, stop=stop)
        losses = {}
        for labels in product(range(5), repeat=stop - 1):
            if not violations(TWO_TYPES.decode((0, *labels, 0)), "iob2"):
                losses[labels] = float(query.with_labels(torch.tensor(labels)).loss(head).detach())
        best, second = sorted(losses, key=losses.__getitem__)[:2]
        gap = Margin(query, head).at(head)
        assert (gap.keep, gap.rival) == (best, second) == (best_labels(query, head), second)
        assert gap.value == pytest.approx(losses[second] - losses[best], abs=1e-10)
        worst = max(losses, key=losses.__getitem__)
        named = Margin(query, head, to=worst).at(head)
        assert (named.keep, named.rival) == (best, worst)
        assert named.value == pytest.approx(losses[worst] - losses[best], abs=1e-10)


@pytest.mark.parametrize("options", HEADS)
def test_the_margin_is_linear_with_the_stated_gradient(options: HeadOptions) -> None:
    head = Head(3, TWO_TYPES, options).double()
    head.set_flat(random_theta(head))
    query = make_query(0, stop=3)
    margin = Margin(query, head)
    gap = margin.at(head)
    gradient = margin.gradient(gap, head)
    for seed in range(3):
        moved = head.at(random_theta(head, 10 + seed))
        rival, keep = (query.with_labels(torch.tensor(labels)).loss(moved) for labels in (gap.rival, gap.keep))
        assert float((rival - keep).detach()) == pytest.approx(float(gradient @ moved.flat()), abs=1e-9)
