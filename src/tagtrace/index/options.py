"""Options for building an index, and an estimate of its size."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

import torch

from tagtrace._checks import OptionError
from tagtrace.tagger.convex.refit import RefitOptions

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}

_PLACE_BYTES = 2 + 4 + 4
"""Bytes per token for its label, its source line and the position of its text."""
_TEXT_BYTES = 12
"""Approximate bytes per token for its text and its share of its sentence's length, id and document."""


@dataclass(frozen=True)
class IndexOptions:
    """How features are stored, and which head is stored with them."""

    dtype: Literal["float16", "bfloat16", "float32"] = "float16"
    """The dtype of stored features. The head is refit on the rounded features, so nothing else is approximate."""
    refit: bool = True
    """Refit the head exactly on the stored features; False keeps the tagger's own head."""
    l2: float = 1.0
    """L2 strength relative to the sum of losses, as in ``RefitOptions``."""
    tolerance: float = 1e-6
    max_steps: int = 100
    shard_tokens: int = 65_536
    """Maximum number of tokens encoded, kept in memory and written together (or one longer sentence)."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise OptionError(f"dtype {self.dtype!r}: expected one of {', '.join(DTYPES)}")
        if self.shard_tokens < 1:
            raise OptionError(f"shard_tokens {self.shard_tokens}: must be at least 1")
        self.refit_options()  # raises if these are invalid

    def refit_options(self) -> RefitOptions:
        return RefitOptions(self.l2, self.tolerance, self.max_steps)

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def megabytes(num_bytes: int) -> str:
    """A size in megabytes.

    >>> megabytes(321_400_000)
    '321.4 MB'
    """
    return f"{num_bytes / 1e6:,.1f} MB"


def estimate_size(num_tokens: int, dim: int, num_labels: int, dtype: str = "float16") -> int:
    """The approximate size of an index in bytes: per token D features, C errors in float32, label, position and text.

    >>> estimate_size(203_621, 768, 9) / 203_621  # at most 1.7 KB per token
    1594.0
    """
    per_token = dim * DTYPES[dtype].itemsize + 4 * num_labels + _PLACE_BYTES + _TEXT_BYTES
    return num_tokens * per_token
