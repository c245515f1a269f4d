"""Products with stored features F (N, D) of any dtype: logits F W^T, and sums V^T F, a block of tokens at a time.

With few vectors and numba, compiled loops convert features as they read them; otherwise a block is converted and
multiplied by BLAS, or on the features' own device. Features are never all in memory in another dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.tagger.convex.threads import alone, share

_Result = TypeVar("_Result")

MAX_THIN = 24
"""Maximum number of vectors for which compiled loops are faster than BLAS."""
BLOCK, DEVICE_BLOCK = 512, 2**18
"""Number of tokens that are converted at once, on the CPU and on a GPU."""
SMALL = 2**24
"""Number of bytes of features below which torch is as fast as compiled loops, which take a second to load."""
NUM_PARTS = 64
"""Number of parts into which a symmetric matrix is divided for its product with a vector."""
_BITS = {torch.float16: torch.uint16, torch.bfloat16: torch.int16}


NUMBA_CONFIG = Path(".numba_config.yaml")
"""numba reads it from the working folder, which may be that of somebody else's project."""
USE_LOOPS = True
"""False: torch computes everything, as if numba were not installed."""


def compiled_loops() -> ModuleType | None:
    """The module ``compiled``; None if numba is not installed."""
    return _import_loops() if USE_LOOPS else None


@cache
def _import_loops() -> ModuleType | None:
    if NUMBA_CONFIG.exists():
        raise OptionError(
            f"{NUMBA_CONFIG.absolute()}: numba would take settings, and code, from this file; move it away, or work in "
            "another folder"
        )
    try:
        from tagtrace.tagger.convex import compiled  # noqa: PLC0415
    except ImportError:
        return None
    return compiled


def uses_loops(features: Tensor) -> bool:
    """Whether compiled loops read these features, or rather the tensor that these are a part of."""
    can_read = features.device.type == "cpu" and features.is_contiguous()
    return can_read and features.untyped_storage().nbytes() >= SMALL and compiled_loops() is not None


def by_loops(work: Callable[[], _Result]) -> _Result:
    """Call ``work``, a query of a few milliseconds: ``alone`` if its time is that of compiled loops."""
    return work() if compiled_loops() is None else alone(work)


def bits(features: Tensor) -> np.ndarray:
    """Features as compiled loops read them, without a copy."""
    return features.view(_BITS.get(features.dtype, features.dtype)).numpy()


@torch.no_grad()
def project(features: Tensor, weights: Tensor, rows: Tensor | None = None) -> Tensor:
    """F W^T (n, K) in the dtype of W (K, D), for all tokens or the ``rows`` (n,)."""
    loops, count = compiled_loops(), len(features) if rows is None else len(rows)
    out = weights.new_empty(count, len(weights))
    if loops is not None and uses_loops(features) and len(weights) <= MAX_THIN:
        table, found, places = weights.contiguous().numpy(), out.numpy(), _places(rows, count)
        x = bits(features)
        share(lambda some: loops.project(x, places[_slice(some)], table, found[_slice(some)]), count)
        return out
    blocks = _blocks(features, count)

    def fill(several: range) -> None:
        for some in blocks[_slice(several)]:
            torch.mm(converted(features, some if rows is None else rows[some], weights.dtype), weights.T, out=out[some])

    share(fill, len(blocks), is_cuda=features.is_cuda)
    return out


@torch.no_grad()
def gather(features: Tensor, values: Tensor, rows: Tensor | None = None) -> Tensor:
    """V^T F (K, D) in the dtype of V (n, K), for all tokens or the ``rows`` (n,)."""
    loops, (count, K), D = compiled_loops(), values.shape, features.shape[1]
    if loops is not None and uses_loops(features) and K <= MAX_THIN:
        x, v, places = bits(features), values.contiguous().numpy(), _places(rows, count)

        def add(some: range) -> Tensor:
            out = values.new_zeros(K, D)
            loops.gather(x, places[_slice(some)], v[_slice(some)], out.numpy())
            return out

        parts = share(add, count, 4)
        return torch.stack(parts).sum(0) if parts else values.new_zeros(K, D)
    out = values.new_zeros(K, D)
    for some in _blocks(features, count):
        out.addmm_(values[some].T, converted(features, some if rows is None else rows[some], values.dtype))
    return out


@torch.no_grad()
def row_norms(features: Tensor, dtype: torch.dtype) -> Tensor:
    """|F_t| of every token, (N,)."""
    loops = compiled_loops()
    if loops is None or not uses_loops(features):
        return torch.cat([features[some].to(dtype).norm(dim=1) for some in _blocks(features, len(features))])
    out, x = torch.empty(len(features), dtype=dtype), bits(features)
    share(lambda some: loops.row_norms(x[_slice(some)], out.numpy()[_slice(some)]), len(features))
    return out


@torch.no_grad()
def symmetric_product(matrix: Tensor, vectors: Tensor) -> Tensor:
    """A v for each row v of (Q, P) and a symmetric A (P, P), of which one vector reads the lower triangle alone."""
    loops, size = compiled_loops(), len(matrix)
    if loops is None or len(vectors) != 1 or not uses_loops(matrix):
        return vectors @ matrix
    table, vector = matrix.numpy(), vectors[0].contiguous().numpy()
    ends = [round(size * (part / NUM_PARTS) ** 0.5) for part in range(NUM_PARTS + 1)]  # parts of the same area

    def add(some: range) -> Tensor:
        out = vectors.new_zeros(size)
        for part in some:
            loops.symmetric_product(table, ends[part], ends[part + 1], vector, out.numpy())
        return out

    return torch.stack(share(add, NUM_PARTS)).sum(0, keepdim=True)


def converted(features: Tensor, rows: Tensor | slice, dtype: torch.dtype) -> Tensor:
    """Some rows (m, D) of the features in another dtype."""
    loops = compiled_loops()
    if isinstance(rows, slice):
        return features[rows].to(dtype)
    if loops is None or not uses_loops(features):
        return features[rows.to(features.device)].to(dtype)
    out = torch.empty(len(rows), features.shape[1], dtype=dtype)
    loops.take(bits(features), rows.numpy(), out.numpy())
    return out


def _blocks(features: Tensor, count: int) -> list[slice]:
    size = DEVICE_BLOCK if features.is_cuda else BLOCK
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def _places(rows: Tensor | None, count: int) -> np.ndarray:
    return np.arange(count) if rows is None else rows.numpy()


def _slice(some: range) -> slice:
    return slice(some.start, some.stop)
