"""Block conjugate gradients: many right-hand sides that share their search directions.

All right-hand sides are minimised over the span of all directions so far (O'Leary 1980), so that with many of them far
fewer products are needed than one by one. The directions of a step are orthonormalised first, which keeps the small
systems well conditioned even if right-hand sides depend on each other (Dubrulle 2001).

Products may be approximate, in float32 and without tokens whose labels are certain: ``solve_refined`` computes the true
residual by exact products and solves for it again, until it is small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

LinearMap = Callable[[Tensor], Tensor]
"""(Q, P) -> (Q, P): a symmetric positive definite matrix times each row."""

PATIENCE = 25
"""Number of steps without progress after which rounding is assumed to be the limit."""
MAX_ROUNDS = 8
"""Maximum number of times that a residual is solved for again."""
USEFUL = 0.25
"""Approximate products are given up if with them a residual only falls to this share of what it was."""
SURE = 0.5
"""The last step, x + M r, needs no product if it is expected to reach this share of the tolerance."""
LOOSE = 1e-3
"""Smallest share of a residual that approximate products can be relied on for."""


@dataclass(frozen=True)
class Solved:
    """x (Q, P) for K x = b, the residuals |K x - b| / |b| (Q,), and the number of steps."""

    value: Tensor
    residual: Tensor
    num_steps: int


@torch.no_grad()
def block_cg(
    product: LinearMap,
    precondition: LinearMap,
    right: Tensor,
    tolerance: float,
    max_steps: int = 500,
    *,
    is_checked: bool = False,
) -> Solved:
    """x (Q, P) with |K x - b| <= tolerance |b| for each row b, or as near as rounding or ``max_steps`` allow.

    If the result ``is_checked``, the last step may be one without a product, and the residual what is expected after
    it: that may be wrong, because what is left lies where the preconditioner is worst.
    """
    value, residual = torch.zeros_like(right), right.clone()  # (Q, P)
    size = right.norm(dim=1).clamp(min=1e-300)
    relative = residual.norm(dim=1) / size
    live = (relative > tolerance).nonzero().squeeze(1)
    direction = ahead = precondition(residual[live])
    worst, best, waited, num_steps, error = 1.0, float("inf"), 0, 0, float("inf")
    while len(live) and num_steps < max_steps and waited < PATIENCE:
        direction = torch.linalg.qr(direction.T)[0].T.contiguous()  # (L, P)
        image = product(direction)
        factor = _factor(direction @ image.T)
        if factor is None:  # rounding has made the products indefinite
            break
        rate = torch.cholesky_solve(direction @ residual[live].T, factor).T  # (live, L)
        step = rate @ direction
        value[live] += step
        residual[live] -= rate @ image
        if num_steps == 0:  # how far the preconditioner is from an inverse
            error = float(((step - ahead).norm(dim=1) / step.norm(dim=1).clamp(min=1e-300)).max())
        num_steps += 1
        relative[live] = residual[live].norm(dim=1) / size[live]
        before, worst = worst, float(relative.max())
        rate_of_step = max(worst / before, error)
        if is_checked and tolerance < worst and worst * rate_of_step <= SURE * tolerance:
            return Solved(value + precondition(residual), relative * rate_of_step, num_steps)
        best, waited = (worst, 0) if worst < 0.9 * best else (best, waited + 1)
        live = live[relative[live] > tolerance]
        if len(live):
            ahead = precondition(residual[live])
            direction = ahead - torch.cholesky_solve(image @ ahead.T, factor).T @ direction
    return Solved(value, relative, num_steps)


@torch.no_grad()
def solve_refined(
    exact: LinearMap,
    fast: LinearMap,
    precondition: LinearMap,
    right: Tensor,
    tolerance: float,
    max_steps: int = 500,
    start: Tensor | None = None,
    estimate: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Solved:
    """The same by ``fast`` products, with the residual computed by ``exact`` ones, which take over if ``fast`` fail.

    ``start`` (Q, P) is a first guess. ``estimate`` gives |K x - b| / |b| of x and b (q, P) without products: a row that
    is said to be small enough is not computed.
    """
    value, num_steps = torch.zeros_like(right) if start is None else start.clone(), 0
    residual = right if start is None else right - exact(start)
    size = right.norm(dim=1).clamp(min=1e-300)
    relative, is_hopeful = residual.norm(dim=1) / size, True
    for _ in range(MAX_ROUNDS):
        live = (relative > tolerance).nonzero().squeeze(1)
        if len(live) == 0 or num_steps >= max_steps:
            break
        goal = max(0.5 * tolerance / float(relative.max()), LOOSE)
        found = block_cg(fast, precondition, residual[live], goal, max_steps - num_steps, is_checked=is_hopeful)
        num_steps += found.num_steps
        tried = value[live] + found.value
        if estimate is not None and float((found.residual * relative[live]).max()) <= tolerance:
            seen = estimate(tried, right[live])
            bad = ~(seen <= tolerance)
            good = live[~bad]
            value[good], relative[good] = tried[~bad], seen[~bad]
            live, tried = live[bad], tried[bad]
            if len(live) == 0:
                break
        left = right[live] - exact(tried)
        is_hopeful = False  # from here on, every step is seen
        now = left.norm(dim=1) / size[live]
        better = now < relative[live]
        if not bool(better.any()) and fast is exact:
            break
        if bool((now > USEFUL * relative[live]).any()):
            fast = exact
        if not bool(better.any()):
            continue
        chosen = live[better]
        residual = residual.clone()
        value[chosen], residual[chosen] = tried[better], left[better]
        relative[chosen] = residual[chosen].norm(dim=1) / size[chosen]
    return Solved(value, relative, num_steps)


def _factor(gram: Tensor) -> Tensor | None:
    """The Cholesky factor of a (L, L) system, with a little more on its diagonal if needed; None if that fails."""
    gram = 0.5 * (gram + gram.T)
    largest = float(gram.diagonal().max())
    for more in (0.0, 1e-14, 1e-11, 1e-8):
        factor, failed = torch.linalg.cholesky_ex(gram + more * largest * torch.eye(len(gram)).to(gram))
        if int(failed) == 0:
            return factor
    return None
