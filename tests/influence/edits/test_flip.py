"""Flip against all small subsets of edits, each retrained."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from types import SimpleNamespace
from typing import cast

import pytest
import torch

from tagtrace._checks import OptionError
from tagtrace.index import Index
from tagtrace.influence import Edit, Query
from tagtrace.influence.edits.edit_pool import Pool, relabellings, removals
from tagtrace.influence.edits.flip import Flipper
from tagtrace.influence.edits.margin import Margin, best_labels
from tagtrace.tagger import HeadOptions
from tests.influence.edits.two_types import TWO_TYPES, all_edits, fit, make_query, make_rows, retrained
from tests.influence.fitted import Fitted


def flipper(fitted: Fitted) -> Flipper:
    return Flipper(cast(Index, SimpleNamespace(labels=TWO_TYPES)), fitted.refiner(), fitted.retrainer())


def overlap(edits: Sequence[Edit]) -> bool:
    tokens = [(edit.sentence_number, t) for edit in edits for t in range(edit.start, edit.stop)]
    return len(set(tokens)) < len(tokens)


def smallest(fitted: Fitted, margin: Margin, pool: Pool, most: int) -> int | None:
    """The size of the smallest set that flips, by retraining with every one."""
    for size in range(1, most + 1):
        for group in combinations(all_edits(pool), size):
            if not overlap(group) and margin.at(retrained(fitted, group)).flips:
                return size
    return None


OPTIONS = {"crf": HeadOptions(), "softmax": HeadOptions("softmax")}
SHORT, LONG = (3, 2, 3, 2), (3, 2, 4, 3, 2)
CASES = [
    pytest.param(OPTIONS[kind], edit, seed, lengths, id=f"{kind}-{edit}-{seed}")
    for kind, edit, seed, lengths in (
        ("crf", "remove", 1, SHORT), ("crf", "remove", 2, SHORT), ("crf", "remove", 8, SHORT),
        ("softmax", "remove", 1, SHORT), ("softmax", "remove", 10, SHORT),
        ("crf", "relabel", 1, LONG), ("crf", "relabel", 2, LONG),
        ("softmax", "relabel", 0, LONG), ("softmax", "relabel", 1, LONG),
    )
]  # fmt: skip


@pytest.mark.parametrize(("options", "edit", "seed", "lengths"), CASES)
def test_flip_against_every_small_subset(options: HeadOptions, edit: str, seed: int, lengths: tuple[int, ...]) -> None:
    """At most one more than the smallest set, where that has one or two edits."""
    fitted = fit(make_rows(seed, lengths), options)
    query = make_query(seed + 20)
    margin = Margin(query, fitted.head)
    gap = margin.at(fitted.head)
    pool = removals(fitted.rows, TWO_TYPES, "token") if edit == "remove" else relabellings(fitted.rows, TWO_TYPES, gap)
    optimum = smallest(fitted, margin, pool, most=2)
    found = flipper(fitted).flip(query, edit, most=6)  # type: ignore[arg-type]
    assert optimum is not None
    assert found.found
    assert len(found.edits) <= optimum + 1
    assert found.is_minimal
    check_flip(fitted, margin, found.edits)
    assert found.labels_before == margin.predicted != found.labels_after
    assert found.margin_before == pytest.approx(gap.value)
    assert found.margin_after < 0 < found.effect.change
    moved = retrained(fitted, found.edits)
    torch.testing.assert_close(found.effect.probabilities_after, query.probabilities(moved), rtol=0, atol=1e-4)


def check_flip(fitted: Fitted, margin: Margin, edits: Sequence[Edit]) -> None:
    """The set flips by a retraining of its own, and without any one member it does not."""
    assert not overlap(edits)
    assert margin.at(retrained(fitted, edits)).flips
    for left_out in edits if len(edits) > 1 else ():
        assert not margin.at(retrained(fitted, [edit for edit in edits if edit != left_out])).flips


def well_taught() -> tuple[Fitted, Query]:
    """A prediction that many labels teach."""
    fitted = fit(make_rows(3, (3, 2, 4, 3, 5, 2) * 4))
    return fitted, Query(fitted.rows.features[:3].double(), fitted.rows.labels[:3], 0, 1)


@pytest.mark.parametrize("kind", ["token", "entity", "sentence"])
def test_larger_sets_are_found_and_pruned(kind: str) -> None:
    fitted, query = well_taught()
    found = flipper(fitted).flip(query, kind=kind, most=20)  # type: ignore[arg-type]
    assert found.found
    assert found.is_minimal
    assert len(found.edits) > 3
    check_flip(fitted, Margin(query, fitted.head), found.edits)
    segments = {(edit.sentence_number, edit.start, edit.stop) for edit in found.edits}
    assert segments <= set(map(tuple, removals(fitted.rows, TWO_TYPES, kind).segments.tolist()))  # type: ignore[arg-type]


def test_flip_to_named_labels() -> None:
    fitted = fit(make_rows(1, (3, 2, 4, 3, 2, 4)))
    query = make_query(21)
    usual = flipper(fitted).flip(query, "relabel")
    named = next(label for label in (0, 1, 3) if (label,) not in (usual.labels_before, usual.labels_after))
    found = flipper(fitted).flip(query, "relabel", to=TWO_TYPES.decode([named]))
    assert found.found
    assert found.labels_after == (named,)
    assert best_labels(query, retrained(fitted, found.edits)) == (named,)
    check_flip(fitted, Margin(query, fitted.head, [named]), found.edits)


def test_a_set_that_is_not_found_is_reported() -> None:
    fitted, query = well_taught()
    few = flipper(fitted).flip(query, most=2)
    assert (few.found, few.is_minimal, len(few.edits)) == (False, False, 2)
    assert few.labels_after == few.labels_before
    assert 0 < few.margin_after < few.margin_before


def test_the_budget_is_kept_and_progress_is_reported() -> None:
    fitted, query = well_taught()
    seen: list[tuple[int, float, int]] = []
    short = flipper(fitted).flip(query, max_retrainings=5, progress=lambda *step: seen.append(step))
    assert short.num_retrainings == 5
    assert [number for _, _, number in seen] == [1, 2, 3, 4, 5]
    assert short.found
    assert not short.is_minimal
    assert short.margin_after in [margin for _, margin, _ in seen]
    assert Margin(query, fitted.head).at(retrained(fitted, short.edits)).flips


def test_bad_questions() -> None:
    fitted = fit(make_rows(1, (3, 2, 3, 2)))
    query = make_query(21)
    best = best_labels(query, fitted.head)
    for arguments, message in (
        ({"edit": "paint"}, "expected one of"),
        ({"kind": "word"}, "expected one of"),
        ({"most": 0}, "most 0: must be at least 1"),
        ({"max_retrainings": 0}, "max_retrainings 0: must be at least 1"),
        ({"to": ["O", "O"]}, "2 labels for 1 tokens"),
        ({"to": TWO_TYPES.decode(best)}, "already the most likely ones"),
        ({"to": TWO_TYPES.decode([2])}, "scheme forbids"),
    ):
        with pytest.raises(OptionError, match=message):
            flipper(fitted).flip(query, **arguments)  # type: ignore[arg-type]
    alone = Query(query.features, torch.tensor([0, 1, 2, 0]), 1, 2)  # only B-X is allowed between O and I-X
    with pytest.raises(OptionError, match="choose a longer segment"):
        flipper(fitted).flip(alone)


@pytest.mark.parametrize("kind", ["token", "entity", "sentence"])
def test_no_edit_of_a_minimal_set_can_be_left_out(kind: str) -> None:
    """Every edit is left out in turn and the head is retrained; at least one set had been larger before pruning."""
    fitted, _ = well_taught()
    num_pruned = 0
    for seed in range(8):
        asked, sizes = make_query(seed), list[int]()
        found = flipper(fitted).flip(asked, kind=kind, most=20, progress=lambda size, *_, s=sizes: s.append(size))  # type: ignore[arg-type]
        if not (found.found and found.is_minimal):
            continue
        margin = Margin(asked, fitted.head)
        assert margin.at(retrained(fitted, found.edits)).flips
        for edit in found.edits:
            rest = [other for other in found.edits if other != edit]
            assert not rest or not margin.at(retrained(fitted, rest)).flips, "this edit can be left out"
        num_pruned += len(found.edits) < max(sizes)
    assert num_pruned > 0
