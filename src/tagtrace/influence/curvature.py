"""The curvature of an index by name, ready to solve with."""

from __future__ import annotations

from typing import Literal, get_args

from tagtrace._checks import OptionError
from tagtrace.influence.operators import Hessian, Identity, Kronecker
from tagtrace.influence.solvers import Cholesky, ConjugateGradient, Direct, Solver
from tagtrace.tagger.head import Head
from tagtrace.tagger.objective import Objective
from tagtrace.tagger.rows import Rows

Curvature = Literal["auto", "identity", "kronecker", "dense", "cg"]

MAX_DENSE = 8_000
"""``auto`` factors the dense Hessian of heads with at most this many parameters, and uses conjugate gradients above."""


def make_solver(curvature: Curvature, head: Head, rows: Rows, l2: float, damping: float = 0.0) -> Solver:
    """A solver for K + damping I: ``identity``, ``kronecker``, the exact Hessian ``dense`` or by ``cg``."""
    if curvature not in get_args(Curvature):
        raise OptionError(f"curvature {curvature!r}: expected one of {', '.join(get_args(Curvature))}")
    if curvature == "identity":
        return Direct(Identity(head.num_parameters, damping, head.weight.device))
    is_dense = curvature == "dense" or (curvature == "auto" and head.num_parameters <= MAX_DENSE)
    product = Objective(head, rows, l2).hessian(head.flat())
    if curvature == "kronecker":
        return Direct(Kronecker(product, damping))
    hessian = Hessian(product, damping)
    if is_dense:
        return Cholesky(hessian)
    return ConjugateGradient(hessian, Kronecker(product, damping).inverse, tolerance=1e-6)
