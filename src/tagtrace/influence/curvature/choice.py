"""The curvature of an index by name, ready to solve with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from tagtrace._progress import Progress
from tagtrace.index import Index
from tagtrace.influence.curvature.inverse_file import load_inverse, save_inverse
from tagtrace.influence.curvature.operators import Hessian, Identity, Kronecker
from tagtrace.influence.curvature.solvers import Balanced, Cholesky, ConjugateGradient, Direct, Solver
from tagtrace.influence.options import check_choice
from tagtrace.tagger.head import Head
from tagtrace.tagger.objective import HessianProduct, Objective
from tagtrace.tagger.preconditioner import TokenPreconditioner
from tagtrace.tagger.rows import Rows

Curvature = Literal["auto", "identity", "kronecker", "dense", "cg"]

MAX_DENSE = 8_000
"""``auto`` inverts the dense Hessian of heads with at most this many parameters, and uses conjugate gradients above."""

PRODUCT_TOKENS = 2**12
"""Tokens in one Hessian product on the CPU: with many right-hand sides, more do not fit its caches."""

MAX_BALANCED = 256
"""Maximum number of biases and transitions that the preconditioner of ``cg`` takes exactly: the most expected ones."""


def make_solver(
    curvature: Curvature,
    head: Head,
    rows: Rows,
    l2: float,
    damping: float = 0.0,
    progress: Progress | None = None,
) -> Solver:
    """A solver for K + damping I: ``identity``, ``kronecker``, the exact Hessian ``dense`` or by ``cg``.

    ``progress`` counts the sentences that have gone into the dense Hessian.
    """
    kind = resolve_curvature(curvature, head)
    if kind == "identity":
        return Direct(Identity(head.num_parameters, damping, head.weight.device))
    hessian = exact_hessian(head, rows, l2, damping)
    if kind == "kronecker":
        return Direct(Kronecker(hessian.product, damping))
    if kind == "dense":
        return Cholesky(hessian, progress)
    return ConjugateGradient(hessian, balanced(hessian), tolerance=1e-6)


def index_solver(
    index: Index,
    curvature: Curvature = "auto",
    damping: float = 0.0,
    *,
    rows: Callable[[], Rows] | None = None,
    progress: Progress | None = None,
) -> Solver:
    """As ``make_solver`` for the head and features of an index; the dense Hessian's inverse is stored in its folder.

    ``rows`` returns the index's rows if the caller has them in memory; it is called only if they are needed.
    """
    kind, head, l2 = resolve_curvature(curvature, index.head), index.head, index.manifest.fit.l2
    if kind == "dense":
        return exact_solver(index, damping, rows=rows, progress=progress)
    if kind == "identity":
        return Direct(Identity(head.num_parameters, damping, head.weight.device))
    return make_solver(kind, head, rows() if rows else index.rows(torch.float32), l2, damping)


def exact_solver(
    index: Index,
    damping: float = 0.0,
    *,
    rows: Callable[[], Rows] | None = None,
    progress: Progress | None = None,
) -> Cholesky:
    """The inverted Hessian of an index: the one stored in its folder, or a new one, which is then stored there."""
    found = load_inverse(index, damping)
    if found is not None:
        return found
    features = rows() if rows else index.rows(torch.float32)
    solver = Cholesky(exact_hessian(index.head, features, index.manifest.fit.l2, damping), progress)
    save_inverse(index, damping, solver)
    return solver


def exact_hessian(head: Head, rows: Rows, l2: float, damping: float = 0.0) -> Hessian:
    """H + damping I at ``head``, by products."""
    objective = Objective(head, rows, l2)
    if not rows.features.is_cuda:
        objective.chunks = [part for chunk in objective.chunks for part in chunk.chunks(PRODUCT_TOKENS)]
    return Hessian(objective.hessian(head.flat()), damping)


def balanced(hessian: Hessian) -> Balanced:
    """The preconditioner of ``cg``: tokens taken alone, with biases and transitions exact."""
    product = hessian.product
    objective, runs = product.objective, product.runs
    tokens = TokenPreconditioner(product.head, objective.chunks, runs, objective.l2 + hessian.damping)
    return Balanced(hessian, tokens, _balanced_coordinates(product, tokens.edges))


def _balanced_coordinates(product: HessianProduct, edges: Tensor) -> Tensor:
    """The places in theta of the biases, and of the transitions, start and end scores that are expected most often."""
    head = product.head
    C, D = head.weight.shape
    counts = {"transitions": edges, "start": edges.sum(1), "end": edges.sum(0)}
    expected = [counts[name].flatten() for name, _ in head.named_parameters() if name != "weight"]
    biases = torch.arange(C, device=edges.device) * D + D - 1
    if not expected:
        return biases
    others = torch.cat(expected)
    most = others.topk(min(max(MAX_BALANCED - C, 0), len(others))).indices
    return torch.cat([biases, C * D + most])


def resolve_curvature(curvature: Curvature, head: Head) -> Curvature:
    """The curvature itself, or what ``auto`` means for this head."""
    check_choice("curvature", curvature, Curvature)
    if curvature != "auto":
        return curvature
    return "dense" if head.num_parameters <= MAX_DENSE else "cg"
