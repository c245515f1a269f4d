"""Right-hand sides for the curvature of an index, and their solutions by a dense solve."""

from __future__ import annotations

import torch
from torch import Tensor

from tagtrace.index import Index
from tagtrace.influence.curvature.choice import index_solver
from tagtrace.influence.curvature.solvers import Cholesky
from tagtrace.tagger.convex.dense_hessian import dense_hessian
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.objective import Objective

HESSIANS: dict[str, Tensor] = {}


def hessian(index: Index) -> Tensor:
    key = index.manifest.head_file.sha256
    if key not in HESSIANS:
        objective = Objective(index.head, index.rows.joined(), index.manifest.fit.l2)
        HESSIANS[key] = dense_hessian(HessianProduct(objective, index.head.flat()))
    return HESSIANS[key]


def right_of(index: Index) -> Tensor:
    return torch.randn(3, index.head.num_parameters, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def expected(index: Index, damping: float = 0.0) -> Tensor:
    matrix = hessian(index).clone()
    matrix.diagonal().add_(damping)
    return torch.linalg.solve(matrix, right_of(index).T).T


def index_objective(index: Index) -> Objective:
    """J on the training data of an index."""
    return Objective(index.head, index.rows, index.manifest.fit.l2)


def exact_solver(index: Index, damping: float = 0.0) -> Cholesky:
    """The dense inverse of an index's Hessian: the stored one, or a new one, which is then stored."""
    found = index_solver(index, "dense", damping, lambda: index_objective(index))
    assert isinstance(found, Cholesky)
    return found
