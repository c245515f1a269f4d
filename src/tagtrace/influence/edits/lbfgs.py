"""L-BFGS on many small problems at once, each with its own steps, which only go downhill."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

MEMORY = 20
"""Number of steps remembered."""
HALVINGS = 40
"""Maximum number of halvings; a step that is still uphill is limited by rounding, and the problem is solved."""

Function = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Points (G, M) to values (G,) and gradients (G, M)."""


def minimise(function: Function, start: Tensor, tolerance: float, max_steps: int = 200) -> Tensor:
    """The minima of G functions, (G, M), from ``start``, to max |gradient| <= ``tolerance``."""
    here = _Points(start, *function(start))
    live = here.gradient.abs().amax(1) > tolerance  # (G,)
    memory: list[tuple[Tensor, Tensor, Tensor]] = []
    for _ in range(max_steps):
        if not bool(live.any()):
            break
        step = -two_loops(here.gradient, memory)
        is_down = (step * here.gradient).sum(1, keepdim=True) < 0
        there, took = _downhill(function, here, torch.where(is_down, step, -here.gradient), live)
        memory = [*memory[1 - MEMORY :], pair(there.where - here.where, there.gradient - here.gradient)]
        here, live = there, took & (there.gradient.abs().amax(1) > tolerance)
    return here.where


@dataclass(frozen=True)
class _Points:
    """Points (G, M), values (G,) and gradients (G, M)."""

    where: Tensor
    value: Tensor
    gradient: Tensor

    def replaced(self, chosen: Tensor, other: _Points) -> _Points:
        """These points, with the other's where ``chosen`` (G,) is True."""
        column = chosen.unsqueeze(1)
        return _Points(
            torch.where(column, other.where, self.where),
            torch.where(chosen, other.value, self.value),
            torch.where(column, other.gradient, self.gradient),
        )


def _downhill(function: Function, here: _Points, step: Tensor, live: Tensor) -> tuple[_Points, Tensor]:
    """Each live point moved along its step, halved until it leads down (Armijo's rule), and whether it moved, (G,)."""
    slope = (step * here.gradient).sum(1)  # (G,)
    rate, waiting, there = torch.ones_like(slope), live, here
    for _ in range(HALVINGS):
        where = here.where + (rate * waiting).unsqueeze(1) * step
        tried = _Points(where, *function(where))
        fine = waiting & (tried.value <= here.value + 1e-4 * rate * slope + 1e-14 * here.value.abs())
        there, waiting = there.replaced(fine, tried), waiting & ~fine
        if not bool(waiting.any()):
            break
        rate = torch.where(waiting, 0.5 * rate, rate)
    return there, live & ~waiting


def pair(step: Tensor, change: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """s, y and 1 / (s . y), which is zero, so that the step is ignored, if its curvature is not positive."""
    product = (step * change).sum(1)
    return step, change, torch.where(product > 1e-10 * (step * step).sum(1), 1.0 / product, 0.0)


def two_loops(
    gradient: Tensor,
    memory: Sequence[tuple[Tensor, Tensor, Tensor]],
    inverse: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """The inverse Hessian times gradients (G, M), from the remembered steps (``pair``) and a first guess ``inverse``.

    The guess is the identity by default: the Hessian of phi in ``refine`` is the identity plus a matrix of low rank.
    """
    rates = []
    for s, y, weight in reversed(memory):
        rates.append(weight * (s * gradient).sum(1))
        gradient = gradient - rates[-1].unsqueeze(1) * y
    direction = gradient if inverse is None else inverse(gradient)
    for (s, y, weight), rate in zip(memory, reversed(rates), strict=True):
        direction = direction + (rate - weight * (y * direction).sum(1)).unsqueeze(1) * s
    return direction
