"""Scores of all tokens on a GPU in one pass over their features, with the strongest of both sides (Triton).

A program reads the features of ``BLOCK`` tokens once and multiplies them by the direction on tensor cores: the
direction is split into two numbers of the features' dtype, whose sum has 16 bits or more. It adds bias, edges and
errors, and writes the scores with the largest and the smallest of the block. The ``top`` strongest tokens of a side
are in the ``top`` blocks with the largest maxima, so only these are searched.

Triton comes with torch for NVIDIA GPUs; without it, ``TokenPass`` computes the same with torch (``can_scan``).
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from tagtrace.influence.scoring.token_pass import TokenPass

BLOCK = 128
"""Number of tokens of one program."""
WARPS, STAGES = 4, 5
"""Warps of a program, and how many blocks of features are on their way at once."""
MAX_LABELS = 65
"""Maximum number of labels whose logits fit into a program's registers."""


def can_scan(tokens: TokenPass) -> bool:
    """Whether the kernel can read these features."""
    features = tokens.shard.features
    is_half = features.dtype in (torch.float16, torch.bfloat16)
    fits = features.shape[1] % 16 == 0 and 2 <= tokens.head.num_labels <= MAX_LABELS
    return features.is_cuda and is_half and fits and features.is_contiguous() and _has_triton()


@torch.no_grad()
def strongest_tokens(tokens: TokenPass, direction: Tensor, top: int) -> tuple[Tensor, Tensor]:
    """The rows and scores V . g_t of the ``top`` strongest tokens of each side for V (P,), (2, top) each."""
    scores, extremes = _scores(tokens, direction)  # (b BLOCK,), (2, b)
    chosen = extremes.topk(min(top, extremes.shape[1]), 1).indices  # (2, k)
    blocks = scores.view(-1, BLOCK)[chosen]  # (2, k, BLOCK)
    blocks[1].neg_()
    values, places = blocks.flatten(1).topk(min(top, blocks[0].numel()), 1)  # (2, top)
    values[1].neg_()
    return chosen.gather(1, places // BLOCK) * BLOCK + places % BLOCK, values


@torch.no_grad()
def token_scores(tokens: TokenPass, direction: Tensor) -> Tensor:
    """V . g_t of every token for one direction V (P,), (n,)."""
    return _scores(tokens, direction)[0][: len(tokens.shard.labels)]


def _scores(tokens: TokenPass, direction: Tensor) -> tuple[Tensor, Tensor]:
    """Scores, zeros after the last token, and the largest and minus the smallest of each block, (2, b)."""
    kernels: Any = importlib.import_module("tagtrace.influence.scoring.gpu_kernel")
    shard, features = tokens.shard, tokens.shard.features
    (n, D), C = features.shape, tokens.head.num_labels
    K = max(16, 1 << (C - 2).bit_length())  # columns, at least 16 for tensor cores
    has_edges, has_ends = "transitions" in tokens.learned, "start" in tokens.learned
    parts = torch.empty(2, D, K, dtype=features.dtype, device=features.device)
    tables = torch.empty(2, C + 1, C - 1, dtype=torch.float32, device=features.device)
    size = _columns(D)
    kernels.split_direction[(D // size + 1,)](
        direction, parts, tables, D=D, C=C, K=K, BLOCK_D=size, HAS_EDGES=has_edges, HAS_ENDS=has_ends
    )
    num_blocks = -(-n // BLOCK)
    scores = torch.empty(num_blocks * BLOCK, dtype=torch.float32, device=features.device)
    extremes = torch.empty(2, num_blocks, dtype=torch.float32, device=features.device)
    kernels.scan_tokens[(num_blocks,)](
        features, parts, shard.errors, tokens.small_before, tokens.small_after, tables, scores, extremes, n, num_blocks,
        D=D, C=C, K=K, BLOCK_N=BLOCK, BLOCK_D=size, num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    return scores, extremes


def _columns(D: int) -> int:
    """Number of features that a program multiplies at once: a power of two that divides D."""
    return next(size for size in (64, 32, 16) if D % size == 0)


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None
