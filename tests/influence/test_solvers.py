"""Each solver on each operator against a dense solve, and solves that should fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tagtrace._checks import OptionError
from tagtrace.influence.curvature import balanced
from tagtrace.influence.operators import Hessian, Identity, Kronecker, Operator
from tagtrace.influence.solvers import Balanced, Cholesky, ConjugateGradient, Direct, SolveError, Solver
from tagtrace.tagger import Head, HeadOptions
from tagtrace.tagger import preconditioner as preconditioner_module
from tagtrace.tagger.objective import HessianProduct, Objective
from tagtrace.tagger.preconditioner import TokenPreconditioner
from tagtrace.tagger.rows import unpad_rows
from tagtrace.tagger.tagger import Progress
from tests.strategies import HEADS, LABELS, random_rows, random_theta

OPERATORS: dict[str, Callable[..., Operator]] = {
    "identity": lambda product, damping: Identity(product.head.num_parameters, damping),
    "hessian": Hessian,
    "kronecker": Kronecker,
}
SOLVERS: dict[str, Callable[..., Solver]] = {
    "cholesky": Cholesky,
    "cg": lambda operator: ConjugateGradient(operator, tolerance=1e-11),
    "balanced cg": lambda operator: ConjugateGradient(
        operator,
        balanced(operator) if isinstance(operator, Hessian) else Balanced(operator, torch.clone, torch.arange(3)),
        tolerance=1e-11,
    ),
    "direct": Direct,
}


def product_of(options: HeadOptions) -> HessianProduct:
    head = Head(4, LABELS, options)
    return Objective(head, random_rows(), l2=0.7).hessian(random_theta(head))


def operator(name: str, options: HeadOptions, damping: float) -> Operator:
    return OPERATORS[name](product_of(options), damping)


def token_preconditioner(product: HessianProduct, damping: float) -> TokenPreconditioner:
    objective = product.objective
    return TokenPreconditioner(product.head, objective.chunks, product.runs, objective.l2 + damping)


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("kind", OPERATORS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers_agree_with_a_dense_solve(solver: str, kind: str, damping: float, options: HeadOptions) -> None:
    if solver == "direct" and kind == "hessian":
        return
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
        torch.testing.assert_close(plain, plain.T, rtol=0, atol=1e-12)
        assert float(torch.linalg.eigvalsh(plain).min()) > 0
        torch.testing.assert_close(damped, plain + 0.5 * torch.eye(len(plain)).double(), rtol=0, atol=1e-12)


def test_kronecker_is_nearer_to_the_hessian_than_the_identity() -> None:
    hessian, kronecker = (operator(name, HeadOptions(), 0.0).dense() for name in ("hessian", "kronecker"))
    assert (kronecker - hessian).norm() < 0.75 * (torch.eye(len(hessian)) - hessian).norm()


def test_preconditioning_saves_steps_and_changes_nothing() -> None:
    head = Head(6, LABELS)
    rows = random_rows(1, (30, 20, 40, 10), 6)
    rows.features[:, 0] *= 100.0  # badly scaled on purpose
    product = Objective(head, rows, l2=0.1).hessian(0.01 * random_theta(head))
    system, kronecker = Hessian(product), Kronecker(product)
    right = torch.randn(2, system.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    plain = ConjugateGradient(system).solve(right)
    helped = ConjugateGradient(system, kronecker.inverse).solve(right)
    assert helped.num_steps < plain.num_steps
    torch.testing.assert_close(helped.value, plain.value, rtol=1e-5, atol=1e-8)


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
    with pytest.raises(SolveError, match="add damping"):
        solver.solve(right)


def test_an_indefinite_operator_is_refused() -> None:
    class Indefinite(Identity):
        def dense(self, progress: Progress | None = None) -> torch.Tensor:  # noqa: ARG002
            return torch.diag(torch.tensor([1.0, -1.0], dtype=torch.float64))

    with pytest.raises(SolveError, match="positive definite"):
        Cholesky(Indefinite(2))
    with pytest.raises(OptionError, match="damping"):
        Identity(2, damping=-1.0)


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_the_token_preconditioner_inverts_the_sum_over_single_tokens(options: HeadOptions, damping: float) -> None:
    product = product_of(options)
    objective, num_weights = product.objective, product.head.weight.numel()
    expected = torch.zeros(num_weights, num_weights, dtype=torch.float64)
    for chunk, chains in zip(objective.chunks, product.runs, strict=True):
        for p, features in zip(unpad_rows(chains.nodes(), chunk.lengths), chunk.features.double(), strict=True):
            f = torch.cat([features, features.new_ones(1)])
            expected += torch.kron(torch.diag(p) - torch.outer(p, p), torch.outer(f, f)) / objective.num_chains
    expected += (objective.l2 + damping) * torch.eye(num_weights, dtype=torch.float64)
    eye = torch.eye(product.head.num_parameters, dtype=torch.float64)
    precondition = token_preconditioner(product, damping)
    found = precondition(eye)
    torch.testing.assert_close(found[:num_weights, :num_weights] @ expected, eye[:num_weights, :num_weights])
    assert not found[:num_weights, num_weights:].any()
    torch.testing.assert_close(precondition(eye[1]), found[1])


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize("max_full", [0, 10_000])
def test_preconditioners_are_symmetric_positive_definite(
    options: HeadOptions, max_full: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preconditioner_module, "MAX_FULL", max_full)
    product = product_of(options)
    eye = torch.eye(product.head.num_parameters, dtype=torch.float64)
    for precondition in (token_preconditioner(product, 0.1), balanced(Hessian(product, 0.1))):
        matrix = precondition(eye)
        torch.testing.assert_close(matrix, matrix.T, rtol=0, atol=1e-10)
        assert float(torch.linalg.eigvalsh(matrix).min()) > 0


@pytest.mark.parametrize("options", HEADS)
def test_balanced_is_exact_in_its_coordinates(options: HeadOptions) -> None:
    hessian = Hessian(product_of(options), 0.1)
    precondition = balanced(hessian)
    C, D = hessian.product.head.weight.shape
    assert sorted(precondition.coordinates.tolist()) == [*range(D - 1, C * D, D), *range(C * D, hessian.size)]
    units = torch.eye(hessian.size, dtype=torch.float64)[precondition.coordinates]
    torch.testing.assert_close(precondition(hessian(units)), units, rtol=0, atol=1e-9)


def test_balancing_saves_steps_where_labels_hang_together() -> None:
    head = Head(6, LABELS)
    product = Objective(head, random_rows(1, (30, 20, 40, 10), 6), l2=0.01).hessian(0.3 * random_theta(head))
    system = Hessian(product)
    right = torch.randn(2, system.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    steps = [
        ConjugateGradient(system, precondition).solve(right).num_steps
        for precondition in (balanced(system), token_preconditioner(product, 0.0), Kronecker(product).inverse)
    ]
    assert steps[0] < 0.7 * min(steps[1:])


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
