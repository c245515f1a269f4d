"""Each solver on each operator against a dense solve, and solves that should fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tagtrace._checks import OptionError
from tagtrace.influence.operators import Hessian, Identity, Kronecker, Operator
from tagtrace.influence.solvers import Cholesky, ConjugateGradient, Direct, SolveError, Solver
from tagtrace.tagger import Head, HeadOptions
from tagtrace.tagger.objective import Objective
from tests.strategies import HEADS, LABELS, random_rows, random_theta

OPERATORS: dict[str, Callable[..., Operator]] = {
    "identity": lambda product, damping: Identity(product.head.num_parameters, damping),
    "hessian": Hessian,
    "kronecker": Kronecker,
}
SOLVERS: dict[str, Callable[..., Solver]] = {
    "cholesky": Cholesky,
    "cg": lambda operator: ConjugateGradient(operator, tolerance=1e-11),
    "direct": Direct,
}


def operator(name: str, options: HeadOptions, damping: float) -> Operator:
    head = Head(4, LABELS, options)
    product = Objective(head, random_rows(), l2=0.7).hessian(random_theta(head))
    return OPERATORS[name](product, damping)


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
        def dense(self) -> torch.Tensor:
            return torch.diag(torch.tensor([1.0, -1.0], dtype=torch.float64))

    with pytest.raises(SolveError, match="positive definite"):
        Cholesky(Indefinite(2))
    with pytest.raises(OptionError, match="damping"):
        Identity(2, damping=-1.0)
