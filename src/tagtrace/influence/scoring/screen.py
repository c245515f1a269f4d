"""Screen: the first-order influence of every training segment, in one pass.

    influence(k) = g_q^T K^-1 g_k / N = V . grad CL(z_k) / N,   V = K^-1 g_q

**Sign.** Positive = supporter: removing that training label would raise the query's loss. (The paper's I
is the derivative under up-weighting, so I = -N times ours; its "exact influence" has our sign.)

V . grad CL is the derivative of a segment's conditional loss when its logits move by B V: errors times moved logits, so
no gradient of P numbers is formed. For a token it is sum_c e_t(c) (V_W f_t + V_A[y_{t-1}, :] + V_A[:, y_{t+1}])(c).
"""

from __future__ import annotations

import torch
from torch import Tensor

from tagtrace.influence.scoring.factors import TrainingRows, factor_parts
from tagtrace.tagger.head import Head


class Screen:
    """Scores segments (S, 3) of the ``training`` data under ``head`` (float64)."""

    head: Head
    training: TrainingRows
    segments: Tensor
    num_sentences: int

    def __init__(self, head: Head, training: TrainingRows, segments: Tensor) -> None:
        self.head, self.training, self.segments = head, training, segments
        self.num_sentences = len(training.lengths)

    def influence(self, directions: Tensor) -> Tensor:
        """V . grad CL / N for directions V (Q, P) and every segment, (Q, S)."""
        return self.products(directions) / self.num_sentences

    @torch.no_grad()
    def products(self, directions: Tensor) -> Tensor:
        """V . grad CL for directions V (Q, P) and every segment, (Q, S)."""
        out = torch.empty(len(directions), len(self.segments), dtype=torch.float64)
        for places, factors in factor_parts(self.head, self.training, self.segments):
            out[:, places] = torch.stack([factors.product(direction) for direction in directions]).cpu()
        return out
