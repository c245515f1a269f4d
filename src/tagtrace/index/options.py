"""How an index is built, and how large it will be."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

import torch

from tagtrace._checks import OptionError
from tagtrace.tagger.refit import RefitOptions

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}

_PLACE_BYTES = 2 + 4 + 4
"""A token's label, source line and the place of its text."""
_TEXT_BYTES = 12
"""What a token's text and its share of its sentence's length, name and document take, about."""


@dataclass(frozen=True)
class IndexOptions:
    """How features are stored and which head belongs to them."""

    dtype: Literal["float16", "bfloat16", "float32"] = "float16"
    """What features are rounded to. The head is refit on the rounded ones, so nothing else is approximate."""
    refit: bool = True
    """Solve the head exactly on the stored features first; False keeps the tagger's own head."""
    l2: float = 1.0
    """Strength against the sum of losses, as in ``RefitOptions``."""
    tolerance: float = 1e-6
    max_steps: int = 100
    shard_tokens: int = 65_536
    """How many tokens are encoded, held in memory and written together (or one longer sentence)."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise OptionError(f"dtype {self.dtype!r}: expected one of {', '.join(DTYPES)}")
        if self.shard_tokens < 1:
            raise OptionError(f"shard_tokens {self.shard_tokens}: must be at least 1")
        self.refit_options()  # raises where these cannot work

    def refit_options(self) -> RefitOptions:
        return RefitOptions(self.l2, self.tolerance, self.max_steps)

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def megabytes(num_bytes: int) -> str:
    """A size to read.

    >>> megabytes(321_400_000)
    '321.4 MB'
    """
    return f"{num_bytes / 1e6:,.1f} MB"


def estimate_size(num_tokens: int, dim: int, num_labels: int, dtype: str = "float16") -> int:
    """About how many bytes an index takes: D features, C errors in float32, label, place and text a token.

    >>> estimate_size(203_621, 768, 9) / 203_621  # at most 1.7 KB a token
    1594.0
    """
    per_token = dim * DTYPES[dtype].itemsize + 4 * num_labels + _PLACE_BYTES + _TEXT_BYTES
    return num_tokens * per_token
