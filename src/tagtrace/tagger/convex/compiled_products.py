"""Loops over features, compiled by numba (extra ``fast``).

Features stay as they are stored: float16 as the bits of uint16, bfloat16 as those of int16 (``bits``). They are
converted in registers, and the rows that come next are fetched into the cache meanwhile, so that a product with a few
vectors takes about as long as reading the features once.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

FAST = {"reassoc", "contract", "nsz", "arcp"}
"""Sums may be reordered; infinite values and NaN keep their meaning."""
AHEAD = 32
"""Number of rows after which a row that is fetched now is used."""
LINE = 32
"""Number of 16-bit features in a cache line."""

compiled: Any = numba.njit(nogil=True, fastmath=FAST, cache=True)


def _widen(typing: Any, value: Any) -> Any:  # noqa: ARG001
    """A stored feature as float32; float32 and float64 as they are."""

    def of_half(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    def of_bfloat(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        high = builder.shl(builder.zext(arguments[0], ir.IntType(32)), ir.Constant(ir.IntType(32), 16))
        return builder.bitcast(high, ir.FloatType())

    def same(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return arguments[0]

    if value == types.uint16:
        return types.float32(value), of_half
    if value == types.int16:
        return types.float32(value), of_bfloat
    return value(value), same


def _fetch(typing: Any, array: Any, place: Any) -> Any:  # noqa: ARG001
    """Ask for a place of a one-dimensional array to be brought into the second-level cache."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), pointer)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        builder.call(prefetch, [address, *(ir.Constant(number, value) for value in (0, 2, 1))])
        return context.get_dummy_value()

    return types.void(array, place), generate


widen: Any = intrinsic(_widen)
fetch: Any = intrinsic(_fetch)


@compiled
def fetch_row(flat, row, D):
    """Ask for a row of features, D of ``flat``, to be brought into the cache."""
    for place in range(row * D, (row + 1) * D, LINE):
        fetch(flat, place)


@compiled
def project(x, rows, w, out):
    """out[i, k] = w_k . x[rows[i]] for x (N, D), rows (n,), w (K, D), out (n, K)."""
    K, D = w.shape
    flat = x.reshape(-1)
    n = len(rows)
    for i in range(n):
        r = rows[i]
        if i + AHEAD < n:
            fetch_row(flat, rows[i + AHEAD], D)
        k = 0
        while k + 8 <= K:
            a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = w.dtype.type(0)
            for d in range(D):
                f = widen(x[r, d])
                a0 += f * w[k, d]
                a1 += f * w[k + 1, d]
                a2 += f * w[k + 2, d]
                a3 += f * w[k + 3, d]
                a4 += f * w[k + 4, d]
                a5 += f * w[k + 5, d]
                a6 += f * w[k + 6, d]
                a7 += f * w[k + 7, d]
            out[i, k], out[i, k + 1], out[i, k + 2], out[i, k + 3] = a0, a1, a2, a3
            out[i, k + 4], out[i, k + 5], out[i, k + 6], out[i, k + 7] = a4, a5, a6, a7
            k += 8
        while k < K:
            a0 = w.dtype.type(0)
            for d in range(D):
                a0 += widen(x[r, d]) * w[k, d]
            out[i, k] = a0
            k += 1


@compiled
def take(x, rows, out):
    """out[i] = x[rows[i]] for x (N, D), rows (n,), out (n, D)."""
    n, D = out.shape
    flat = x.reshape(-1)
    for i in range(n):
        r = rows[i]
        if i + AHEAD < n:
            fetch_row(flat, rows[i + AHEAD], D)
        for d in range(D):
            out[i, d] = widen(x[r, d])


@compiled
def row_norms(x, out):
    """out[i] = |x[i]| for x (N, D), out (N,)."""
    for i in range(len(out)):
        total = out.dtype.type(0)
        for d in range(x.shape[1]):
            f = widen(x[i, d])
            total += f * f
        out[i] = np.sqrt(total)


@compiled
def gather(x, rows, v, out):
    """out[k] += sum_i v[i, k] x[rows[i]] for x (N, D), rows (n,), v (n, K), out (K, D)."""
    K, D = out.shape
    flat = x.reshape(-1)
    n = len(rows)
    four, weights = np.zeros((4, D), out.dtype), np.zeros((4, 4), out.dtype)
    for i in range(0, n, 4):
        count = min(4, n - i)
        for j in range(4):
            if j < count:
                r = rows[i + j]
                for d in range(D):
                    four[j, d] = widen(x[r, d])
            else:
                four[j, :] = 0.0  # its weights may be those of the rows before
        for j in range(i + AHEAD, min(i + AHEAD + 4, n)):
            fetch_row(flat, rows[j], D)
        k = 0
        while k + 4 <= K:
            for j in range(count):
                for c in range(4):
                    weights[c, j] = v[i + j, k + c]
            a0, a1, a2, a3 = weights[0, 0], weights[0, 1], weights[0, 2], weights[0, 3]
            b0, b1, b2, b3 = weights[1, 0], weights[1, 1], weights[1, 2], weights[1, 3]
            c0, c1, c2, c3 = weights[2, 0], weights[2, 1], weights[2, 2], weights[2, 3]
            e0, e1, e2, e3 = weights[3, 0], weights[3, 1], weights[3, 2], weights[3, 3]
            for d in range(D):
                f0, f1, f2, f3 = four[0, d], four[1, d], four[2, d], four[3, d]
                out[k, d] += a0 * f0 + a1 * f1 + a2 * f2 + a3 * f3
                out[k + 1, d] += b0 * f0 + b1 * f1 + b2 * f2 + b3 * f3
                out[k + 2, d] += c0 * f0 + c1 * f1 + c2 * f2 + c3 * f3
                out[k + 3, d] += e0 * f0 + e1 * f1 + e2 * f2 + e3 * f3
            k += 4
        while k < K:
            for j in range(count):
                a0 = v[i + j, k]
                for d in range(D):
                    out[k, d] += a0 * four[j, d]
            k += 1


@compiled
def symmetric_product(matrix, begin, end, vector, out):
    """out (P,) += the share in A v of the rows from ``begin`` to ``end`` of the lower triangle of A (P, P), v (P,).

    Each element is read once, for its own place and for the mirrored one; four rows together, because the two vectors
    do not fit into the fastest cache.
    """
    zero = out.dtype.type(0)
    i = begin
    while i + 4 <= end:
        a, b, c, e = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
        v0, v1, v2, v3 = vector[i], vector[i + 1], vector[i + 2], vector[i + 3]
        s0 = s1 = s2 = s3 = zero
        for j in range(i):
            v = vector[j]
            s0 += a[j] * v
            s1 += b[j] * v
            s2 += c[j] * v
            s3 += e[j] * v
            out[j] += a[j] * v0 + b[j] * v1 + c[j] * v2 + e[j] * v3
        out[i] += s0 + a[i] * v0 + b[i] * v1 + c[i] * v2 + e[i] * v3
        out[i + 1] += s1 + b[i] * v0 + b[i + 1] * v1 + c[i + 1] * v2 + e[i + 1] * v3
        out[i + 2] += s2 + c[i] * v0 + c[i + 1] * v1 + c[i + 2] * v2 + e[i + 2] * v3
        out[i + 3] += s3 + e[i] * v0 + e[i + 1] * v1 + e[i + 2] * v2 + e[i + 3] * v3
        i += 4
    while i < end:
        s0, v0, a = zero, vector[i], matrix[i]
        for j in range(i):
            s0 += a[j] * vector[j]
            out[j] += a[j] * v0
        out[i] += s0 + a[i] * v0
        i += 1


@compiled
def score_tokens(x, rows, w, errors, before, after, into, out_of, norms, sizes, edge_size, floor, out):
    """out[i] = sum_c e(c) (w_c . F + into[before, c] + out_of[after, c]) for token rows[i], labels c above the first.

    x (N, D), w (C - 1, D), errors (N, C), into and out_of (C + 1, C - 1). A token whose score is below ``floor`` by the
    bound sum_c |e(c)| (sizes_c norms + edge_size), with ``norms`` (N,) of its features, is not read: it gets 0.
    """
    K, D = w.shape
    flat = x.reshape(-1)
    n = len(rows)
    zero = w.dtype.type(0)
    bounds = np.empty(n, w.dtype)
    for i in range(n):
        r, total = rows[i], zero
        for k in range(K):
            total += abs(errors[r, k + 1]) * (sizes[k] * norms[r] + edge_size)
        bounds[i] = total
    for i in range(n):
        if i + AHEAD < n and bounds[i + AHEAD] >= floor:
            fetch_row(flat, rows[i + AHEAD], D)
        out[i] = 0.0
        if bounds[i] < floor:
            continue
        r = rows[i]
        total = zero
        for k in range(K):
            total += errors[r, k + 1] * (into[before[r], k] + out_of[after[r], k])
        k = 0
        while k + 8 <= K:
            e0, e1, e2, e3 = errors[r, k + 1], errors[r, k + 2], errors[r, k + 3], errors[r, k + 4]
            e4, e5, e6, e7 = errors[r, k + 5], errors[r, k + 6], errors[r, k + 7], errors[r, k + 8]
            s = zero
            for d in range(D):
                s += widen(x[r, d]) * (
                    e0 * w[k, d]
                    + e1 * w[k + 1, d]
                    + e2 * w[k + 2, d]
                    + e3 * w[k + 3, d]
                    + e4 * w[k + 4, d]
                    + e5 * w[k + 5, d]
                    + e6 * w[k + 6, d]
                    + e7 * w[k + 7, d]
                )
            total += s
            k += 8
        while k < K:
            e0, s = errors[r, k + 1], zero
            for d in range(D):
                s += widen(x[r, d]) * w[k, d]
            total += e0 * s
            k += 1
        out[i] = total
