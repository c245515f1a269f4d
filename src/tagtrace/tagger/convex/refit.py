"""Refit: solve the convex head exactly on frozen features.

Minimises J(theta) of ``objective`` in float64 to max |gradient| <= tolerance. ``l2`` is the strength against the
*sum* of losses (lambda = l2 / N), so it needs no change when the data grows. The theory of influence
functions is exact only at this optimum.

Method: Newton steps, each solved by preconditioned conjugate gradients on Hessian products in float32, which leave out
tokens whose labels are certain; gradients are exact, in float64. Unlike L-BFGS, whose line search compares objective
values, this reaches gradients of 1e-12.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from math import inf

import torch
from torch import Tensor

from tagtrace._checks import OptionError, TrainingError
from tagtrace._documents import recorded_path
from tagtrace._progress import Progress
from tagtrace.data.corpus import Corpus
from tagtrace.data.sentence import Sentence
from tagtrace.tagger.convex.block_cg import LinearMap, block_cg
from tagtrace.tagger.convex.coarse_inverse import MAX_MATRIX, CoarseInverse
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.objective import Evaluation, Objective
from tagtrace.tagger.convex.preconditioner import balanced_kronecker
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import RowParts, Rows
from tagtrace.tagger.tagger import Tagger


@dataclass(frozen=True)
class RefitOptions:
    """The strength of the L2 penalty, and when to stop."""

    l2: float = 1.0
    tolerance: float = 1e-6
    max_steps: int = 100

    def __post_init__(self) -> None:
        if not 0 < self.l2 < inf:
            raise OptionError(f"l2 {self.l2}: must be above 0, or the optimum may not exist, and finite")
        if not 0 < self.tolerance < inf or self.max_steps < 1:
            raise OptionError("tolerance must be above 0 and finite, and max_steps at least 1")

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Refitted:
    """The optimum, in float64, and how it was reached."""

    head: Head
    objective: float
    max_gradient: float
    num_steps: int


SLOW, SLOW_LARGE = 8, 20
"""After this many conjugate gradient steps a new preconditioner is worth its cost; the second if it is not a matrix."""
NEGLIGIBLE = 1e-5
"""Variances of labels that are left out of Hessian products: a step need not be exact, as its gradient is."""

RefitProgress = Callable[[int, float, float], None]
"""Called with (step, objective, max |gradient|)."""


def refit_head(
    head: Head,
    rows: Rows | RowParts,
    options: RefitOptions | None = None,
    progress: RefitProgress | None = None,
) -> Refitted:
    """The head at the optimum of J on ``rows``, starting from ``head``, which is not changed.

    Raises TrainingError if max |gradient| does not reach the tolerance.
    """
    options = options or RefitOptions()
    objective = Objective(head, rows, options.l2)
    now = objective.evaluate(objective.head.flat())
    if not now.is_scaled:  # a head with huge weights: its Hessian is useless, so start at zero
        now = objective.evaluate(torch.zeros_like(now.theta))
    newton, num_steps = _Newton(objective, options.tolerance), 0
    while now.max_gradient > options.tolerance:
        if num_steps == options.max_steps:
            raise TrainingError(
                f"refit stopped at max |gradient| {now.max_gradient:.1e} after {num_steps} steps (the tolerance is "
                f"{options.tolerance:.0e}); raise max_steps or l2"
            )
        now = newton.step(now)
        num_steps += 1
        if progress is not None:
            progress(num_steps, now.value, now.max_gradient)
    objective.head.set_flat(now.theta)
    return Refitted(deepcopy(objective.head), now.value, now.max_gradient, num_steps)


def refit_tagger(
    tagger: Tagger,
    data: Corpus | Sequence[Sentence],
    options: RefitOptions | None = None,
    *,
    encoding: Progress | None = None,
    progress: RefitProgress | None = None,
) -> Refitted:
    """Give ``tagger`` the head that is optimal for its frozen features of ``data``."""
    options = options or RefitOptions()
    if isinstance(data, Corpus):
        tagger.check_corpus(data)
        tagger.record["data"] = {"train": recorded_path(data.path), "fingerprint": data.fingerprint}
    rows = tagger.rows(data.sentences if isinstance(data, Corpus) else data, progress=encoding)
    result = refit_head(tagger.head, rows.to(tagger.device), options, progress)
    tagger.head, tagger.folder = result.head, None  # what was saved is another tagger
    tagger.is_fitted = True
    tagger.record["refit"] = {
        "options": options.to_json(),
        "objective": result.objective,
        "max_gradient": result.max_gradient,
        "num_steps": result.num_steps,
        "num_sentences": len(rows.lengths),
    }
    return result


class _Newton:
    """Truncated Newton steps with backtracking; the preconditioner is renewed only when it gets slow."""

    def __init__(self, objective: Objective, tolerance: float) -> None:
        self.objective, self.tolerance = objective, tolerance
        self.precondition: LinearMap | None = None
        self.num_slow = 0

    def step(self, now: Evaluation) -> Evaluation:
        is_cuda = now.theta.is_cuda  # where exact products are fast
        product = (
            HessianProduct(self.objective, now)
            if is_cuda
            else HessianProduct(self.objective, now, torch.float32, NEGLIGIBLE)
        )
        if self.precondition is None:
            self.precondition = self._preconditioner(product)
        norm = float(now.gradient.norm())
        # Solve loosely while far from the optimum, tightly near it; never below what the tolerance needs.
        accuracy = max(min(0.1, norm**0.5), 0.1 * self.tolerance / norm)
        found = block_cg(product, self.precondition, -now.gradient.unsqueeze(0), accuracy)
        if found.num_steps > (SLOW if product.head.num_parameters <= MAX_MATRIX else SLOW_LARGE):
            self.precondition, self.num_slow = None, self.num_slow + 1
        if float(found.residual.max()) > 0.5:  # float32 is too coarse for these features
            product = HessianProduct(self.objective, now)
            found = block_cg(product, balanced_kronecker(product), -now.gradient.unsqueeze(0), accuracy)
        return self._backtrack(now, found.value[0])

    def _preconditioner(self, product: HessianProduct) -> LinearMap:
        """Kronecker factors; once these have proved slow, the inverse of a matrix if it is not too large."""
        if self.num_slow and product.head.num_parameters <= MAX_MATRIX:
            try:
                return CoarseInverse(product)
            except ValueError:  # it left out too much
                pass
        return balanced_kronecker(product)

    def _backtrack(self, now: Evaluation, step: Tensor) -> Evaluation:
        """The first point on the way to now + step that lowers the objective enough."""
        slope = float(step @ now.gradient)
        noise = 1e-13 * abs(now.value)
        for halvings in range(40):
            new = self.objective.evaluate(now.theta + step * 0.5**halvings)
            if new.is_scaled and new.value <= now.value + 1e-4 * 0.5**halvings * slope + noise:
                return new
        raise TrainingError(
            f"refit cannot lower the objective at max |gradient| {now.max_gradient:.1e}; "
            "raise the tolerance or l2, or scale the features"
        )
