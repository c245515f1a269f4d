"""Refine against exact retraining."""

from __future__ import annotations

import pytest
import torch

from tagtrace._checks import OptionError, TrainingError
from tagtrace.influence import Edit, Refiner, Retrainer, Screen
from tagtrace.influence.curvature.operators import Hessian
from tagtrace.influence.curvature.solvers import Cholesky, ConjugateGradient
from tagtrace.influence.edits import refine as refine_module
from tagtrace.tagger import Head, HeadOptions, RefitOptions, Rows, refit_head
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.nearby import nearby_gradients
from tagtrace.tagger.convex.objective import Evaluation, Objective
from tests.influence.fitted import Fitted
from tests.strategies import HEADS, LABELS, random_rows


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize("lengths", [(6,), (5, 1, 4)])
def test_refine_is_exact_when_every_sentence_is_edited(options: HeadOptions, lengths: tuple[int, ...]) -> None:
    """The rest is then the L2 term alone, which is quadratic."""
    fitted = Fitted(options, random_rows(2, lengths))
    group = [Edit(number, 0, 1) for number in range(len(lengths))]
    group[0] = Edit(0, 1, 4)
    exact = fitted.retrainer().retrain(group, tolerance=1e-11).theta - fitted.theta
    torch.testing.assert_close(fitted.refiner().changes([group])[0], exact, rtol=0, atol=1e-6)
    assert exact.abs().max() > 0.01


@pytest.mark.parametrize("options", HEADS)
def test_passes_lead_to_the_retrained_optimum(options: HeadOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refine_module, "SETTLED", 0.0)
    fitted = Fitted(options, random_rows(4, (7, 5, 9, 3, 6, 8, 4, 5)))
    group = [Edit(2, 3, 6), Edit(5, 0, 1)]
    exact = fitted.retrainer().retrain(group, tolerance=1e-11).theta - fitted.theta
    errors = []
    for num_passes in range(5):
        refiner = fitted.refiner(num_passes)
        errors.append(float((refiner.changes([group])[0] - exact).norm() / exact.norm()))
    assert errors[1] < 0.5 * errors[0], errors
    assert errors[4] < 1e-2 * errors[0], errors


@pytest.mark.parametrize("options", HEADS)
def test_groups_that_have_arrived_make_no_more_passes(options: HeadOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = Fitted(options, random_rows(4, (7, 5, 9, 3, 6, 8, 4, 5)))
    same = (int(fitted.rows.sentence(4).labels[1]),)
    groups = [[Edit(2, 3, 6), Edit(5, 0, 1)], [Edit(4, 1, 2, same)], [Edit(3, 0, 1)]]
    counts: list[int] = []

    def counted(objective: Objective, where: Evaluation, moves: torch.Tensor) -> torch.Tensor:
        counts.append(len(moves))
        return nearby_gradients(objective, where, moves)

    monkeypatch.setattr(refine_module, "nearby_gradients", counted)
    monkeypatch.setattr(refine_module, "SETTLED", 1e-3)
    found = fitted.refiner(8).changes(groups)
    assert counts[0] == 3
    assert counts == sorted(counts, reverse=True)
    assert len(counts) < 8
    assert counts[1] < 3, "an edit that changes nothing has arrived at once"
    for group, change in zip(groups, found, strict=True):
        exact = fitted.retrainer().retrain(group, tolerance=1e-11).theta - fitted.theta
        assert (change - exact).norm() <= 1e-3 * exact.norm() + 1e-6


def test_refine_is_nearer_to_retraining_than_first_order() -> None:
    fitted = Fitted(HeadOptions(), random_rows(4, (7, 5, 9, 3, 6, 8, 4, 5)))
    query = fitted.query()
    direction = fitted.solver.solve(query.gradient(fitted.head).unsqueeze(0)).value
    tokens = torch.tensor([(i, t, t + 1) for i, n in enumerate(fitted.rows.lengths.tolist()) for t in range(n)])
    first = Screen(fitted.head, fitted.rows, tokens).influence(direction)[0]
    before = float(query.loss(fitted.head).detach())
    errors: dict[str, float] = {"first order": 0.0, "refine": 0.0}
    for index, (number, start, stop) in enumerate(tokens.tolist()):
        theta = fitted.retrainer().retrain([Edit(number, start, stop)]).theta
        actual = float(query.loss(fitted.head.at(theta)).detach()) - before
        effect = fitted.refiner().effects([[Edit(number, start, stop)]], query)[0]
        assert effect.before == pytest.approx(before)
        errors["first order"] += abs(float(first[index]) - actual)
        errors["refine"] += abs(effect.change - actual)
    assert errors["refine"] < 0.3 * errors["first order"]


@pytest.mark.parametrize("options", HEADS)
def test_groups_refined_together_are_as_if_alone(options: HeadOptions) -> None:
    fitted = Fitted(options, random_rows(4, (7, 5, 9, 3, 6, 8, 4, 5)))
    groups = [
        [Edit(2, 3, 6), Edit(5, 0, 1)],
        [Edit(2, 0, 1)],
        [Edit(3, 0, 3, (0, 1, 1))],
        [Edit(7, 4, 5), Edit(0, 0, 7)],
    ]
    refiner = fitted.refiner(num_passes=1)
    together = refiner.changes(groups)
    for group, change in zip(groups, together, strict=True):
        torch.testing.assert_close(change, refiner.changes([group])[0], rtol=0, atol=1e-6)


def test_bad_edits_and_unreachable_optima_are_refused() -> None:
    fitted = Fitted(HeadOptions(), random_rows())
    for edit, message in (
        (Edit(0, 3, 9), "3:9 is not a segment of sentence 0, which has tokens 0 to 4"),
        (Edit(0, 2, 2), "2:2 is not a segment"),
        (Edit(0, 1, 3, (1,)), "needs 2 labels; it has 1"),
    ):
        with pytest.raises(OptionError, match=message):
            fitted.retrainer().retrain([edit])
    with pytest.raises(OptionError, match="need the objective"):
        Refiner(fitted.head, fitted.rows, fitted.solver, num_passes=1)
    with pytest.raises(OptionError, match="at least one"):
        fitted.refiner().changes([[]])
    with pytest.raises(TrainingError, match="retraining stopped"):
        fitted.retrainer().retrain([Edit(0, 0, 3)], max_evaluations=2)
    with pytest.raises(OptionError, match="3:7 is not a segment of a sentence of 4 tokens"):
        fitted.query(start=3, stop=7)


def memorised(l2: float, scale: float) -> tuple[Head, Rows, Objective, Cholesky]:
    """A head that is certain of its training data: the curvature is far larger elsewhere than at its optimum."""
    generator = torch.Generator().manual_seed(3)
    lengths = torch.tensor([7, 5, 9, 3, 6, 8, 4, 5, 7, 6])
    labels = torch.randint(3, (int(lengths.sum()),), generator=generator)
    means = torch.randn(3, 6, generator=generator)
    features = scale * (means[labels] + 0.7 * torch.randn(len(labels), 6, generator=generator))
    rows = Rows(features, labels, lengths)
    torch.manual_seed(0)
    head = refit_head(Head(6, LABELS), rows, RefitOptions(l2, tolerance=1e-10)).head
    objective = Objective(head, rows, l2)
    return head, rows, objective, Cholesky(Hessian(HessianProduct(objective, head.flat())))


@pytest.mark.parametrize(("l2", "scale"), [(1.0, 5.0), (0.1, 2.0)])
def test_refine_does_not_diverge_on_memorised_data(l2: float, scale: float) -> None:
    head, rows, objective, solver = memorised(l2, scale)
    retrainer = Retrainer(objective, rows, head.flat(), solver)
    groups = [[Edit(2, t, t + 1, labels)] for t in range(9) for labels in (None, (0,), (1,), (2,))]
    exact = torch.stack([retrainer.retrain(group).theta for group in groups]) - head.flat()
    changed = exact.norm(dim=1) > 1e-6
    errors = {}
    for num_passes in (0, 2, 8):
        found = Refiner(head, rows, solver, objective, num_passes).changes(groups)
        errors[num_passes] = ((found - exact).norm(dim=1) / exact.norm(dim=1))[changed]
        assert float(errors[num_passes].max()) < 1.0
    assert errors[8].median() < 0.5 * errors[2].median() < 0.5 * errors[0].median()


def test_moves_that_do_not_get_shorter_lead_astray(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above fails without the limit on the length of a move."""
    head, rows, objective, solver = memorised(0.02, 2.0)
    retrainer = Retrainer(objective, rows, head.flat(), solver)
    groups = [[Edit(2, t, t + 1, labels)] for t in range(9) for labels in (None, (0,), (1,), (2,))]
    exact = torch.stack([retrainer.retrain(group).theta for group in groups]) - head.flat()
    changed = exact.norm(dim=1) > 1e-6
    worst = []
    for contraction in (refine_module.CONTRACTION, 1e9):
        monkeypatch.setattr(refine_module, "CONTRACTION", contraction)
        found = Refiner(head, rows, solver, objective, 4).changes(groups)
        worst.append(float(((found - exact).norm(dim=1) / exact.norm(dim=1))[changed].max()))
    assert worst[0] < 1.0 < 0.1 * worst[1]


@pytest.mark.parametrize("options", HEADS)
def test_without_an_inverse_refine_iterates_to_the_same(options: HeadOptions) -> None:
    fitted = Fitted(options, random_rows(3, (6, 2, 9, 4, 1, 7)))
    hessian = Hessian(HessianProduct(fitted.objective, fitted.theta))
    iterated = ConjugateGradient(hessian, hessian.preconditioner, tolerance=1e-8)
    allowed = (None,) if options.constrained else (None, (0,), (2,))
    groups = [[Edit(2, t, t + 1, labels)] for t in (0, 4, 8) for labels in allowed]
    groups.append([Edit(0, 1, 3), Edit(5, 0, 2)])
    retrained = [fitted.retrainer().retrain(group, tolerance=1e-10).theta for group in groups]
    exact = torch.stack(retrained) - fitted.theta
    found = Refiner(fitted.head, fitted.rows, iterated, fitted.objective).changes(groups)
    error = (found - exact).norm(dim=1) / exact.norm(dim=1).clamp(min=1e-3)
    assert float(error.max()) < 0.02
    verified = Retrainer(fitted.objective, fitted.rows, fitted.theta, iterated).retrain(groups[-1], tolerance=1e-9)
    torch.testing.assert_close(verified.theta, retrained[-1], rtol=0, atol=1e-6)
