"""The curvature of an index's head, computed and kept on one device."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from tagtrace.index import Index
from tagtrace.influence import Candidates, Explainer, find_candidates, self_influence
from tagtrace.influence.curvature.choice import Curvature, make_solver
from tagtrace.influence.curvature.solvers import Cholesky, Solver
from tagtrace.tagger import Head
from tagtrace.tagger.rows import RowParts


class DeviceCurvature:
    """Solves with K, the exact Hessian unless ``curvature`` says otherwise, and with its Kronecker factors.

    Vectors may be on any device and results are on ``device``; sizes are on the CPU.
    """

    index: Index
    device: torch.device
    head: Head
    rows: RowParts
    solver: Solver
    kronecker: Solver

    def __init__(self, index: Index, device: torch.device | None = None, curvature: Curvature = "auto") -> None:
        self.index, self.device = index, device or torch.device("cpu")
        explainer = Explainer(index, curvature, device=self.device)
        self.head, self.rows, self.solver = explainer.head, explainer.rows, explainer.solver
        self.kronecker = make_solver("kronecker", explainer.objective, explainer.head)

    @property
    def is_exact(self) -> bool:
        """Whether K is inverted, so that a solve for each of many candidates is cheap."""
        return isinstance(self.solver, Cholesky)

    def solve(self, vectors: Tensor, solver: Solver | None = None) -> Tensor:
        """K^-1 v for each row v of (Q, P)."""
        return (solver or self.solver).solve(vectors.to(self.device)).value

    def sizes(self, candidates: Candidates, solver: Solver | None = None) -> Tensor:
        """sqrt(g_k^T K^-1 g_k) for training candidates, (K,)."""
        return self_influence(self.head, self.rows, candidates, solver or self.solver).clamp(min=0.0).sqrt()

    @cached_property
    def rough_sizes(self) -> Tensor:
        """The same for every training token with the Kronecker factors, (N,)."""
        return self.sizes(find_candidates(self.index, "token"), self.kronecker)
