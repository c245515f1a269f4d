"""Scores of every training token in one pass over the features, errors and labels that the index stores.

For token t of a sentence, with errors e_t and features f_t = (F_t, 1), the gradient of its conditional loss is e_t
f_t^T in W and y_{t-1} x e_t + e_t x y_{t+1} in A (start and end where there is no neighbour), so

    V . g_t = sum_c e_t(c) (V_W f_t + V_A[y_{t-1}, :] + V_A[:, y_{t+1}])(c)
    |g_t|^2 = |e_t|^2 (|f_t|^2 + number of learned edges) + 2 e_t(y_{t-1}) e_t(y_{t+1})   (the two edges may be one)
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from tagtrace.index import Shard
from tagtrace.influence.scoring.gpu_scan import can_scan, token_scores
from tagtrace.tagger.convex.products import bits, compiled_loops, project, row_norms, uses_loops
from tagtrace.tagger.convex.threads import share
from tagtrace.tagger.head import Head

CHUNK = 16_384
"""Number of tokens whose features are converted at once."""
CELLS, DEVICE_CELLS = 2**19, 2**27
"""Maximum number of values (tokens x labels x directions) in memory at once, on the CPU and on a GPU."""


MAX_SCANS = 4
"""Maximum number of directions that a GPU scans one by one."""


class TokenPass:
    """Computes with the tokens of one shard under ``head``, on the shard's device; products are in ``dtype``."""

    head: Head
    shard: Shard
    dtype: torch.dtype
    learned: set[str]
    is_first: Tensor
    is_last: Tensor
    previous: Tensor
    next: Tensor
    before: Tensor
    after: Tensor

    def __init__(self, head: Head, shard: Shard, dtype: torch.dtype = torch.float32) -> None:
        self.head, self.shard, self.dtype = head, shard, dtype
        self.learned = {name for name, _ in head.named_parameters()}
        device = shard.features.device
        ends = shard.lengths.cumsum(0).to(device)
        self.is_first = torch.zeros(len(shard.labels), dtype=torch.bool, device=device)
        self.is_last = self.is_first.clone()
        self.is_first[ends - shard.lengths.to(device)] = True
        self.is_last[ends - 1] = True
        labels = shard.labels.to(device).long()
        self.previous, self.next = labels.roll(1), labels.roll(-1)  # y_{t-1} and y_{t+1}; not read at the ends
        self.before = self.previous.masked_fill(self.is_first, head.num_labels)  # (n,)
        self.after = self.next.masked_fill(self.is_last, head.num_labels)

    @torch.no_grad()
    def products(self, directions: Tensor) -> Tensor:
        """V . g_t for directions V (Q, P) and every token, (Q, n).

        The errors of a token sum to 0, so only the differences of its logits to that of the first label matter.
        """
        if len(directions) == 1 and self.has_loops:
            return self.scores(directions[0]).unsqueeze(0)
        if len(directions) <= MAX_SCANS and can_scan(self):
            return torch.stack([token_scores(self, one) for one in directions])
        Q, C, n = len(directions), self.head.num_labels, len(self.shard.labels)
        weight, into, out_of = self.tables(directions)  # (Q, C - 1, D), (Q, C + 1, C - 1) each
        flat = weight.flatten(0, 1).contiguous()
        into, out_of = (table.transpose(0, 1).contiguous() for table in (into, out_of))  # (C + 1, Q, C - 1)
        found = torch.empty(Q, n, dtype=self.dtype, device=weight.device)
        cells = DEVICE_CELLS if found.is_cuda else CELLS
        size = max(cells // max(Q * (C - 1), 1), 1)
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            errors = self.shard.errors[rows, 1:].to(self.dtype)  # (m, C - 1)
            moved = project(self.shard.features[rows], flat).view(len(errors), Q, C - 1)
            moved += into.index_select(0, self.before[rows])
            moved += out_of.index_select(0, self.after[rows])
            found[:, rows] = (moved @ errors.unsqueeze(2)).squeeze(2).T
        return found

    @torch.no_grad()
    def pair_products(self, other: TokenPass, tokens: Tensor, sizes: Tensor) -> Tensor:
        """g_q . g_t / size_q for ``tokens`` q (Q,) of another pass, ``sizes`` (Q,), and every token t here, (Q, n).

        The gradient of a token is a product of its errors and its features, so no direction of P numbers is needed:

            g_q . g_t = (e_q . e_t) (f_q . f_t + number of edges in common)
                        + e_q(y_{t+1}) e_t(y_{q-1}) + e_q(y_{t-1}) e_t(y_{q+1})
        """
        asked = (other.shard.errors[tokens].double() / sizes.unsqueeze(1)).to(self.dtype)  # (Q, C)
        features, padded = other.shard.features[tokens].to(self.dtype), F.pad(asked, (0, 1))  # 0 beyond the ends
        before, after = other.before[tokens].unsqueeze(1), other.after[tokens].unsqueeze(1)  # (Q, 1)
        out = torch.empty(len(tokens), len(self.shard.labels), dtype=self.dtype, device=asked.device)
        size = max((DEVICE_CELLS if out.is_cuda else CELLS) // max(len(tokens), 1), 1)
        for start in range(0, len(self.shard.labels), size):
            rows = slice(start, start + size)
            errors = self.shard.errors[rows].to(self.dtype)  # (m, C)
            found = project(self.shard.features[rows], features).T.add(1.0)  # (Q, m)
            found += (before == self.before[rows]) & self._learns("start", self.before[rows])
            found += (after == self.after[rows]) & self._learns("end", self.after[rows])
            found *= asked @ errors.T
            if "transitions" in self.learned:
                errors = F.pad(errors, (0, 1)).T  # (C + 1, m)
                found += padded[:, self.after[rows]] * errors[before[:, 0]]
                found += padded[:, self.before[rows]] * errors[after[:, 0]]
            out[:, rows] = found
        return out

    def _learns(self, end: str, labels: Tensor) -> Tensor:
        """Whether the edge between a token and the label beside it is learned, (m,); ``end`` where there is none."""
        is_end = labels == self.head.num_labels
        return (is_end & (end in self.learned)) | (~is_end & ("transitions" in self.learned))

    @torch.no_grad()
    def scores(self, direction: Tensor, rows: Tensor | None = None, floor: float = 0.0) -> Tensor:
        """V . g_t for one direction V (P,) and every token, or the tokens ``rows``, (n,), by compiled loops.

        Tokens whose score is below ``floor`` on either side, by a bound from the norms of their features, may get 0.
        """
        loops, shard = compiled_loops(), self.shard
        assert loops is not None
        weight, into, out_of = (part[0].contiguous() for part in self.tables(direction.unsqueeze(0)))
        sizes, edge_size = weight.norm(dim=1), float(into.abs().max() + out_of.abs().max()) if into.numel() else 0.0
        places = torch.arange(len(shard.labels)) if rows is None else rows
        norms = self._own_norms if floor > 0 else torch.zeros(len(shard.labels), dtype=self.dtype)
        out = torch.empty(len(places), dtype=self.dtype)
        errors = shard.errors.to(self.dtype)
        tables = (weight, errors, self.before, self.after, into, out_of, norms, sizes)
        x, which, found, parts = bits(shard.features), places.numpy(), out.numpy(), [part.numpy() for part in tables]
        limit = out.new_tensor([floor]).numpy()[0]

        def fill(some: range) -> None:
            part = slice(some.start, some.stop)
            loops.score_tokens(x, which[part], *parts, out.new_tensor([edge_size]).numpy()[0], limit, found[part])

        share(fill, len(places))
        return out

    @property
    def has_loops(self) -> bool:
        """Whether ``scores`` can be used."""
        return uses_loops(self.shard.features) and self.shard.errors.is_contiguous()

    @cached_property
    def small_before(self) -> Tensor:
        """``before`` in few bytes, for the GPU."""
        return self.before.to(torch.int16)

    @cached_property
    def small_after(self) -> Tensor:
        """``after`` in few bytes."""
        return self.after.to(torch.int16)

    @cached_property
    def _own_norms(self) -> Tensor:
        """|F_t| a little too large, so that rounding cannot make a bound too small."""
        return self.feature_norms * 1.001

    def tables(self, directions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits above the first label: by features (Q, C - 1, D), by the label before, by the label after."""
        device = self.shard.features.device
        parts = {name: part.to(device) for name, part in self.head.unflatten(directions).items()}
        weight = _above_first(parts["weight"][..., :-1].transpose(1, 2)).transpose(1, 2).to(self.dtype)
        into, out_of = (_above_first(part).to(self.dtype) for part in self._beside(parts))
        return weight, into, out_of

    def _beside(self, parts: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The contribution to a token's logits of the bias and the label before, and of the label after: (Q, C + 1, C).

        Row C is for the start and the end of the sentence.
        """
        bias = parts["weight"][..., -1].unsqueeze(1)  # (Q, 1, C)
        zero = torch.zeros_like(bias)
        edges = parts.get("transitions", zero.expand(-1, self.head.num_labels, -1))  # (Q, C, C)
        start, end = (parts[name].unsqueeze(1) if name in parts else zero for name in ("start", "end"))
        return torch.cat([edges, start], 1) + bias, torch.cat([edges.transpose(1, 2), end], 1)

    @torch.no_grad()
    def norms(self) -> Tensor:
        """|g_t| of every token, (n,), in float64: the squares of small errors underflow in float32."""
        errors = self.shard.errors.double()  # (n, C)
        squares = self.feature_norms.double().square() + 1.0
        both = ~self.is_first & ~self.is_last
        if "transitions" in self.learned:
            squares += (~self.is_first).double() + (~self.is_last).double()
        if "start" in self.learned:
            squares += self.is_first.double() + self.is_last.double()
        total = errors.square().sum(1) * squares
        if "transitions" in self.learned:
            rows = torch.arange(len(errors), device=errors.device)
            overlap = 2.0 * errors[rows, self.previous] * errors[rows, self.next]
            total += torch.where(both, overlap, 0.0)
        return total.clamp(min=0.0).sqrt()

    @torch.no_grad()
    def feature_products(self, vector: Tensor) -> Tensor:
        """v . F_t for v (D,) and every token, (n,)."""
        vector = vector.to(self.shard.features.device, self.dtype)
        return torch.cat([part.to(self.dtype) @ vector for part in self.shard.features.split(CHUNK)])

    @cached_property
    def feature_norms(self) -> Tensor:
        """|F_t| of every token, (n,)."""
        return row_norms(self.shard.features, self.dtype)


def _above_first(logits: Tensor) -> Tensor:
    """(..., C) to (..., C - 1): the other labels minus the first."""
    return logits[..., 1:] - logits[..., :1]
