"""Scores of every training token from what the index stores: features, errors and labels, one pass.

For token t of a chain, with errors e_t and features f_t = (F_t, 1), the gradient of its conditional loss is e_t f_t^T
in W and y_{t-1} x e_t + e_t x y_{t+1} in A (start and end where there is no neighbour), so

    V . g_t = sum_c e_t(c) (V_W f_t + V_A[y_{t-1}, :] + V_A[:, y_{t+1}])(c)
    |g_t|^2 = |e_t|^2 (|f_t|^2 + number of learned edges) + 2 e_t(y_{t-1}) e_t(y_{t+1})   (the two edges may be one)
"""

from __future__ import annotations

import torch
from torch import Tensor

from tagtrace.index import Shard
from tagtrace.tagger.head import Head

CHUNK = 16_384
"""Tokens whose features are converted at once."""


class TokenPass:
    """Goes over the tokens of one shard under ``head``."""

    def __init__(self, head: Head, shard: Shard) -> None:
        self.head, self.shard = head, shard
        self.learned = {name for name, _ in head.named_parameters()}
        ends = shard.lengths.cumsum(0)
        position = torch.arange(len(shard.labels))
        self.is_first = torch.zeros(len(position), dtype=torch.bool)
        self.is_last = self.is_first.clone()
        self.is_first[ends - shard.lengths] = True
        self.is_last[ends - 1] = True
        self.previous = shard.labels.long().roll(1)  # y_{t-1}; not read where t is first
        self.next = shard.labels.long().roll(-1)  # y_{t+1}; not read where t is last

    @torch.no_grad()
    def products(self, directions: Tensor) -> Tensor:
        """V . g_t for directions V (Q, P) and every token, (Q, n), in float32."""
        parts = {name: part.float() for name, part in self.head.unflatten(directions).items()}
        out = torch.empty(len(directions), len(self.shard.labels))
        weight = parts["weight"].flatten(0, 1)  # (Q C, D + 1)
        for start in range(0, len(self.shard.labels), CHUNK):
            rows = slice(start, start + CHUNK)
            features = self.shard.features[rows].float()  # (n, D)
            moved = torch.addmm(weight[:, -1], features, weight[:, :-1].T)  # (n, Q C)
            moved = moved.unflatten(1, (len(directions), -1)).transpose(0, 1)  # (Q, n, C)
            moved = moved + self._edges(parts, rows)
            out[:, rows] = (moved * self.shard.errors[rows]).sum(2)
        return out

    def _edges(self, parts: dict[str, Tensor], rows: slice) -> Tensor | float:
        """What the labels beside each token add to its moved logits, (Q, n, C)."""
        if "transitions" not in parts:
            return 0.0
        edges = parts["transitions"]  # (Q, C, C)
        zero = torch.zeros_like(edges[:, 0])  # (Q, C)
        into, out = edges[:, self.previous[rows]], edges.transpose(1, 2)[:, self.next[rows]]  # (Q, n, C)
        first, last = self.is_first[rows].view(1, -1, 1), self.is_last[rows].view(1, -1, 1)
        into = torch.where(first, parts.get("start", zero).unsqueeze(1), into)
        return into + torch.where(last, parts.get("end", zero).unsqueeze(1), out)

    @torch.no_grad()
    def norms(self) -> Tensor:
        """|g_t| of every token, (n,), in float32."""
        errors = self.shard.errors.float()  # (n, C)
        squares = torch.cat([part.float().square().sum(1) for part in self.shard.features.split(CHUNK)]) + 1.0
        both = ~self.is_first & ~self.is_last
        if "transitions" in self.learned:
            squares += (~self.is_first).float() + (~self.is_last).float()
        if "start" in self.learned:
            squares += self.is_first.float() + self.is_last.float()
        total = errors.square().sum(1) * squares
        if "transitions" in self.learned:
            rows = torch.arange(len(errors))
            overlap = 2.0 * errors[rows, self.previous] * errors[rows, self.next]
            total += torch.where(both, overlap, 0.0)
        return total.clamp(min=0.0).sqrt()
