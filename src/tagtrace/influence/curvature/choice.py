"""The curvature of a head by name, ready to solve with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from tagtrace._progress import Progress
from tagtrace.index import Index
from tagtrace.influence.curvature.inverse_file import load_inverse, save_inverse
from tagtrace.influence.curvature.operators import Hessian, Identity, Kronecker
from tagtrace.influence.curvature.solvers import Cholesky, ConjugateGradient, Direct, Solver
from tagtrace.influence.options import check_choice
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.objective import Objective
from tagtrace.tagger.head import Head

Curvature = Literal["auto", "identity", "kronecker", "dense", "cg"]

MAX_DENSE = 8_000
"""``auto`` inverts the dense Hessian of heads with at most this many parameters, and uses conjugate gradients above."""

TOLERANCE = 1e-4
"""Largest relative residual of ``cg``."""

MakeObjective = Callable[[], Objective]
"""Returns the objective on the training data when it is needed; its head's parameters are the optimum."""


def make_solver(
    curvature: Curvature, objective: Objective, head: Head, damping: float = 0.0, progress: Progress | None = None
) -> Solver:
    """A solver for K + damping I at ``head``: ``identity``, ``kronecker``, the exact Hessian ``dense`` or by ``cg``.

    ``progress`` counts the sentences that have gone into the dense Hessian.
    """
    kind = resolve_curvature(curvature, head)
    if kind == "identity":
        return Direct(Identity(head.num_parameters, damping, objective.device))
    hessian = Hessian(HessianProduct(objective, head.flat().to(objective.device)), damping)
    if kind == "kronecker":
        return Direct(Kronecker(hessian.product, damping))
    if kind == "dense":
        return Cholesky(hessian, progress)
    return ConjugateGradient(hessian, hessian.preconditioner, tolerance=TOLERANCE)


def index_solver(
    index: Index,
    curvature: Curvature,
    damping: float,
    objective: MakeObjective,
    progress: Progress | None = None,
) -> Solver:
    """As ``make_solver`` for the head of an index; the dense Hessian's inverse is stored in the index's folder.

    ``objective`` is called only if the training data are needed.
    """
    kind, head = resolve_curvature(curvature, index.head), index.head
    if kind == "dense":
        found = load_inverse(index, damping)
        if found is None:
            solver = make_solver("dense", objective(), head, damping, progress)
            assert isinstance(solver, Cholesky)
            save_inverse(index, damping, solver)
            found = solver
        return found
    if kind == "identity":
        return Direct(Identity(head.num_parameters, damping))
    return make_solver(kind, objective(), head, damping)


def resolve_curvature(curvature: Curvature, head: Head) -> Curvature:
    """The curvature itself, or what ``auto`` means for this head."""
    check_choice("curvature", curvature, Curvature)
    if curvature != "auto":
        return curvature
    return "dense" if head.num_parameters <= MAX_DENSE else "cg"
