"""Retraining against refits and definitions, and its first step, a Newton step that cannot diverge."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.influence import Edit, Retrainer
from tagtrace.influence.curvature.operators import Hessian
from tagtrace.influence.curvature.solvers import Cholesky
from tagtrace.influence.edits.retrain import settled
from tagtrace.tagger import Head, HeadOptions, RefitOptions, Rows, crf, refit_head
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.objective import Objective
from tagtrace.tagger.rows import pad_rows
from tests.influence.fitted import L2, Fitted, copies_of
from tests.strategies import HEADS, LABELS, random_rows, random_theta

GROUP = [Edit(3, 2, 5), Edit(0, 0, 5, (0, 1, 2, 0, 0)), Edit(2, 0, 1), Edit(4, 0, 2, (0, 1))]


def edited_objective(fitted: Fitted, group: list[Edit], theta: Tensor) -> Tensor:
    """F: the mean partial loss once edited, and l2."""
    rows = fitted.rows
    labels = pad_rows(rows.labels, rows.lengths)
    known = torch.ones_like(labels, dtype=torch.bool)
    for edit in group:
        if edit.labels is None:
            known[edit.sentence_number, edit.start : edit.stop] = False
        else:
            labels[edit.sentence_number, edit.start : edit.stop] = torch.tensor(edit.labels)
    head = fitted.head.at(theta)
    losses = crf.partial_loss(head(rows.features.double(), rows.lengths), labels, known)
    size = sum(part.square().sum() for part in head.parameters())
    return losses.mean() + 0.5 * L2 / len(rows.lengths) * size


def newton_step(fitted: Fitted, group: list[Edit]) -> Tensor:
    """-H^-1 grad F by finite differences of F and of the gradient of J."""
    theta = fitted.theta
    steps = 1e-5 * torch.eye(len(theta), dtype=theta.dtype)
    slopes = [[fitted.objective.evaluate(theta + sign * step).gradient for step in steps] for sign in (1, -1)]
    hessian = (torch.stack(slopes[0]) - torch.stack(slopes[1])) / 2e-5
    return -torch.linalg.solve(hessian, numerical_gradient(fitted, group))


def numerical_gradient(fitted: Fitted, group: list[Edit]) -> Tensor:
    """Of F, where retraining starts."""
    theta = fitted.theta
    steps = 1e-5 * torch.eye(len(theta), dtype=theta.dtype)
    return torch.stack([
        (edited_objective(fitted, group, theta + step) - edited_objective(fitted, group, theta - step)).detach() / 2e-5
        for step in steps
    ])  # fmt: skip


@pytest.mark.parametrize("options", HEADS)
def test_the_first_step_is_newtons_where_that_lowers_the_objective(options: HeadOptions) -> None:
    fitted = Fitted(options, random_rows())
    for group in ([Edit(3, 4, 5)], [Edit(0, 0, 1)], [Edit(2, 0, 1, (0,))]):
        step = newton_step(fitted, group)
        before, after = (float(edited_objective(fitted, group, fitted.theta + s * step).detach()) for s in (0, 1))
        assert after < before
        found = fitted.retrainer().first_step(group)
        torch.testing.assert_close(found, fitted.theta + step, rtol=0, atol=1e-6)
        assert float(step.abs().max()) > 1e-3


@pytest.mark.parametrize("options", HEADS)
def test_the_objective_falls(options: HeadOptions) -> None:
    fitted = Fitted(options, random_rows())
    theta = fitted.theta.clone()
    found = fitted.retrainer().first_step(GROUP)
    assert torch.equal(fitted.theta, theta)
    values = [float(edited_objective(fitted, GROUP, each).detach()) for each in (theta, found)]
    best = float(edited_objective(fitted, GROUP, fitted.retrainer().retrain(GROUP).theta).detach())
    assert best <= values[1] < values[0]


@pytest.mark.parametrize("options", [HeadOptions(start_end=True), HeadOptions("softmax")], ids=["crf", "softmax"])
def test_a_step_that_overshoots_is_halved(options: HeadOptions) -> None:
    """The curvature of confident labels is small: turning half of them around leads far beyond doubt of all."""
    fitted = Fitted(options, copies_of(separable_rows(), 40))
    group = turned_around(fitted.rows)
    step = newton_step(fitted, group)
    values = [float(edited_objective(fitted, group, fitted.theta + s * step).detach()) for s in (0.0, 1.0)]
    assert values[1] > 2 * values[0], "the whole step diverges"
    rate, slope = 1.0, float(step @ numerical_gradient(fitted, group))
    while float(edited_objective(fitted, group, fitted.theta + rate * step).detach()) > values[0] + 1e-4 * rate * slope:
        rate *= 0.5
    found = fitted.retrainer().first_step(group)
    torch.testing.assert_close(found, fitted.theta + rate * step, rtol=1e-3, atol=1e-4)
    assert float(edited_objective(fitted, group, found).detach()) < values[0]


def separable_rows() -> Rows:
    rows = random_rows(3, (4, 3, 4, 2))
    features = torch.nn.functional.one_hot(rows.labels, 4).float() * 2.0
    return Rows(features, rows.labels, rows.lengths)


def turned_around(rows: Rows) -> list[Edit]:
    """In every other copy of four sentences every O is a segment, and every segment O."""
    parts = rows.labels.split(rows.lengths.tolist())
    return [Edit(i, 0, len(part), tuple(1 if label == 0 else 0 for label in part.tolist()))
            for i, part in enumerate(parts) if (i // 4) % 2]  # fmt: skip


@pytest.mark.parametrize("options", [HeadOptions(), HeadOptions("softmax")], ids=["crf", "softmax"])
def test_a_tiny_edit_is_retrained_but_for_second_order(options: HeadOptions) -> None:
    """With k times the data, one label's step shrinks as 1/k and what is missing from it as 1/k^2."""
    missing, moved = [], []
    for copies in (20, 80):
        rows = copies_of(random_rows(), copies)
        head = refit_head(Head(4, LABELS, options), rows, RefitOptions(copies * L2, tolerance=1e-12)).head
        objective, theta = Objective(head, rows, copies * L2), head.flat()
        retrainer = Retrainer(objective, rows, theta, Cholesky(Hessian(HessianProduct(objective, theta))))
        group = [Edit(3, 2, 3, (0,))]
        assert int(rows.labels[9 + 2]) != 0
        retrained = retrainer.retrain(group, tolerance=1e-13).theta
        missing.append(float((retrainer.first_step(group) - retrained).norm()))
        moved.append(float((retrained - theta).norm()))
    assert moved[0] / moved[1] == pytest.approx(4.0, rel=0.15)
    assert missing[0] / missing[1] == pytest.approx(16.0, rel=0.3)


def test_an_edit_that_changes_nothing_stays_where_it_is() -> None:
    fitted = Fitted(HeadOptions(), random_rows())
    same = Edit(0, 0, 5, tuple(fitted.rows.labels[:5].tolist()))
    torch.testing.assert_close(fitted.retrainer().first_step([same]), fitted.theta, rtol=0, atol=1e-8)
    with pytest.raises(OptionError, match="at least one"):
        fitted.retrainer().first_step([])


def test_the_hessian_of_the_objective_does_not_depend_on_labels() -> None:
    """What makes the step one of Newton's for any other labels."""
    fitted = Fitted(HeadOptions(start_end=True), random_rows())
    others = Rows(fitted.rows.features, torch.zeros_like(fitted.rows.labels), fitted.rows.lengths)
    other = Cholesky(Hessian(HessianProduct(Objective(fitted.head, others, L2), fitted.theta)))
    torch.testing.assert_close(other.inverse, fitted.solver.inverse, rtol=0, atol=1e-10)


@pytest.mark.parametrize("options", [HeadOptions(), HeadOptions(start_end=True), HeadOptions("softmax")])
def test_relabelling_equals_refitting_the_changed_data(options: HeadOptions) -> None:
    fitted = Fitted(options, random_rows())
    edits = [Edit(0, 1, 3, (1, 2)), Edit(3, 4, 5, (0,))]
    labels = fitted.rows.labels.clone()
    labels[1:3] = torch.tensor([1, 2])
    labels[9 + 4] = 0  # sentence 3 begins after 5 + 1 + 3 tokens
    expected = refit_head(fitted.head, Rows(fitted.rows.features, labels, fitted.rows.lengths), RefitOptions(L2, 1e-11))
    found = fitted.retrainer().retrain(edits, tolerance=1e-10)
    assert found.max_gradient <= 1e-10
    torch.testing.assert_close(found.theta, expected.head.flat(), rtol=0, atol=1e-8)


@pytest.mark.parametrize("options", HEADS)
def test_removing_labels_minimises_the_partial_objective(options: HeadOptions) -> None:
    fitted = Fitted(options, random_rows())
    theta = fitted.retrainer().retrain([Edit(3, 2, 5), Edit(0, 0, 1)], tolerance=1e-10).theta
    rows = fitted.rows
    known = torch.ones(5, 8, dtype=torch.bool)
    known[3, 2:5] = known[0, 0] = False

    def objective(theta: Tensor) -> float:
        scores = fitted.head.at(theta)(rows.features.double(), rows.lengths)
        losses = crf.partial_loss(scores, pad_rows(rows.labels, rows.lengths), known)
        return float(losses.detach().mean() + 0.5 * L2 / 5 * theta.square().sum())

    for seed in range(6):
        direction = 1e-4 * random_theta(fitted.head, seed)
        up, down, here = objective(theta + direction), objective(theta - direction), objective(theta)
        assert here < min(up, down)
        assert abs(up - down) < 1e-4 * (up + down - 2 * here)  # flat at the optimum


def test_a_gradient_left_by_the_refit_is_not_put_down_to_an_edit() -> None:
    rows = random_rows(4, (7, 5, 9, 3, 6, 8, 4, 5))
    torch.manual_seed(0)
    rough = refit_head(Head(4, LABELS), rows, RefitOptions(L2, tolerance=1e-2)).head
    objective = Objective(rough, rows, L2)
    solver = Cholesky(Hessian(HessianProduct(objective, rough.flat())))
    assert objective.evaluate(rough.flat()).max_gradient > 1e-6
    theta = settled(objective, rough.flat(), solver)
    assert objective.evaluate(theta).max_gradient < 1e-12
    same = Edit(2, 3, 6, tuple(rows.sentence(2).labels[3:6].tolist()))  # the labels it has
    assert (Retrainer(objective, rows, theta, solver).retrain([same]).theta - theta).abs().max() < 1e-11


def test_a_weak_label_is_retrained_as_carefully_as_a_strong_one() -> None:
    """The gradient of one of very many sentences is below any fixed tolerance."""
    many = copies_of(random_rows(), 2000)
    fitted = Fitted(HeadOptions(), many)
    theta = settled(fitted.objective, fitted.theta, fitted.solver)
    moved = Retrainer(fitted.objective, many, theta, fitted.solver).retrain([Edit(0, 1, 2)], tolerance=1e-3).theta
    exact = Retrainer(fitted.objective, many, theta, fitted.solver).retrain([Edit(0, 1, 2)], tolerance=1e-12).theta
    assert (moved - exact).norm() < 0.01 * (exact - theta).norm()
