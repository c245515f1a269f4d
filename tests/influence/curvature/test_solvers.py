"""Each solver on each operator against a dense solve, and solves that should fail."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable

import pytest
import torch

from tagtrace._checks import OptionError
from tagtrace._progress import Progress
from tagtrace.influence.curvature import operators
from tagtrace.influence.curvature.operators import Hessian, Identity, Kronecker, Operator
from tagtrace.influence.curvature.solvers import Cholesky, ConjugateGradient, Direct, SolveError, Solver
from tagtrace.tagger import Head, HeadOptions, Rows
from tagtrace.tagger.convex import hessian_product as product_module
from tagtrace.tagger.convex.block_cg import block_cg
from tagtrace.tagger.convex.coarse_inverse import CoarseInverse
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.objective import Objective
from tagtrace.tagger.convex.preconditioner import Balanced, KroneckerFactors, balanced_kronecker
from tests.strategies import HEADS, LABELS, random_rows, random_theta

OPERATORS: dict[str, Callable[..., Operator]] = {
    "identity": lambda product, damping: Identity(product.head.num_parameters, damping),
    "hessian": Hessian,
    "kronecker": Kronecker,
}
SOLVERS: dict[str, Callable[..., Solver]] = {
    "cholesky": Cholesky,
    "cg": lambda operator: ConjugateGradient(operator, tolerance=1e-11),
    "cg, coarse matrix": lambda operator: ConjugateGradient(
        operator, operator.preconditioner if isinstance(operator, Hessian) else None, tolerance=1e-11
    ),
    "balanced cg": lambda operator: ConjugateGradient(
        operator,
        balanced_kronecker(operator.product, operator.damping)
        if isinstance(operator, Hessian)
        else Balanced(operator, torch.clone, torch.arange(3), operator.size),
        tolerance=1e-11,
    ),
    "direct": Direct,
}


PAIRS = [(solver, kind) for solver in SOLVERS for kind in OPERATORS if (solver, kind) != ("direct", "hessian")]
"""No formula inverts the Hessian."""


def product_of(options: HeadOptions) -> HessianProduct:
    head = Head(4, LABELS, options)
    return HessianProduct(Objective(head, random_rows(), l2=0.7), random_theta(head))


def operator(name: str, options: HeadOptions, damping: float) -> Operator:
    return OPERATORS[name](product_of(options), damping)


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize(("solver", "kind"), PAIRS)
def test_solvers_agree_with_a_dense_solve(solver: str, kind: str, damping: float, options: HeadOptions) -> None:
    system = operator(kind, options, damping)
    right = torch.randn(3, system.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    solution = SOLVERS[solver](system).solve(right)
    expected = torch.linalg.solve(system.dense(), right.T).T
    torch.testing.assert_close(solution.value, expected, rtol=0, atol=1e-8)
    assert float(solution.residual.max()) < 1e-9


@pytest.mark.parametrize("options", HEADS)
def test_operators_are_symmetric_positive_definite_and_damped(options: HeadOptions) -> None:
    for kind in OPERATORS:
        plain, damped = operator(kind, options, 0.0).dense(), operator(kind, options, 0.5).dense()
        torch.testing.assert_close(plain, plain.T, rtol=0, atol=1e-11)
        assert float(torch.linalg.eigvalsh(plain).min()) > 0
        torch.testing.assert_close(damped, plain + 0.5 * torch.eye(len(plain)).double(), rtol=0, atol=1e-11)


def test_kronecker_is_nearer_to_the_hessian_than_the_identity() -> None:
    hessian, kronecker = (operator(name, HeadOptions(), 0.0).dense() for name in ("hessian", "kronecker"))
    assert (kronecker - hessian).norm() < 0.75 * (torch.eye(len(hessian)) - hessian).norm()


def test_preconditioning_saves_steps_and_changes_nothing() -> None:
    head = Head(6, LABELS)
    rows = random_rows(1, (30, 20, 40, 10), 6)
    rows.features[:, 0] *= 100.0  # badly scaled on purpose
    product = HessianProduct(Objective(head, rows, l2=0.1), 0.01 * random_theta(head))
    system, kronecker = Hessian(product), Kronecker(product)
    right = torch.randn(2, system.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    plain = block_cg(system, torch.clone, right, 1e-8)
    helped = block_cg(system, kronecker.inverse, right, 1e-8)
    assert helped.num_steps < plain.num_steps
    torch.testing.assert_close(helped.value, plain.value, rtol=1e-5, atol=1e-8)
    for precondition in (None, kronecker.inverse):  # float32 fails here, and exact products take over
        found = ConjugateGradient(system, precondition).solve(right).value
        torch.testing.assert_close(found, plain.value, rtol=1e-5, atol=1e-8)


def test_right_hand_sides_do_not_disturb_each_other() -> None:
    system = operator("hessian", HeadOptions(), 0.0)
    right = torch.randn(4, system.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    right[1] = 0.0
    right[2] *= 1e6
    solver = ConjugateGradient(system, tolerance=1e-11)
    together = solver.solve(right).value
    for row in range(4):
        torch.testing.assert_close(solver.solve(right[row : row + 1]).value[0], together[row], rtol=1e-9, atol=1e-9)


def test_a_failed_solve_is_an_error() -> None:
    system = operator("hessian", HeadOptions(), 0.0)
    right = torch.randn(1, system.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    solver = ConjugateGradient(system, tolerance=1e-12, max_steps=2)
    assert solver.try_solve(right).status == "not converged"
    with pytest.raises(SolveError, match=r"after 2 steps; allow more steps, add damping, or use the dense solver$"):
        solver.solve(right)


def test_a_failed_formula_is_an_error_too() -> None:
    class Wrong(Identity):
        def inverse(self, vectors: torch.Tensor) -> torch.Tensor:
            return 1.001 * vectors

    solver = Direct(Wrong(3))
    assert solver.try_solve(torch.ones(1, 3)).status == "not converged"
    assert solver.try_solve(torch.full((1, 3), math.nan)).status == "not converged"
    with pytest.raises(SolveError, match=r"residual of 1.0e-03; add damping or refit with a larger l2$"):
        solver.solve(torch.ones(1, 3))


@pytest.mark.parametrize("l2", [1e-3, 1e-4])
def test_an_ill_conditioned_system_is_solved_as_well_as_rounding_allows(l2: float) -> None:
    rows = random_rows(1, (30, 20, 40, 10) * 10, 6)
    rows.features[:] *= 100.0
    rows.features[:, 0] = rows.features[:, 1]
    head = Head(6, LABELS)
    system = Hessian(HessianProduct(Objective(head, rows, l2), 1e-4 * random_theta(head)))
    matrix = system.dense()
    right = torch.randn(3, system.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    solver = Cholesky(system)
    found = solver.solve(right)
    expected = torch.linalg.solve(matrix, right.T).T
    assert float(torch.linalg.cond(matrix)) > 1e9
    assert found.status == "exact"
    assert float((found.value - expected).norm() / expected.norm()) < 1e-3
    solver.inverse.mul_(1.001)  # more than rounding does
    with pytest.raises(SolveError, match="add damping or refit with a larger l2"):
        solver.solve(right)


def test_a_hopeless_system_is_refused_with_advice_that_fits() -> None:
    class Stretched(Identity):
        scales = torch.logspace(0, -14, 40, dtype=torch.float64)
        turn = torch.linalg.qr(torch.randn(40, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64))[0]

        def __call__(self, vectors: torch.Tensor) -> torch.Tensor:
            return (vectors @ self.turn * self.scales) @ self.turn.T

    with pytest.raises(SolveError, match="add damping or refit with a larger l2"):
        Cholesky(Stretched(40)).solve(torch.ones(1, 40))


def test_an_inverse_does_not_keep_the_training_data() -> None:
    product = product_of(HeadOptions())
    objective = weakref.ref(product.objective)
    solver = Cholesky(Hessian(product))
    del product
    gc.collect()
    assert objective() is None
    assert solver.operator is None


def test_an_indefinite_operator_is_refused() -> None:
    class Indefinite(Identity):
        def dense(self, progress: Progress | None = None) -> torch.Tensor:  # noqa: ARG002
            return torch.diag(torch.tensor([1.0, -1.0], dtype=torch.float64))

    with pytest.raises(SolveError, match="positive definite"):
        Cholesky(Indefinite(2))


@pytest.mark.parametrize("damping", [-1.0, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", OPERATORS)
def test_a_damping_that_is_not_a_number_is_refused(kind: str, damping: float) -> None:
    with pytest.raises(OptionError, match=rf"^damping {damping}: must be a number, at least 0$"):
        operator(kind, HeadOptions(), damping)


@pytest.mark.parametrize("options", [options for options in HEADS if options.start_end])
def test_start_and_end_scores_have_the_hessians_diagonal(options: HeadOptions) -> None:
    head = Head(4, LABELS, options)
    product = HessianProduct(Objective(head, random_rows(5, (25, 3, 1, 40) * 3), l2=0.7), random_theta(head))
    expected = Hessian(product, 0.1).dense().diagonal()[-6:]  # start and end
    torch.testing.assert_close(Kronecker(product, 0.1).dense().diagonal()[-6:], expected, rtol=1e-10, atol=0)
    assert len(set(expected.tolist())) > 2


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_kronecker_factors_are_what_they_are_said_to_be(options: HeadOptions, damping: float) -> None:
    product = product_of(options)
    objective, num_weights = product.objective, product.head.weight.numel()
    nodes = torch.cat([chain.nodes for chain in product.where.chains])  # (n, C)
    features = torch.cat([chunk.features for chunk in objective.chunks]).double()
    features = torch.cat([features, features.new_ones(len(features), 1)], 1)
    labels = sum(torch.diag(p) - torch.outer(p, p) for p in nodes)
    weights = 1.0 - nodes.square().sum(1)
    moment = (features.T * weights) @ features / objective.num_sentences
    expected = torch.kron(torch.as_tensor(labels) / weights.sum(), moment)
    expected += (objective.l2 + damping) * torch.eye(num_weights, dtype=torch.float64)
    found = KroneckerFactors(product, objective.l2 + damping)
    eye = torch.eye(product.head.num_parameters, dtype=torch.float64)
    torch.testing.assert_close(found(eye)[:num_weights, :num_weights], expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(found.inverse(found(eye)), eye, rtol=0, atol=1e-10)


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize("max_matrix", [0, 10_000])
def test_the_preconditioner_is_symmetric_positive_definite(
    options: HeadOptions, max_matrix: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operators, "MAX_MATRIX", max_matrix)
    product = product_of(options)
    precondition = Hessian(product, 0.1).preconditioner
    assert isinstance(precondition, CoarseInverse if max_matrix else Balanced)
    matrix = precondition(torch.eye(product.head.num_parameters, dtype=torch.float64))
    torch.testing.assert_close(matrix, matrix.T, rtol=0, atol=1e-5)
    assert float(torch.linalg.eigvalsh(matrix).min()) > 0


@pytest.mark.parametrize("options", HEADS)
def test_balanced_is_exact_in_its_coordinates(options: HeadOptions) -> None:
    hessian = Hessian(product_of(options), 0.1)
    precondition = balanced_kronecker(hessian.product, hessian.damping)
    C, D = hessian.product.head.weight.shape
    assert sorted(precondition.coordinates.tolist()) == [*range(D - 1, C * D, D), *range(C * D, hessian.size)]
    units = torch.eye(hessian.size, dtype=torch.float64)[precondition.coordinates]
    torch.testing.assert_close(precondition(hessian(units)), units, rtol=0, atol=1e-5)


def test_balancing_saves_steps_where_labels_hang_together() -> None:
    head = Head(6, LABELS)
    product = HessianProduct(Objective(head, random_rows(1, (30, 20, 40, 10), 6), l2=0.01), 0.3 * random_theta(head))
    system = Hessian(product)
    right = torch.randn(2, system.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    steps = [
        ConjugateGradient(system, precondition).solve(right).num_steps
        for precondition in (system.preconditioner, Kronecker(product).inverse)
    ]
    assert steps[0] < 0.7 * steps[1]


def test_the_estimated_residual_is_near_the_true_one_and_a_wrong_inverse_is_refused() -> None:
    system = operator("hessian", HeadOptions(), 0.0)
    right = torch.randn(5, system.size, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    solver = Cholesky(system)
    solver.inverse[3, 4] += 1e-3
    solution = solver.try_solve(right)
    truth = (system(solution.value) - right).norm(dim=1) / right.norm(dim=1)
    assert solution.status == "not converged"
    torch.testing.assert_close(solution.residual, truth, rtol=0.5, atol=0)
    with pytest.raises(SolveError, match="residual"):
        solver.solve(right)


def test_the_residuals_of_many_right_hand_sides_are_estimated_and_near_the_true_ones() -> None:
    system = operator("hessian", HeadOptions(), 0.0)
    right = torch.randn(40, system.size, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    solution = ConjugateGradient(system, tolerance=1e-4).solve(right)
    truth = (system(solution.value) - right).norm(dim=1) / right.norm(dim=1)
    assert float(truth.max()) > 1e-9  # there is something to estimate
    torch.testing.assert_close(solution.residual, truth, rtol=0.5, atol=1e-12)


def test_gradients_of_very_certain_labels_are_solved_for_too() -> None:
    """They are far below what float32, in which a preconditioner computes, can hold."""
    system = Hessian(product_of(HeadOptions()))
    right = torch.randn(3, system.size, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    small = right * torch.tensor([[1.0], [1e-60], [1e-200]], dtype=torch.float64)
    solution = ConjugateGradient(system, system.preconditioner, tolerance=1e-8).solve(torch.cat([small, 0 * right[:1]]))
    expected = torch.linalg.solve(system.dense(), right.T).T
    sizes = torch.tensor([[1.0], [1e60], [1e200]], dtype=torch.float64)
    torch.testing.assert_close(solution.value[:3] * sizes, expected, rtol=1e-6, atol=1e-9)
    assert not solution.value[3].any()


def test_exact_products_leave_out_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With large features even variances of 1e-13 count, whatever the number of vectors and of tokens."""
    head = Head(4, LABELS, HeadOptions(constrained=True))
    rows = random_rows()
    rows = Rows(rows.features + 300.0, rows.labels, rows.lengths)
    theta = torch.zeros(head.num_parameters, dtype=torch.float64)
    head.double().unflatten(theta)["weight"][0, -1] = 30.0  # the first label is certain: p of another is 1e-13
    objective = Objective(head, rows, l2=1e-8)
    vectors = torch.randn(40, head.num_parameters, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = HessianProduct(objective, theta)(vectors)
    monkeypatch.setattr(product_module, "SMALL", 0)  # as for large data
    found = HessianProduct(objective, theta)(vectors)
    error = (found - expected).norm(dim=1) / expected.norm(dim=1)
    assert float(error.max()) < 1e-5
    assert float((found - objective.l2 * vectors).norm()) > 0.1 * float(found.norm())  # what is left out would matter
