"""The inverse of a Hessian that is right to a percent or so: a preconditioner for up to ``MAX_MATRIX`` parameters.

Tokens whose labels are nearly certain are left out. Only the lower triangle is kept, in float32, as one panel of
columns for each label and one for the other parameters, and it is factored in place.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tagtrace.tagger.convex.dense_hessian import Precision, fill_weights, other_columns
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.memory import give_back

MAX_MATRIX = 12_000
"""Maximum number of parameters for which the matrix is worth its memory."""
CERTAIN, CERTAIN_ALONE = 1e-4, 1e-3
"""Tokens with 1 - sum_c p(c)^2 up to this are left out; the second if tokens do not depend on each other."""
NEGLIGIBLE = 0.1
"""Covariances up to this share of CERTAIN are left out."""
ROUNDING = 4.0 * torch.finfo(torch.float32).eps
"""Share of its largest element that is added to the diagonal: less is lost by rounding."""


class CoarseInverse:
    """(H + damping I)^-1, about, for the Hessian that ``product`` multiplies with."""

    panels: list[Tensor]
    """Each (rows from its own on, columns), float32: of L with L L^T about H + damping I, and above the diagonal of the
    first rows something without meaning."""

    @torch.no_grad()
    def __init__(self, product: HessianProduct, damping: float = 0.0) -> None:
        """Raises ValueError if the matrix is not positive definite."""
        head = product.head
        (C, D), P = head.weight.shape, head.num_parameters
        zeros = {"dtype": torch.float32, "device": head.weight.device}
        self.panels = [torch.zeros(P - c * D, D, **zeros) for c in range(C)]
        certain = CERTAIN_ALONE if head.options.kind == "softmax" else CERTAIN
        precision = Precision(NEGLIGIBLE * certain, torch.inf, certain)
        fill_weights(product, lambda c, k: self.panels[k][(c - k) * D : (c - k + 1) * D], precision)
        if C * D < P:
            rows = other_columns(HessianProduct(product.objective, product.where, torch.float32, certain)).float()
            for c, panel in enumerate(self.panels):
                panel[(C - c) * D :] = rows[:, c * D : (c + 1) * D]
            self.panels.append(rows[:, C * D :].contiguous())
        largest = max(float(panel.diagonal().max()) for panel in self.panels)
        for panel in self.panels:
            panel.diagonal().add_(damping + ROUNDING * largest)
        factor_in_place(self.panels)
        give_back()

    @torch.no_grad()
    def __call__(self, vectors: Tensor) -> Tensor:
        """The inverse times each row of (Q, P)."""
        found = vectors.T.to(self.panels[0], copy=True).contiguous()  # (P, Q)
        parts = found.split([panel.shape[1] for panel in self.panels])
        start = 0
        for panel, part in zip(self.panels, parts, strict=True):
            size, start = panel.shape[1], start + panel.shape[1]
            part.copy_(torch.linalg.solve_triangular(panel[:size], part, upper=False))
            found[start:].addmm_(panel[size:], part, alpha=-1.0)
        for panel, part in zip(reversed(self.panels), reversed(parts), strict=True):
            size = panel.shape[1]
            part.addmm_(panel[size:].T, found[start:], alpha=-1.0)
            part.copy_(torch.linalg.solve_triangular(panel[:size].T, part, upper=True))
            start -= size
        return found.T.to(vectors)


def factor_in_place(panels: list[Tensor]) -> None:
    """Replace the panels of a positive definite matrix by those of its Cholesky factor.

    Raises ValueError if the matrix is not positive definite.
    """
    for place, panel in enumerate(panels):
        size = panel.shape[1]
        for before in panels[:place]:
            rows = before[len(before) - len(panel) :]  # those from this panel's own on
            panel.addmm_(rows, rows[:size].T, alpha=-1.0)
        factor, failed = torch.linalg.cholesky_ex(panel[:size])
        if int(failed) != 0:
            raise ValueError("not positive definite")
        panel[:size] = factor
        panel[size:] = torch.linalg.solve_triangular(factor.T, panel[size:], upper=True, left=False)
