"""Block conjugate gradients against dense solves."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tagtrace.tagger.convex.block_cg import LinearMap, block_cg, solve_refined


def system(size: int = 60, condition: float = 1e3) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    turn = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))[0]
    return turn @ torch.diag(torch.logspace(0, torch.tensor(condition).log10().item(), size).double()) @ turn.T


def nearly_inverse(matrix: Tensor) -> Tensor:
    """Right to 0.3 % in every direction."""
    values, turn = torch.linalg.eigh(matrix)
    return turn @ torch.diag((1.0 + 3e-3 * torch.arange(len(values)).sin()) / values) @ turn.T


def rights(count: int, size: int = 60) -> Tensor:
    return torch.randn(count, size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_many_right_hand_sides_need_fewer_steps_than_one() -> None:
    matrix, right = system(), rights(12)
    together = block_cg(lambda v: v @ matrix, torch.clone, right, 1e-10)
    alone = [block_cg(lambda v: v @ matrix, torch.clone, one.unsqueeze(0), 1e-10) for one in right]
    torch.testing.assert_close(together.value, torch.linalg.solve(matrix, right.T).T, rtol=0, atol=1e-8)
    torch.testing.assert_close(torch.cat([one.value for one in alone]), together.value, rtol=0, atol=1e-8)
    assert together.num_steps < 0.5 * min(one.num_steps for one in alone)


def test_right_hand_sides_that_depend_on_each_other_and_zeros_are_solved() -> None:
    matrix, right = system(condition=50.0), rights(3)
    right = torch.cat([right, right[:1] + right[1:2], torch.zeros(1, 60, dtype=torch.float64), 1e9 * right[2:]])
    found = block_cg(lambda v: v @ matrix, torch.clone, right, 1e-10)
    expected = torch.linalg.solve(matrix, right.T).T
    torch.testing.assert_close(found.value, expected, rtol=1e-7, atol=1e-7)
    assert float(found.residual.max()) <= 1e-10
    assert not found.value[4].any()


def test_rough_products_are_refined_by_exact_ones() -> None:
    matrix, right = system(), rights(5)
    rough = matrix + 1e-3 * system(condition=10.0)

    def coarse(vectors: Tensor) -> Tensor:
        return (vectors.float() @ rough.float()).double()

    plain = block_cg(coarse, torch.clone, right, 1e-9)
    true = (plain.value @ matrix - right).norm(dim=1) / right.norm(dim=1)
    assert float(true.max()) > 1e-4, "these products alone are not enough"
    found = solve_refined(lambda v: v @ matrix, coarse, torch.clone, right, 1e-9)
    residual = (found.value @ matrix - right).norm(dim=1) / right.norm(dim=1)
    assert float(residual.max()) <= 1e-9
    torch.testing.assert_close(found.residual, residual, rtol=0.5, atol=1e-12)


def test_products_that_are_wrong_in_one_direction_are_given_up() -> None:
    """Each round with them would only halve what is left there."""
    matrix, right = system(), rights(5)
    turn = torch.linalg.eigh(matrix)[1][:, :1]
    wrong, counts = matrix + turn @ turn.T, {"fast": 0, "exact": 0}  # twice the smallest eigenvalue

    def counted(name: str, used: Tensor) -> LinearMap:
        def product(vectors: Tensor) -> Tensor:
            counts[name] += 1
            return vectors @ used

        return product

    precondition = torch.linalg.inv(matrix).matmul
    found = solve_refined(counted("exact", matrix), counted("fast", wrong), lambda v: precondition(v.T).T, right, 1e-8)
    assert float(found.residual.max()) <= 1e-8
    assert counts["exact"] <= 6


def test_useless_products_are_replaced_by_exact_ones() -> None:
    matrix, right = system(condition=30.0), rights(2)
    found = solve_refined(lambda v: v @ matrix, lambda v: -v, torch.clone, right, 1e-9)
    assert float(found.residual.max()) <= 1e-9


def test_a_budget_of_steps_ends_a_solve_honestly() -> None:
    matrix, right = system(condition=1e6), rights(1)
    found = solve_refined(lambda v: v @ matrix, lambda v: v @ matrix, torch.clone, right, 1e-9, max_steps=5)
    true = (found.value @ matrix - right).norm(dim=1) / right.norm(dim=1)
    assert found.num_steps <= 5
    assert float(true.max()) > 1e-9
    torch.testing.assert_close(found.residual, true)


def test_a_start_is_used() -> None:
    matrix, right = system(), rights(2)
    answer = torch.linalg.solve(matrix, right.T).T
    found = solve_refined(lambda v: v @ matrix, lambda v: v @ matrix, torch.clone, right, 1e-6, start=answer)
    assert found.num_steps == 0


@pytest.mark.parametrize("scale", [1.0, 2.0, -1.0])
def test_the_last_step_needs_no_product_if_the_preconditioner_is_an_inverse(scale: float) -> None:
    """Twice the inverse is as good a preconditioner, but x + M r would be wrong by as much as x."""
    matrix, right, counts = system(), rights(5), [0]
    inverse = scale * nearly_inverse(matrix)

    def product(vectors: Tensor) -> Tensor:
        counts[0] += 1
        return vectors @ matrix

    found = block_cg(product, lambda v: v @ inverse, right, 1e-4, is_checked=True)
    true = (found.value @ matrix - right).norm(dim=1) / right.norm(dim=1)
    assert float(true.max()) <= 1e-4
    assert counts[0] == found.num_steps
    if scale == 1.0:
        fewer = counts[0]
        block_cg(product, lambda v: v @ inverse, right, 1e-4)
        assert counts[0] == 2 * fewer + 1, "nor if nobody checks the result"


def test_an_inverse_that_is_wrong_in_one_direction_is_found_out() -> None:
    """What is left after the first step lies where M is wrong: a step without a product would make it worse."""
    right = torch.ones(1, 6001, dtype=torch.float64)
    scale = torch.ones(6001, dtype=torch.float64)
    scale[0] = 5.0
    exact, precondition = torch.clone, scale.mul
    blind = block_cg(exact, precondition, right, 1e-2, is_checked=True)
    assert float((blind.value - right).norm() / right.norm()) > 0.1 > float(blind.residual)
    seen = block_cg(exact, precondition, right, 1e-2)
    assert float((seen.value - right).norm() / right.norm()) <= 1e-2
    found = solve_refined(exact, exact, precondition, right, 1e-6)
    assert float((found.value - right).norm() / right.norm()) <= 1e-6


def test_residuals_that_are_estimated_as_small_are_not_computed() -> None:
    matrix, right, computed = system(), rights(40), list[int]()
    inverse = nearly_inverse(matrix)

    def exact(vectors: Tensor) -> Tensor:
        computed.append(len(vectors))
        return vectors @ matrix

    def estimate(value: Tensor, goal: Tensor) -> Tensor:
        true = (value @ matrix - goal).norm(dim=1) / goal.norm(dim=1)
        return torch.where(torch.arange(len(true)) < 3, 1.0, true)  # it doubts the first three

    arguments = (lambda v: v @ matrix, lambda v: v @ inverse, right, 1e-4)
    found = solve_refined(exact, *arguments, estimate=estimate)
    assert computed == [3]
    true = (found.value @ matrix - right).norm(dim=1) / right.norm(dim=1)
    torch.testing.assert_close(found.residual, true)
    assert float(true.max()) <= 1e-4
    computed.clear()
    assert float(solve_refined(exact, *arguments).residual.max()) <= 1e-4
    assert computed == [40]
