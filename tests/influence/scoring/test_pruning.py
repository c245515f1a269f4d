"""Tokens and segments that cannot be among the strongest are not read, and nothing is missed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from tagtrace.index import Shard, token_errors
from tagtrace.influence import Candidates, SegmentKind
from tagtrace.influence.scoring import scorer as scorer_module
from tagtrace.influence.scoring import screen as screen_module
from tagtrace.influence.scoring.candidates import find_segments
from tagtrace.influence.scoring.same_length import SameLength
from tagtrace.influence.scoring.scorer import Scorer
from tagtrace.influence.scoring.screen import Screen
from tagtrace.influence.scoring.token_pass import TokenPass
from tagtrace.influence.sides import strongest
from tagtrace.tagger import Head, HeadOptions
from tagtrace.tagger.convex import products
from tagtrace.tagger.rows import RowParts, Rows
from tests.strategies import HEADS, LABELS, random_rows, random_theta

LENGTHS = (40, 3, 25, 60, 11, 30, 50, 8, 45) * 4


@pytest.fixture(autouse=True)
def few_leading(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (scorer_module, screen_module):
        monkeypatch.setattr(module, "NUM_LEADING", 300)


def made(options: HeadOptions, num_shards: int, kind: SegmentKind = "token", *, is_right: bool = False) -> Scorer:
    """A scorer of tokens most of which are certain; if it ``is_right``, of the labels that they have."""
    head = Head(4, LABELS, options).double()
    head.set_flat(3.0 * random_theta(head))
    passes = []
    for number in range(num_shards):
        rows = random_rows(number, LENGTHS)
        if is_right:
            labels = [label for path in head.decode(rows.features, rows.lengths) for label in path]
            rows = Rows(rows.features, torch.tensor(labels), rows.lengths)
        errors = token_errors(head, rows).float()
        passes.append(TokenPass(head, Shard(rows.features.half(), errors, rows.labels, rows.lengths, 0, 0)))
    segments = find_segments(RowParts(tuple(one.shard.rows() for one in passes)), LABELS, kind)
    index = SimpleNamespace(head=head, num_sentences=len(LENGTHS) * num_shards)

    def never() -> object:
        raise AssertionError("the direction is given")

    return Scorer(index, Candidates(segments, kind), passes, never, never)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize("kind", ["token", "segment"])
@pytest.mark.parametrize("is_filtered", [True, False])
@pytest.mark.parametrize("is_right", [True, False])
@pytest.mark.parametrize("compiled", [True, False])
def test_the_strongest_are_those_of_all_scores(
    options: HeadOptions,
    kind: SegmentKind,
    is_filtered: bool,
    is_right: bool,
    compiled: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(products, "USE_LOOPS", compiled)
    scorer = made(options, 2, kind, is_right=is_right)
    which = torch.arange(len(scorer.candidates))
    if is_filtered:
        which = which[which % 3 != 0]
    num_fewer = 0
    for seed in range(3):
        direction = random_theta(scorer.head, seed)
        every = scorer._products(direction)
        found, values = scorer._strong_products(direction, which, 5)
        for sign in (1.0, -1.0):
            expected = strongest(every[which], which, 5, sign)
            assert [number for number, _ in strongest(values, found, 5, sign)] == [number for number, _ in expected]
        torch.testing.assert_close(values, every[found], rtol=1e-4, atol=1e-6 * float(every.abs().max()))
        num_fewer += len(found) < 0.2 * len(which)
    assert num_fewer >= 2 or (kind == "token" and not compiled), "without loops, all tokens are multiplied"


@pytest.mark.parametrize("kind", ["token", "segment"])
def test_more_may_be_asked_for_than_are_scored_first(kind: SegmentKind) -> None:
    scorer = made(HEADS[0], 1, kind)
    direction = random_theta(scorer.head, 1)
    every = scorer._products(direction)
    found, values = scorer._strong_products(direction, scorer.every, 400)
    for sign in (1.0, -1.0):
        expected = strongest(every, scorer.every, 400, sign)
        assert [number for number, _ in strongest(values, found, 400, sign)] == [number for number, _ in expected]


def test_segments_out_of_reach_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer, counts = made(HEADS[0], 1, "segment", is_right=True), list[int]()
    whole = screen_module._Direction.products

    def counted(self: screen_module._Direction, moved: torch.Tensor, group: SameLength) -> torch.Tensor:
        counts.append(len(group.places))
        return whole(self, moved, group)

    monkeypatch.setattr(screen_module._Direction, "products", counted)
    computed = []
    for seed in range(6):
        scorer._strong_products(random_theta(scorer.head, seed), scorer.every, 5)
        computed.append(sum(counts) - 300)
        counts.clear()
    assert min(computed) < 0.2 * len(scorer.candidates)


@pytest.mark.parametrize("options", HEADS)
def test_no_segment_is_above_its_bound(options: HeadOptions) -> None:
    """The bound of each segment, and that it is not far above the score everywhere."""
    scorer = made(options, 1, "segment")
    for seed in range(5):
        direction = random_theta(scorer.head, seed)
        table = screen_module._Direction(scorer.head, direction, torch.float64)
        for group in Screen(scorer.head, scorer.rows, scorer.candidates.segments)._every[0]:
            values = table.products(table.moved(scorer.rows.parts[0].features), group).abs()
            bounds = group.reach @ table.sizes
            assert bool((values <= bounds * screen_module.SLACK).all())
            assert float((values / bounds.clamp(min=1e-300)).max()) > 0.3


def test_a_bound_that_is_too_small_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first test can fail: with norms that are a hundredth of the true ones, strong tokens are left out."""
    monkeypatch.setattr(scorer_module, "NUM_LEADING", 40)
    scorer = made(HEADS[0], 1)
    which = torch.arange(len(scorer.candidates))
    directions = [random_theta(scorer.head, seed) for seed in range(5)]
    expected = [strongest(scorer._products(one), which, 5, 1.0) for one in directions]
    for one in scorer.passes:
        monkeypatch.setitem(vars(one), "_own_norms", 0.01 * one.feature_norms)
    found = [scorer._strong_products(one, which, 5) for one in directions]
    places = [[number for number, _ in strongest(values, some, 5, 1.0)] for some, values in found]
    assert places != [[number for number, _ in one] for one in expected]
