"""First order, refine and retraining against definitions, finite differences and each other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tagtrace._checks import OptionError, TrainingError
from tagtrace.influence import Edit, Query, Refiner, Retrainer, Screen
from tagtrace.influence.curvature.operators import Hessian
from tagtrace.influence.curvature.solvers import Cholesky
from tagtrace.influence.edits.logit_space import LogitSpace
from tagtrace.influence.edits.retrain import settled
from tagtrace.tagger import Head, HeadOptions, RefitOptions, Rows, crf, refit_head
from tagtrace.tagger.objective import Objective
from tagtrace.tagger.rows import pad_rows
from tests.strategies import HEADS, LABELS, random_rows, random_theta

L2 = 0.8


class Fitted:
    """A tiny head at its optimum, with everything influence needs."""

    def __init__(self, options: HeadOptions, rows: Rows) -> None:
        torch.manual_seed(0)
        self.rows = rows
        self.head = refit_head(Head(4, LABELS, options), rows, RefitOptions(L2, tolerance=1e-11)).head
        self.objective = Objective(self.head, rows, L2)
        self.theta = self.head.flat()
        self.solver = Cholesky(Hessian(self.objective.hessian(self.theta)))

    def retrainer(self) -> Retrainer:
        return Retrainer(self.objective, self.rows, self.theta, self.solver)

    def refiner(self) -> Refiner:
        return Refiner(self.head, self.rows, self.solver.inverse)

    def query(self, seed: int = 9, start: int = 1, stop: int = 2) -> Query:
        other = random_rows(seed, (4,))
        return Query(other.features.double(), other.labels, start, stop)


def segments_of(rows: Rows) -> Tensor:
    return torch.tensor(
        [(i, a, b) for i, n in enumerate(rows.lengths.tolist()) for a in range(n) for b in range(a + 1, n + 1)]
    )


@pytest.mark.parametrize("options", HEADS)
def test_screen_is_the_gradient_of_every_segment_times_the_direction(options: HeadOptions) -> None:
    rows, head = random_rows(), Head(4, LABELS, options).double()
    head.set_flat(random_theta(head))
    segments = segments_of(rows)
    directions = torch.stack([random_theta(head, seed) for seed in (5, 6)])
    scores = head(rows.features.double(), rows.lengths)
    losses = crf.conditional_loss(scores, pad_rows(rows.labels, rows.lengths), segments)
    for index, loss in enumerate(losses):
        parts = torch.autograd.grad(loss, list(head.parameters()), retain_graph=True, allow_unused=True)
        dense = [torch.zeros_like(p) if g is None else g for g, p in zip(parts, head.parameters(), strict=True)]
        gradient = torch.cat([part.flatten() for part in dense])
        expected = directions @ gradient / len(rows.lengths)
        found = Screen(head, rows, segments[index : index + 1]).influence(directions)[:, 0]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    together = Screen(head, rows, segments).influence(directions)
    alone = [Screen(head, rows, segments[i : i + 1]).influence(directions) for i in range(len(segments))]
    torch.testing.assert_close(together, torch.cat(alone, 1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", HEADS)
def test_a_query_is_differentiated_exactly(options: HeadOptions) -> None:
    fitted = Fitted(options, random_rows())
    query = fitted.query(stop=3)
    gradient = query.gradient(fitted.head)
    for index in range(len(gradient)):
        moved = torch.zeros_like(gradient)
        moved[index] = 1e-6
        up, down = (float(query.loss(fitted.head.at(fitted.theta + sign * moved)).detach()) for sign in (1, -1))
        assert float(gradient[index]) == pytest.approx((up - down) / 2e-6, abs=1e-7)
    probabilities = query.probabilities(fitted.head)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(2, dtype=torch.float64))


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


@pytest.mark.parametrize("options", [HeadOptions(), HeadOptions(start_end=True), HeadOptions("softmax")])
def test_first_order_has_slope_one_for_a_tiny_share_of_the_data(options: HeadOptions) -> None:
    rows = random_rows()
    copies = 400
    many = Rows(rows.features.repeat(copies, 1), rows.labels.repeat(copies), rows.lengths.repeat(copies))
    fitted = Fitted(options, many)
    query = fitted.query()
    direction = fitted.solver.solve(query.gradient(fitted.head).unsqueeze(0)).value
    for number, start, stop in ((0, 1, 2), (3, 2, 5), (2, 0, 3)):
        predicted = float(Screen(fitted.head, many, torch.tensor([[number, start, stop]])).influence(direction))
        theta = fitted.retrainer().retrain([Edit(number, start, stop)], tolerance=1e-12).theta
        actual = float((query.loss(fitted.head.at(theta)) - query.loss(fitted.head)).detach())
        assert actual == pytest.approx(predicted, rel=0.02)
        assert predicted != 0


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
def test_passes_lead_to_the_retrained_optimum(options: HeadOptions) -> None:
    fitted = Fitted(options, random_rows(4, (7, 5, 9, 3, 6, 8, 4, 5)))
    group = [Edit(2, 3, 6), Edit(5, 0, 1)]
    exact = fitted.retrainer().retrain(group, tolerance=1e-11).theta - fitted.theta
    errors = []
    for num_passes in range(5):
        refiner = Refiner(fitted.head, fitted.rows, fitted.solver.inverse, fitted.objective, num_passes)
        errors.append(float((refiner.changes([group])[0] - exact).norm() / exact.norm()))
    assert errors[1] < 0.5 * errors[0], errors
    assert errors[4] < 1e-2 * errors[0], errors


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
def test_logit_space_is_the_chain_rule(options: HeadOptions) -> None:
    rows, head = random_rows(1, (3, 2, 4)), Head(4, LABELS, options).double()
    head.set_flat(random_theta(head))
    space = LogitSpace(head, rows.features.double(), rows.lengths, torch.tensor([2, 1]))
    eye = torch.eye(head.num_parameters, dtype=torch.float64)
    jacobian = torch.stack([space.seen_from(unit.expand(2, -1)) for unit in eye], 2)  # B (G, M, P)
    parts = (Rows(rows.features[:5], rows.labels[:5], rows.lengths[:2]), rows.sentence(2))
    for group, part in enumerate(parts):
        hessian = Objective(head, part, l2=1e-300).hessian(head.flat())(eye) * len(part.lengths)
        found = jacobian[group].T @ space.curvature()[group] @ jacobian[group]
        torch.testing.assert_close(found, hessian, rtol=0, atol=1e-12)
    metric = random_metric(head)
    torch.testing.assert_close(space.gram(metric), jacobian @ metric @ jacobian.mT, rtol=0, atol=1e-10)
    logits = space.gram(metric)[:, 0]
    torch.testing.assert_close(space.gathered(logits), (logits.unsqueeze(1) @ jacobian).squeeze(1), rtol=0, atol=1e-10)


def random_metric(head: Head) -> Tensor:
    """A symmetric positive definite matrix (P, P)."""
    half = torch.stack([random_theta(head, seed) for seed in range(head.num_parameters)])
    return half @ half.T / head.num_parameters


@pytest.mark.parametrize("options", HEADS)
def test_groups_refined_together_are_as_if_alone(options: HeadOptions) -> None:
    fitted = Fitted(options, random_rows(4, (7, 5, 9, 3, 6, 8, 4, 5)))
    groups = [
        [Edit(2, 3, 6), Edit(5, 0, 1)],
        [Edit(2, 0, 1)],
        [Edit(3, 0, 3, (0, 1, 1))],
        [Edit(7, 4, 5), Edit(0, 0, 7)],
    ]
    refiner = Refiner(fitted.head, fitted.rows, fitted.solver.inverse, fitted.objective, num_passes=1)
    together = refiner.changes(groups)
    for group, change in zip(groups, together, strict=True):
        torch.testing.assert_close(change, refiner.changes([group])[0], rtol=0, atol=1e-6)


def test_bad_edits_and_unreachable_optima_are_refused() -> None:
    fitted = Fitted(HeadOptions(), random_rows())
    for edit, message in (
        (Edit(0, 3, 9), "does not lie"),
        (Edit(0, 2, 2), "does not lie"),
        (Edit(0, 1, 3, (1,)), "needs 2 labels"),
    ):
        with pytest.raises(OptionError, match=message):
            fitted.retrainer().retrain([edit])
    with pytest.raises(OptionError, match="need the objective"):
        Refiner(fitted.head, fitted.rows, fitted.solver.inverse, num_passes=1)
    with pytest.raises(OptionError, match="at least one"):
        fitted.refiner().changes([[]])
    with pytest.raises(TrainingError, match="retraining stopped"):
        fitted.retrainer().retrain([Edit(0, 0, 3)], max_evaluations=2)
    with pytest.raises(OptionError, match="does not lie"):
        fitted.query(start=3, stop=7)


def memorised(l2: float, scale: float) -> tuple[Head, Rows, Objective, Cholesky]:
    """A head that is sure of its training data: elsewhere it is bent far more than where it stands."""
    generator = torch.Generator().manual_seed(3)
    lengths = torch.tensor([7, 5, 9, 3, 6, 8, 4, 5, 7, 6])
    labels = torch.randint(3, (int(lengths.sum()),), generator=generator)
    means = torch.randn(3, 6, generator=generator)
    features = scale * (means[labels] + 0.7 * torch.randn(len(labels), 6, generator=generator))
    rows = Rows(features, labels, lengths)
    torch.manual_seed(0)
    head = refit_head(Head(6, LABELS), rows, RefitOptions(l2, tolerance=1e-10)).head
    objective = Objective(head, rows, l2)
    return head, rows, objective, Cholesky(Hessian(objective.hessian(head.flat())))


@pytest.mark.parametrize(("l2", "scale"), [(1.0, 5.0), (0.1, 2.0)])
def test_refine_does_not_diverge_on_memorised_data(l2: float, scale: float) -> None:
    head, rows, objective, solver = memorised(l2, scale)
    retrainer = Retrainer(objective, rows, head.flat(), solver)
    groups = [[Edit(2, t, t + 1, labels)] for t in range(9) for labels in (None, (0,), (1,), (2,))]
    exact = torch.stack([retrainer.retrain(group).theta for group in groups]) - head.flat()
    changed = exact.norm(dim=1) > 1e-6
    errors = {}
    for num_passes in (0, 2, 8):
        found = Refiner(head, rows, solver.inverse, objective, num_passes).changes(groups)
        errors[num_passes] = ((found - exact).norm(dim=1) / exact.norm(dim=1))[changed]
        assert float(errors[num_passes].max()) < 1.0
    assert errors[8].median() < 0.5 * errors[2].median() < 0.5 * errors[0].median()


def test_a_gradient_left_by_the_refit_is_not_put_down_to_an_edit() -> None:
    rows = random_rows(4, (7, 5, 9, 3, 6, 8, 4, 5))
    torch.manual_seed(0)
    rough = refit_head(Head(4, LABELS), rows, RefitOptions(L2, tolerance=1e-2)).head
    objective = Objective(rough, rows, L2)
    solver = Cholesky(Hessian(objective.hessian(rough.flat())))
    assert objective.evaluate(rough.flat()).max_gradient > 1e-6
    theta = settled(objective, rough.flat(), solver)
    assert objective.evaluate(theta).max_gradient < 1e-12
    same = Edit(2, 3, 6, tuple(rows.sentence(2).labels[3:6].tolist()))  # the labels it has
    assert (Retrainer(objective, rows, theta, solver).retrain([same]).theta - theta).abs().max() < 1e-11


def test_a_weak_label_is_retrained_as_carefully_as_a_strong_one() -> None:
    """The gradient of one of very many sentences is below any fixed tolerance."""
    rows = random_rows()
    copies = 2000
    many = Rows(rows.features.repeat(copies, 1), rows.labels.repeat(copies), rows.lengths.repeat(copies))
    fitted = Fitted(HeadOptions(), many)
    theta = settled(fitted.objective, fitted.theta, fitted.solver)
    moved = Retrainer(fitted.objective, many, theta, fitted.solver).retrain([Edit(0, 1, 2)], tolerance=1e-3).theta
    exact = Retrainer(fitted.objective, many, theta, fitted.solver).retrain([Edit(0, 1, 2)], tolerance=1e-12).theta
    assert (moved - exact).norm() < 0.01 * (exact - theta).norm()
