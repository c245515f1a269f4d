"""Screen: the first-order influence of every training segment, in one pass.

    influence(k) = g_q^T K^-1 g_k / N = V . grad CL(z_k) / N,   V = K^-1 g_q

**Sign, stated once:** positive = supporter: removing that training label would raise the query's loss. (The paper's I
is the derivative under up-weighting, so I = -N times ours; its "exact influence" has our sign.)

V . grad CL is the derivative of a segment's conditional loss when its logits move by B V: errors times moved logits,
never a gradient of P numbers. For a token that is sum_c e_t(c) (V_W f_t + V_A[y_{t-1}, :] + V_A[:, y_{t+1}])(c).
"""

from __future__ import annotations

import torch
from torch import Tensor

from tagtrace.tagger import crf
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import Rows, pad_rows
from tagtrace.tagger.scores import Scores, length_mask


class Screen:
    """Scores training segments (S, 3) of ``rows`` under ``head`` (float64)."""

    def __init__(self, head: Head, rows: Rows, segments: Tensor) -> None:
        self.head, self.rows, self.segments = head, rows, segments
        self.num_chains = len(rows.lengths)

    @torch.no_grad()
    def influence(self, directions: Tensor) -> Tensor:
        """V . grad CL / N for directions V (Q, P) and every segment, (Q, S)."""
        out = torch.empty(len(directions), len(self.segments), dtype=torch.float64)
        starts = self.rows.lengths.cumsum(0) - self.rows.lengths
        order = self.segments[:, 0].argsort(stable=True)
        for part in order.split(4096):
            chains, local = self.segments[part, 0].unique(return_inverse=True)
            lengths = self.rows.lengths[chains]
            index = torch.cat([torch.arange(int(s), int(s + n)) for s, n in zip(starts[chains], lengths, strict=True)])
            rows = Rows(self.rows.features[index].double(), self.rows.labels[index], lengths)
            segments = torch.cat([local.unsqueeze(1), self.segments[part, 1:]], 1)
            out[:, part] = self._part(directions, rows, segments).cpu()
        return out / self.num_chains

    def _part(self, directions: Tensor, rows: Rows, segments: Tensor) -> Tensor:
        """(Q, S) for the segments of a few chains."""
        labels = pad_rows(rows.labels, rows.lengths)
        window = crf.segment_scores(self.head(rows.features, rows.lengths), labels, segments)
        inside = crf.segment_labels(labels, segments)
        errors = crf.node_marginals(window)  # (S, M, C)
        mask = length_mask(window.lengths, errors.shape[1], errors.device)
        errors -= torch.nn.functional.one_hot(inside, errors.shape[2]) * mask.unsqueeze(2)
        edges = crf.edge_marginals(window)  # (S, M - 1, C, C)
        edges = edges - _edge_onehots(inside, window, edges)
        return torch.stack([self._derivative(v, rows, labels, segments, errors, edges) for v in directions])

    def _derivative(
        self, direction: Tensor, rows: Rows, labels: Tensor, segments: Tensor, errors: Tensor, edges: Tensor
    ) -> Tensor:
        """sum of errors times moved logits for one direction (P,), (S,)."""
        parts = self.head.unflatten(direction)
        weight = parts["weight"]
        emissions = torch.addmm(weight[:, -1], rows.features, weight[:, :-1].T)  # (n, C)
        others = [parts.get(n, torch.zeros_like(getattr(self.head, n))) for n in ("transitions", "start", "end")]
        moved = Scores(pad_rows(emissions, rows.lengths), others[0], others[1], others[2], rows.lengths)
        window = crf.segment_scores(moved, labels, segments)
        return (errors * window.emissions).sum((1, 2)) + torch.einsum("smij,ij->s", edges, others[0])


def _edge_onehots(inside: Tensor, window: Scores, like: Tensor) -> Tensor:
    """1 at (y_{t-1}, y_t) for each edge inside a segment."""
    onehot = torch.zeros_like(like)
    if like.shape[1]:
        s, t = length_mask(window.lengths - 1, like.shape[1], like.device).nonzero(as_tuple=True)
        onehot[s, t, inside[s, t], inside[s, t + 1]] = 1.0
    return onehot
