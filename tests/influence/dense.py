"""The dense twin of every factored path: gradients of segments by autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from tagtrace.tagger import Head, Rows, crf
from tagtrace.tagger.rows import pad_rows


def segment_gradients(head: Head, rows: Rows, segments: Tensor) -> Tensor:
    """dCL/dtheta of segments (S, 3), (S, P)."""
    scores = head(rows.features.double(), rows.lengths)
    losses = crf.conditional_loss(scores, pad_rows(rows.labels, rows.lengths), segments)
    found = []
    for loss in losses:
        parts = torch.autograd.grad(loss, list(head.parameters()), retain_graph=True, allow_unused=True)
        dense = [torch.zeros_like(p) if g is None else g for g, p in zip(parts, head.parameters(), strict=True)]
        found.append(torch.cat([part.flatten() for part in dense]))
    return torch.stack(found)
