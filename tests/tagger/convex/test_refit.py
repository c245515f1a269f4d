"""The objective's derivatives against finite differences, and the refit against its definition."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tagtrace._checks import OptionError, TrainingError
from tagtrace.data import LabelSet
from tagtrace.tagger import HeadOptions, RefitOptions, Rows, crf, refit_head
from tagtrace.tagger.convex import products
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.nearby import nearby_gradients
from tagtrace.tagger.convex.objective import Objective
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import pad_rows, unpad_rows
from tests.strategies import HEADS, LABELS, random_rows, random_theta


@pytest.mark.parametrize("options", HEADS)
def test_gradient_agrees_with_finite_differences(options: HeadOptions) -> None:
    head = Head(4, LABELS, options)
    objective = Objective(head, random_rows(), l2=0.7)
    theta = random_theta(head)
    gradient = objective.evaluate(theta).gradient
    step = 1e-6
    for index in range(len(theta)):
        moved = torch.zeros_like(theta)
        moved[index] = step
        difference = objective.evaluate(theta + moved).value - objective.evaluate(theta - moved).value
        assert gradient[index].item() == pytest.approx(difference / (2 * step), abs=1e-7)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("options", HEADS)
def test_gradients_at_many_thetas_are_those_at_each(
    options: HeadOptions, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "USE_LOOPS", compiled)
    head = Head(4, LABELS, options)
    objective = Objective(head, random_rows(), l2=0.7)
    theta = random_theta(head)
    moves = 0.3 * torch.stack([random_theta(head, seed) for seed in range(3)])
    alone = torch.stack([objective.evaluate(theta + move).gradient for move in moves])
    found = nearby_gradients(objective, objective.evaluate(theta), moves)
    torch.testing.assert_close(found, alone, rtol=0, atol=1e-6)
    tiny = nearby_gradients(objective, objective.evaluate(theta), 1e-9 * moves) - objective.evaluate(theta).gradient
    expected = HessianProduct(objective, theta)(1e-9 * moves)
    torch.testing.assert_close(tiny, expected, rtol=0, atol=1e-5 * float(expected.abs().max()))


@pytest.mark.parametrize("options", HEADS)
def test_hessian_product_agrees_with_finite_differences(options: HeadOptions) -> None:
    head = Head(4, LABELS, options)
    objective = Objective(head, random_rows(), l2=0.7)
    theta = random_theta(head)
    hessian = HessianProduct(objective, theta)
    eye = torch.eye(len(theta), dtype=torch.float64)
    products = torch.stack([hessian(row) for row in eye])
    torch.testing.assert_close(hessian(eye), products, rtol=0, atol=1e-13)  # many at once
    step = 1e-5
    for index in range(len(theta)):
        moved = torch.zeros_like(theta)
        moved[index] = step
        difference = objective.evaluate(theta + moved).gradient - objective.evaluate(theta - moved).gradient
        torch.testing.assert_close(products[index], difference / (2 * step), rtol=0, atol=1e-8)
    torch.testing.assert_close(products, products.T, rtol=0, atol=1e-12)


def test_objective_is_the_mean_loss_plus_the_l2_term() -> None:
    rows, head = random_rows(), Head(4, LABELS)
    theta = random_theta(head)
    head.double().set_flat(theta)
    losses = crf.joint_loss(head(rows.features.double(), rows.lengths), pad_rows(rows.labels, rows.lengths))
    expected = losses.mean() + 0.5 * (0.7 / 5) * theta.square().sum()
    assert Objective(head, rows, l2=0.7).evaluate(theta).value == pytest.approx(float(expected.detach()), abs=1e-12)


@pytest.mark.parametrize("options", HEADS)
def test_refit_reaches_the_optimum_from_anywhere(options: HeadOptions) -> None:
    rows = random_rows(3, lengths=(6, 2, 9, 4, 1, 7))
    results = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        head = Head(4, LABELS, options)
        before = head.flat()
        results.append(refit_head(head, rows, RefitOptions(l2=0.5, tolerance=1e-10)))
        assert torch.equal(head.flat(), before), "the head given must stay as it is"
    assert all(result.max_gradient <= 1e-10 for result in results)
    torch.testing.assert_close(results[0].head.flat(), results[1].head.flat(), rtol=0, atol=1e-7)
    optimum = Objective(results[0].head, rows, 0.5)
    theta = results[0].head.flat()
    nearby = [optimum.evaluate(theta + 1e-3 * random_theta(results[0].head, seed)).value for seed in range(5)]
    assert min(nearby) > results[0].objective


def test_a_sentence_given_twice_weighs_twice() -> None:
    rows = random_rows()
    twice = Rows(rows.features.repeat(2, 1), rows.labels.repeat(2), rows.lengths.repeat(2))
    once = refit_head(Head(4, LABELS), rows, RefitOptions(l2=1.0, tolerance=1e-10))
    doubled = refit_head(Head(4, LABELS), twice, RefitOptions(l2=2.0, tolerance=1e-10))
    torch.testing.assert_close(once.head.flat(), doubled.head.flat(), rtol=0, atol=1e-7)


def test_refit_reports_progress_and_refuses_to_pass_off_a_failure() -> None:
    seen: list[float] = []
    refit_head(Head(4, LABELS), random_rows(), progress=lambda _step, value, _gradient: seen.append(value))
    assert seen == sorted(seen, reverse=True)
    assert len(seen) > 1
    with pytest.raises(TrainingError, match="raise max_steps or l2"):
        refit_head(Head(4, LABELS), random_rows(), RefitOptions(tolerance=1e-12, max_steps=1))


def test_bad_values_are_refused() -> None:
    rows = random_rows()
    rows.features[3, 1] = torch.nan
    with pytest.raises(TrainingError, match="NaN"):
        refit_head(Head(4, LABELS), rows)
    with pytest.raises(OptionError, match="l2"):
        RefitOptions(l2=0.0)


def test_rows_in_chunks_and_sorted_are_the_same_sentences() -> None:
    rows = random_rows()
    for max_tokens in (1, 4, 7, 100):
        chunks = list(rows.chunks(max_tokens))
        torch.testing.assert_close(torch.cat([chunk.features for chunk in chunks]), rows.features)
        assert torch.cat([chunk.lengths for chunk in chunks]).tolist() == rows.lengths.tolist()
        assert all(len(chunk.lengths) == 1 or len(chunk.features) <= max_tokens for chunk in chunks)
    ordered = rows.sorted_by_length()
    assert ordered.lengths.tolist() == [1, 2, 3, 5, 8]
    torch.testing.assert_close(ordered.features[0], rows.features[5])  # the sentence of length 1
    torch.testing.assert_close(ordered.features[6:11], rows.features[:5])  # the sentence of length 5


def test_padding_and_back() -> None:
    rows = random_rows()
    padded = pad_rows(rows.features, rows.lengths)
    assert padded.shape == (5, 8, 4)
    assert not padded[1, 1:].any()
    torch.testing.assert_close(unpad_rows(padded, rows.lengths), rows.features)


@pytest.mark.parametrize("scale", [1e4, 1e6])
def test_refit_starts_over_from_a_head_with_huge_weights(scale: float) -> None:
    rows = random_rows()
    wild = Head(4, LABELS)
    wild.set_flat(scale * random_theta(wild).float())
    calm = refit_head(Head(4, LABELS), rows, RefitOptions(tolerance=1e-9))
    torch.testing.assert_close(refit_head(wild, rows, RefitOptions(tolerance=1e-9)).head.flat(), calm.head.flat())


def test_nearly_dependent_features_are_solved_or_refused_in_one_line() -> None:
    rows = random_rows()
    rows.features[:] = 1e6 + 1e-3 * rows.features
    try:
        refit_head(Head(4, LABELS), rows, RefitOptions(l2=1e-4, max_steps=30))
    except TrainingError as error:
        assert "\n" not in str(error)  # noqa: PT017


def test_one_label_has_nothing_to_move() -> None:
    head = Head(4, LabelSet(("O",), "plain"))
    rows = random_rows()
    objective = Objective(head, Rows(rows.features, torch.zeros_like(rows.labels), rows.lengths), l2=0.7)
    move = torch.ones(2, head.num_parameters, dtype=torch.float64)
    found = nearby_gradients(objective, objective.evaluate(torch.zeros_like(move[0])), move)
    torch.testing.assert_close(found, torch.stack([objective.evaluate(move[0]).gradient] * 2))


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("start", [0.0, 30.0])
def test_one_token_with_huge_features_does_not_stop_a_refit(
    compiled: bool, start: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the optimum the scores of that token differ by more than exp can hold."""
    monkeypatch.setattr(products, "USE_LOOPS", compiled)
    rows = random_rows()
    rows.features[0] *= 5e3
    head = Head(4, LABELS, HeadOptions())
    head.set_flat(start * random_theta(head))
    found = refit_head(head, rows, RefitOptions(l2=0.01, tolerance=1e-7))
    spread = (rows.features[0].double() @ found.head.weight[:, :-1].T).detach()
    assert float(spread.max() - spread.min()) > 700.0
    assert Objective(found.head, rows, 0.01).evaluate(found.head.flat()).max_gradient <= 1e-7


@pytest.mark.parametrize("options", [{"tolerance": float("inf")}, {"tolerance": float("nan")}, {"l2": float("inf")}])
def test_numbers_without_an_end_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="finite"):
        RefitOptions(**options)
