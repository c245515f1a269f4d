"""Flip against all small subsets retrained one by one, and the first order of relabelling against gradients."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.data import LabelSet, violations
from tagtrace.index import Index
from tagtrace.influence import Edit, Query, Refiner, Retrainer
from tagtrace.influence.curvature.operators import Hessian
from tagtrace.influence.curvature.solvers import Cholesky
from tagtrace.influence.edits.edit_pool import Pool, relabel_effects, relabellings, removals
from tagtrace.influence.edits.flip import Flipper
from tagtrace.influence.edits.margin import Gap, Margin, best_labels
from tagtrace.tagger import Head, HeadOptions, RefitOptions, Rows, crf, refit_head
from tagtrace.tagger.objective import Objective
from tagtrace.tagger.rows import pad_rows
from tests.strategies import HEADS, random_theta

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


class Fitted:
    """A tiny head at its optimum."""

    def __init__(self, options: HeadOptions, rows: Rows, labels: LabelSet = TWO_TYPES, l2: float = L2) -> None:
        torch.manual_seed(0)
        self.rows = rows
        head = Head(rows.features.shape[1], labels, options)
        self.head = refit_head(head, rows, RefitOptions(l2, tolerance=1e-10)).head
        self.objective = Objective(self.head, rows, l2)
        self.solver = Cholesky(Hessian(self.objective.hessian(self.head.flat())))
        self.retrainer = Retrainer(self.objective, rows, self.head.flat(), self.solver)
        index = cast(Index, SimpleNamespace(labels=labels))
        self.flipper = Flipper(index, Refiner(self.head, rows, self.solver.inverse), self.retrainer)

    def retrained(self, edits: Sequence[Edit]) -> Head:
        return self.head.at(self.retrainer.retrain(edits, tolerance=1e-8).theta)


def make_query(seed: int, length: int = 4, start: int = 1, stop: int = 2, dim: int = 3) -> Query:
    features = torch.randn(length, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Query(features, torch.zeros(length, dtype=torch.long), start, stop)


def all_edits(pool: Pool) -> list[Edit]:
    return [pool.edit(index) for index in range(len(pool.segments))]


def overlap(edits: Sequence[Edit]) -> bool:
    tokens = [(edit.sentence_number, t) for edit in edits for t in range(edit.start, edit.stop)]
    return len(set(tokens)) < len(tokens)


# the margin


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


# relabelling


@pytest.mark.parametrize("options", HEADS)
def test_first_order_of_relabelling_is_the_change_of_gradient(options: HeadOptions) -> None:
    rows = make_rows(1, (5, 1, 4))
    head = Head(3, TWO_TYPES, options).double()
    head.set_flat(random_theta(head))
    direction = random_theta(head, 7)
    pool = relabellings(rows, TWO_TYPES, Gap(1.0, (1, 2, 0), (3, 4, 1)))
    pool = Pool(torch.cat([pool.segments, torch.tensor([[0, 0, 5], [1, 0, 1]])]),
                torch.cat([torch.nn.functional.pad(pool.labels, (0, 5 - pool.labels.shape[1])),  # type: ignore[arg-type]
                           torch.tensor([[1, 2, 0, 3, 4], [1, 0, 0, 0, 0]])]))  # fmt: skip
    assert pool.labels is not None
    found = relabel_effects(head, rows, pool.segments, pool.labels, direction)
    for index, edit in enumerate(all_edits(pool)):
        labels = rows.labels.clone()
        first = int(rows.lengths[: edit.sentence_number].sum())
        labels[first + edit.start : first + edit.stop] = torch.tensor(edit.labels)
        old, new = (joint_gradient(head, rows, some) for some in (rows.labels, labels))
        assert float(found[index]) == pytest.approx(float(direction @ (old - new)) / 3, abs=1e-10)
    assert found.abs().max() > 0.1


def joint_gradient(head: Head, rows: Rows, labels: Tensor) -> Tensor:
    """The gradient of the sum of joint losses, (P,)."""
    scores = head(rows.features.double(), rows.lengths)
    loss = crf.joint_loss(scores, pad_rows(labels, rows.lengths)).sum()
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(head.parameters()))])


@pytest.mark.parametrize("edit", ["remove", "relabel"])
def test_first_order_is_the_change_of_margin_for_a_tiny_share_of_the_data(edit: str) -> None:
    rows, copies = make_rows(2, (4, 3, 2)), 300
    many = Rows(rows.features.repeat(copies, 1), rows.labels.repeat(copies), rows.lengths.repeat(copies))
    fitted = Fitted(HeadOptions(), many, l2=L2 * copies)
    margin = Margin(make_query(3), fitted.head)
    gap = margin.at(fitted.head)
    direction = fitted.solver.solve(margin.gradient(gap, fitted.head)[None]).value[0]
    pool = removals(many, TWO_TYPES, "entity") if edit == "remove" else relabellings(many, TWO_TYPES, gap)
    pool = pool.take(torch.arange(4))
    for one, predicted in zip(all_edits(pool), pool.effects(fitted.head, many, direction).tolist(), strict=True):
        moved = fitted.retrained([one])
        rival, keep = (margin.query.with_labels(torch.tensor(labels)) for labels in (gap.rival, gap.keep))
        actual = float((rival.loss(moved) - keep.loss(moved)).detach()) - gap.value
        assert actual == pytest.approx(predicted, rel=0.05, abs=1e-6)
        assert abs(predicted) > 1e-7


def test_relabellings_follow_the_rival_and_keep_the_scheme() -> None:
    rows = make_rows(0, (7,))
    rows.labels[:] = torch.tensor([1, 2, 0, 1, 3, 4, 0])  # B-X I-X O B-X B-Y I-Y O

    def edits(keep: tuple[int, ...], rival: tuple[int, ...]) -> set[tuple[int, int, tuple[int, ...] | None]]:
        pool = relabellings(rows, TWO_TYPES, Gap(1.0, keep, rival))
        return {(edit.start, edit.stop, edit.labels) for edit in all_edits(pool)}

    assert edits((1,), (3,)) == {(0, 2, (3, 4)), (3, 4, (3,))}  # X becomes Y
    assert edits((1, 2), (3, 4)) == edits((1,), (3,))
    assert edits((3, 4), (0, 0)) == {(4, 6, (0, 0))}  # Y becomes nothing
    assert edits((0,), (1,)) == {(2, 3, (1,)), (6, 7, (1,))}  # single tokens outside
    assert edits((0,), (2,)) == {(2, 3, (2,)), (6, 7, (1,))}  # I-X only where it continues an X
    assert edits((2,), (1,)) == {(1, 2, (1,))}  # the same type: split
    assert edits((1,), (2,)) == set()  # the same type: join; no X follows an X here
    assert edits((1, 0), (3, 3)) == edits((1,), (3,)) | {(2, 3, (3,)), (6, 7, (3,))}
    plain = LabelSet(("a", "b", "c", "d", "e"), "plain")
    pool = relabellings(rows, plain, Gap(1.0, (0,), (4,)))
    assert all_edits(pool) == [Edit(0, 2, 3, (4,)), Edit(0, 6, 7, (4,))]


# flip


def smallest(fitted: Fitted, margin: Margin, pool: Pool, most: int) -> int | None:
    """The size of the smallest set that flips, by retraining with every one."""
    for size in range(1, most + 1):
        for group in combinations(all_edits(pool), size):
            if not overlap(group) and margin.at(fitted.retrained(group)).flips:
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
    fitted = Fitted(options, make_rows(seed, lengths))
    query = make_query(seed + 20)
    margin = Margin(query, fitted.head)
    gap = margin.at(fitted.head)
    pool = removals(fitted.rows, TWO_TYPES, "token") if edit == "remove" else relabellings(fitted.rows, TWO_TYPES, gap)
    optimum = smallest(fitted, margin, pool, most=2)
    found = fitted.flipper.flip(query, edit, most=6)  # type: ignore[arg-type]
    assert optimum is not None
    assert found.found
    assert len(found.edits) <= optimum + 1
    assert found.is_minimal
    check_flip(fitted, margin, found.edits)
    assert found.labels_before == margin.predicted != found.labels_after
    assert found.margin_before == pytest.approx(gap.value)
    assert found.margin_after < 0 < found.effect.change
    moved = fitted.retrained(found.edits)
    torch.testing.assert_close(found.effect.probabilities_after, query.probabilities(moved), rtol=0, atol=1e-4)


def check_flip(fitted: Fitted, margin: Margin, edits: Sequence[Edit]) -> None:
    """The set flips by a retraining of its own, and without any one member it does not."""
    assert not overlap(edits)
    assert margin.at(fitted.retrained(edits)).flips
    for left_out in edits if len(edits) > 1 else ():
        assert not margin.at(fitted.retrained([edit for edit in edits if edit != left_out])).flips


def well_taught() -> tuple[Fitted, Query]:
    """A prediction that many labels teach."""
    fitted = Fitted(HeadOptions(), make_rows(3, (3, 2, 4, 3, 5, 2) * 4))
    return fitted, Query(fitted.rows.features[:3].double(), fitted.rows.labels[:3], 0, 1)


@pytest.mark.parametrize("kind", ["token", "entity", "sentence"])
def test_larger_sets_are_found_and_pruned(kind: str) -> None:
    fitted, query = well_taught()
    found = fitted.flipper.flip(query, kind=kind, most=20)  # type: ignore[arg-type]
    assert found.found
    assert found.is_minimal
    assert len(found.edits) > 3
    check_flip(fitted, Margin(query, fitted.head), found.edits)
    segments = {(edit.sentence_number, edit.start, edit.stop) for edit in found.edits}
    assert segments <= set(map(tuple, removals(fitted.rows, TWO_TYPES, kind).segments.tolist()))  # type: ignore[arg-type]


def test_flip_to_named_labels() -> None:
    fitted = Fitted(HeadOptions(), make_rows(1, (3, 2, 4, 3, 2, 4)))
    query = make_query(21)
    usual = fitted.flipper.flip(query, "relabel")
    named = next(label for label in (0, 1, 3) if (label,) not in (usual.labels_before, usual.labels_after))
    found = fitted.flipper.flip(query, "relabel", to=TWO_TYPES.decode([named]))
    assert found.found
    assert found.labels_after == (named,)
    assert best_labels(query, fitted.retrained(found.edits)) == (named,)
    check_flip(fitted, Margin(query, fitted.head, [named]), found.edits)


def test_what_cannot_be_found_is_said() -> None:
    fitted, query = well_taught()
    few = fitted.flipper.flip(query, most=2)
    assert (few.found, few.is_minimal, len(few.edits)) == (False, False, 2)
    assert few.labels_after == few.labels_before
    assert 0 < few.margin_after < few.margin_before


def test_the_budget_is_kept_and_progress_told() -> None:
    fitted, query = well_taught()
    seen: list[tuple[int, float, int]] = []
    short = fitted.flipper.flip(query, max_retrainings=5, progress=lambda *step: seen.append(step))
    assert short.num_retrainings == 5
    assert [number for _, _, number in seen] == [1, 2, 3, 4, 5]
    assert short.found
    assert not short.is_minimal
    assert short.margin_after in [margin for _, margin, _ in seen]
    assert Margin(query, fitted.head).at(fitted.retrained(short.edits)).flips


def test_bad_questions() -> None:
    fitted = Fitted(HeadOptions(), make_rows(1, (3, 2, 3, 2)))
    query = make_query(21)
    best = best_labels(query, fitted.head)
    for arguments, message in (
        ({"edit": "paint"}, "expected one of"),
        ({"kind": "word"}, "expected one of"),
        ({"most": 0}, "at least 1"),
        ({"to": ["O", "O"]}, "2 labels for 1 tokens"),
        ({"to": TWO_TYPES.decode(best)}, "nothing to flip"),
        ({"to": TWO_TYPES.decode([2])}, "scheme forbids"),
    ):
        with pytest.raises(OptionError, match=message):
            fitted.flipper.flip(query, **arguments)  # type: ignore[arg-type]
    alone = Query(query.features, torch.tensor([0, 1, 2, 0]), 1, 2)  # between O and I-X only B-X may stand
    with pytest.raises(OptionError, match="choose a longer segment"):
        fitted.flipper.flip(alone)
