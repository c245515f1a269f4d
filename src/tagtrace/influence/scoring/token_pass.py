"""Scores of every training token in one pass over the features, errors and labels that the index stores.

For token t of a sentence, with errors e_t and features f_t = (F_t, 1), the gradient of its conditional loss is e_t
f_t^T in W and y_{t-1} x e_t + e_t x y_{t+1} in A (start and end where there is no neighbour), so

    V . g_t = sum_c e_t(c) (V_W f_t + V_A[y_{t-1}, :] + V_A[:, y_{t+1}])(c)
    |g_t|^2 = |e_t|^2 (|f_t|^2 + number of learned edges) + 2 e_t(y_{t-1}) e_t(y_{t+1})   (the two edges may be one)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier

import numpy as np
import torch
from torch import Tensor

from tagtrace.index import Shard
from tagtrace.tagger.head import Head

CHUNK = 16_384
"""Number of tokens whose features are converted at once."""
BLOCK = 1024
"""The same for each thread of ``products``."""
TILE_RESULTS, TILE_WORK = 1_200, 1_000_000
"""Maximum results, and multiply-adds, of a product that OpenBLAS computes without copying its arguments."""
MIN_TILE = 16
"""Minimum number of tokens in a tile; below it, there are so many vectors that BLAS is faster on a whole block."""


class TokenPass:
    """Computes with the tokens of one shard under ``head``; products are computed in ``dtype``."""

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
        ends = shard.lengths.cumsum(0)
        position = torch.arange(len(shard.labels))
        self.is_first = torch.zeros(len(position), dtype=torch.bool)
        self.is_last = self.is_first.clone()
        self.is_first[ends - shard.lengths] = True
        self.is_last[ends - 1] = True
        self.previous = shard.labels.long().roll(1)  # y_{t-1}; not read where t is first
        self.next = shard.labels.long().roll(-1)  # y_{t+1}; not read where t is last
        self.before = self.previous.masked_fill(self.is_first, head.num_labels)  # (n,)
        self.after = self.next.masked_fill(self.is_last, head.num_labels)

    @torch.no_grad()
    def products(self, directions: Tensor) -> Tensor:
        """V . g_t for directions V (Q, P) and every token, (Q, n).

        The errors of a token sum to 0, so only the differences of its logits to that of the first label matter.
        """
        Q, C = len(directions), self.head.num_labels
        parts = self.head.unflatten(directions)
        weight = _above_first(parts["weight"][..., :-1].transpose(1, 2)).to(self.dtype)  # (Q, D, C - 1)
        weight = weight.transpose(1, 2).flatten(0, 1).contiguous()  # (Q (C - 1), D)
        into, out_of = (_above_first(part).to(self.dtype) for part in self._beside(parts))  # (Q, C + 1, C - 1)
        found = torch.empty(Q, len(self.shard.labels), dtype=self.dtype)

        def fill(some: range) -> None:
            buffer = torch.zeros(BLOCK, self.head.dim, dtype=self.dtype)
            for start in some[:: 8 * BLOCK]:
                rows = slice(start, min(start + 8 * BLOCK, some.stop))
                logits = _thin_product(self.shard.features[rows], weight, buffer)  # (n, Q (C - 1))
                moved = logits.view(len(logits), Q, C - 1).transpose(0, 1)  # (Q, n, C - 1)
                moved = moved + into.index_select(1, self.before[rows]) + out_of.index_select(1, self.after[rows])
                found[:, rows] = (moved * self.shard.errors[rows, 1:]).sum(2)

        _share(fill, found.shape[1])
        return found

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
        parts = self.shard.features.split(CHUNK)
        squares = torch.cat([part.to(self.dtype).square().sum(1) for part in parts]).double() + 1.0
        both = ~self.is_first & ~self.is_last
        if "transitions" in self.learned:
            squares += (~self.is_first).double() + (~self.is_last).double()
        if "start" in self.learned:
            squares += self.is_first.double() + self.is_last.double()
        total = errors.square().sum(1) * squares
        if "transitions" in self.learned:
            rows = torch.arange(len(errors))
            overlap = 2.0 * errors[rows, self.previous] * errors[rows, self.next]
            total += torch.where(both, overlap, 0.0)
        return total.clamp(min=0.0).sqrt()

    @torch.no_grad()
    def feature_products(self, vector: Tensor) -> Tensor:
        """v . F_t for v (D,) and every token, (n,)."""
        vector = vector.to(self.dtype)
        return torch.cat([part.to(self.dtype) @ vector for part in self.shard.features.split(CHUNK)])

    @torch.no_grad()
    def feature_norms(self) -> Tensor:
        """|F_t| of every token, (n,)."""
        return torch.cat([part.to(self.dtype).norm(dim=1) for part in self.shard.features.split(CHUNK)])


def _above_first(logits: Tensor) -> Tensor:
    """(..., C) to (..., C - 1): the other labels minus the first."""
    return logits[..., 1:] - logits[..., :1]


def _thin_product(features: Tensor, vectors: Tensor, buffer: Tensor) -> Tensor:
    """F V^T (n, K) for features F (n, D) and few vectors V (K, D), in the dtype of V and ``buffer`` (BLOCK, D).

    One large product of this shape is slow: the features go through memory again once converted, and BLAS copies them
    once more. Here a block is converted while it is in the cache, then multiplied in tiles that BLAS does not copy.
    """
    K, D = vectors.shape
    if K == 0:
        return vectors.new_zeros(len(features), 0)
    tiles, turned = buffer.view(-1, _tile(K, D), D).numpy(), vectors.numpy().T
    blocks = features.split(BLOCK)
    found = np.empty((len(blocks), *tiles.shape[:2], K), tiles.dtype)
    for block, results in zip(blocks, found, strict=True):
        buffer[: len(block)].copy_(block)
        np.matmul(tiles, turned, out=results)
    return torch.from_numpy(found).view(-1, K)[: len(features)]


def _tile(K: int, D: int) -> int:
    """Number of tokens in a tile: a power of two."""
    most = min(TILE_RESULTS // K, TILE_WORK // max(K * D, 1), BLOCK)
    return 2 ** (most.bit_length() - 1) if most >= MIN_TILE else BLOCK


def _share(work: Callable[[range], None], count: int) -> None:
    """Split ``range(count)`` into one range for each of torch's threads and call ``work`` on each."""
    num_threads = torch.get_num_threads()
    size = BLOCK * max(-(-count // (BLOCK * num_threads)), 1)
    ranges = [range(count)[start : start + size] for start in range(0, count, size)]
    if len(ranges) < 2:
        for some in ranges:
            work(some)
    else:
        list(_workers(num_threads, os.getpid()).map(work, ranges))


@cache
def _workers(num_threads: int, process: int) -> ThreadPoolExecutor:  # noqa: ARG001
    """Threads in which torch starts no further threads. A forked process needs its own."""
    pool = ThreadPoolExecutor(num_threads, initializer=torch.set_num_threads, initargs=(1,))
    everyone = Barrier(num_threads)
    list(pool.map(lambda _: everyone.wait(), range(num_threads)))  # all of them have started
    torch.set_num_threads(num_threads)
    return pool
