"""Batched L-BFGS against closed forms, and each problem against itself alone."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from tagtrace.influence.edits.lbfgs import minimise


def random_problem(seed: int, size: int) -> tuple[Tensor, Tensor]:
    """A (size, size), the identity plus something of low rank, and b (size,)."""
    generator = torch.Generator().manual_seed(seed)
    low = torch.randn(size, 3, generator=generator, dtype=torch.float64)
    return torch.eye(size, dtype=torch.float64) + low @ low.T, torch.randn(
        size, generator=generator, dtype=torch.float64
    )


def test_quadratics_are_solved_exactly() -> None:
    problems = [random_problem(seed, 12) for seed in range(5)]
    matrices, right = (torch.stack(part) for part in zip(*problems, strict=True))

    def quadratic(x: Tensor) -> tuple[Tensor, Tensor]:
        bent = (matrices @ x.unsqueeze(2)).squeeze(2)
        return 0.5 * (x * bent).sum(1) - (right * x).sum(1), bent - right

    found = minimise(quadratic, torch.zeros(5, 12, dtype=torch.float64), 1e-10)
    expected = torch.linalg.solve(matrices, right)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def valley(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rosenbrock's: not convex, minimum 0 at (1, 1)."""
    bend, along = x[:, 1] - x[:, 0] ** 2, 1 - x[:, 0]
    gradient = torch.stack([-400 * x[:, 0] * bend - 2 * along, 200 * bend], 1)
    return 100 * bend**2 + along**2, gradient


def test_steps_only_go_downhill_and_problems_do_not_disturb_each_other() -> None:
    starts = torch.tensor([[-1.2, 1.0], [1.0, 1.0], [3.0, -4.0], [0.0, 0.0]], dtype=torch.float64)
    seen: list[Tensor] = []
    for num_steps in range(12):
        seen.append(valley(minimise(valley, starts, 1e-10, num_steps))[0])
    assert all(bool((after <= before + 1e-12).all()) for before, after in pairwise(seen))
    together = minimise(valley, starts, 1e-10)
    torch.testing.assert_close(together, torch.ones_like(together), rtol=0, atol=1e-8)
    for start, where in zip(starts, together, strict=True):
        torch.testing.assert_close(minimise(valley, start.unsqueeze(0), 1e-10)[0], where, rtol=0, atol=1e-7)
