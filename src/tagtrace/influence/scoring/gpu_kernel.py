"""The kernels of ``gpu_scan``. Importing this module fails if Triton is not installed."""

# pyright: reportMissingImports=false

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def split_direction(
    direction,
    parts,
    tables,
    D: tl.constexpr,
    C: tl.constexpr,
    K: tl.constexpr,
    BLOCK_D: tl.constexpr,
    HAS_EDGES: tl.constexpr,
    HAS_ENDS: tl.constexpr,
):
    """A direction V (P,) as what ``scan_tokens`` multiplies with, each label minus the first.

    parts (2, D, K): the weights as a sum of two numbers of the features' dtype. tables (2, C + 1, C - 1): what the
    label before (and the bias) and the label after add; row C is for the ends of a sentence.
    """
    labels = tl.arange(0, K)
    known = labels < C - 1
    if tl.program_id(0) < D // BLOCK_D:
        columns = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
        place = (labels + 1)[None, :] * (D + 1) + columns[:, None]
        value = tl.load(direction + place, mask=known[None, :], other=0.0)
        value = tl.where(known[None, :], value - tl.load(direction + columns)[:, None], 0.0)
        high = value.to(parts.dtype.element_ty)
        low = (value - high.to(value.dtype)).to(parts.dtype.element_ty)
        table = columns[:, None] * K + labels[None, :]
        tl.store(parts + table, high)
        tl.store(parts + D * K + table, low)
    else:
        bias = tl.load(direction + (labels + 1) * (D + 1) + D, mask=known, other=0.0) - tl.load(direction + D)
        edges, start, end = C * (D + 1), C * (D + 1) + C * C, C * (D + 1) + C * C + C
        for row in tl.static_range(C + 1):  # pyright: ignore[reportGeneralTypeIssues]  (only triton's types say so)
            into, out_of = bias, tl.zeros_like(bias)
            if HAS_EDGES and row < C:
                into += tl.load(direction + edges + row * C + labels + 1, mask=known, other=0.0)
                into -= tl.load(direction + edges + row * C)
                out_of += tl.load(direction + edges + (labels + 1) * C + row, mask=known, other=0.0)
                out_of -= tl.load(direction + edges + row)
            if HAS_ENDS and row == C:
                into += tl.load(direction + start + labels + 1, mask=known, other=0.0)
                into -= tl.load(direction + start)
                out_of += tl.load(direction + end + labels + 1, mask=known, other=0.0)
                out_of -= tl.load(direction + end)
            tl.store(tables + row * (C - 1) + labels, into.to(tl.float32), mask=known)
            tl.store(tables + (C + 1 + row) * (C - 1) + labels, out_of.to(tl.float32), mask=known)


@triton.jit
def scan_tokens(
    x,
    parts,
    errors,
    before,
    after,
    tables,
    scores,
    extremes,
    n,
    num_blocks,
    D: tl.constexpr,
    C: tl.constexpr,
    K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """Scores (n,) of tokens with features x (n, D) and errors (n, C), and the extremes of each block.

    The direction is in ``parts`` and ``tables`` (``split_direction``).
    """
    block = tl.program_id(0)
    rows = block.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = rows < n
    columns, labels = tl.arange(0, BLOCK_D), tl.arange(0, K)
    logits = tl.zeros((BLOCK_N, K), tl.float32)
    for start in range(0, D, BLOCK_D):
        place = rows[:, None] * D + (start + columns)[None, :]
        part = tl.load(x + place, mask=inside[:, None], other=0.0)
        table = (start + columns)[:, None] * K + labels[None, :]
        logits = tl.dot(part, tl.load(parts + table), logits)
        logits = tl.dot(part, tl.load(parts + D * K + table), logits)
    known = inside[:, None] & (labels < C - 1)[None, :]
    first = tl.load(before + rows, mask=inside, other=0).to(tl.int32)
    last = tl.load(after + rows, mask=inside, other=0).to(tl.int32) + C + 1
    logits += tl.load(tables + first[:, None] * (C - 1) + labels[None, :], mask=known, other=0.0)
    logits += tl.load(tables + last[:, None] * (C - 1) + labels[None, :], mask=known, other=0.0)
    error = tl.load(errors + rows[:, None] * C + 1 + labels[None, :], mask=known, other=0.0)
    score = tl.sum(logits * error, 1)
    tl.store(scores + rows, score)  # zeros after the last token
    tl.store(extremes + block, tl.max(tl.where(inside, score, float("-inf")), 0))
    tl.store(extremes + num_blocks + block, tl.max(tl.where(inside, -score, float("-inf")), 0))
