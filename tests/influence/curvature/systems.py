"""Right-hand sides for the curvature of an index, and their solutions by a dense solve."""

from __future__ import annotations

import torch
from torch import Tensor

from tagtrace.index import Index
from tagtrace.influence.curvature.hessian import dense_hessian
from tagtrace.tagger.objective import Objective

HESSIANS: dict[str, Tensor] = {}


def hessian(index: Index) -> Tensor:
    key = index.manifest.head_file.sha256
    if key not in HESSIANS:
        objective = Objective(index.head, index.rows(torch.float32), index.manifest.fit.l2)
        HESSIANS[key] = dense_hessian(objective.hessian(index.head.flat()))
    return HESSIANS[key]


def right_of(index: Index) -> Tensor:
    return torch.randn(3, index.head.num_parameters, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def expected(index: Index, damping: float = 0.0) -> Tensor:
    matrix = hessian(index).clone()
    matrix.diagonal().add_(damping)
    return torch.linalg.solve(matrix, right_of(index).T).T
