"""Shards: whole sentences, about as many tokens as fit in memory, in three files each.

shard-00000.safetensors    features (n, D) in the stored dtype, labels (n,), lengths (b,)
errors-00000.safetensors   errors (n, C) in float32: separate, because they need the head, which needs all features
text-00000.safetensors     the tokens and where they came from (``text``)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from tagtrace.index.files import IndexFolderError, map_tensors
from tagtrace.index.options import DTYPES
from tagtrace.index.text import are_columns
from tagtrace.tagger.rows import Rows

_WHOLE = {torch.int16, torch.int32, torch.int64}


@dataclass(frozen=True)
class Shard:
    """Some whole sentences of an index. Features and errors are memory-mapped."""

    features: Tensor
    """(n, D) in the stored dtype."""
    errors: Tensor
    """(n, C) float32: conditional errors of the tokens."""
    labels: Tensor
    """(n,) long."""
    lengths: Tensor
    """(b,) long."""
    first_token: int
    """The row of the first token in the whole index."""
    first_sentence: int

    def rows(self) -> Rows:
        return Rows(self.features, self.labels, self.lengths)

    def to(self, device: torch.device) -> Shard:
        """The same on a device; lengths stay on the CPU."""
        features, errors, labels = (part.to(device) for part in (self.features, self.errors, self.labels))
        return Shard(features, errors, labels, self.lengths, self.first_token, self.first_sentence)


def join_shards(shards: Sequence[Shard]) -> Shard:
    """Consecutive shards as one, copied."""
    if len(shards) == 1:
        return shards[0]
    features, errors, labels, lengths = (
        torch.cat([getattr(shard, name) for shard in shards]) for name in ("features", "errors", "labels", "lengths")
    )
    return Shard(features, errors, labels, lengths, shards[0].first_token, shards[0].first_sentence)


def shard_name(number: int) -> str:
    return f"shard-{number:05}.safetensors"


def errors_name(number: int) -> str:
    return f"errors-{number:05}.safetensors"


def text_name(number: int) -> str:
    return f"text-{number:05}.safetensors"


def shard_files(number: int) -> list[str]:
    """The names of all files of a shard."""
    return [shard_name(number), errors_name(number), text_name(number)]


def plan_shards(lengths: Sequence[int], shard_tokens: int) -> list[range]:
    """The sentences of each shard: whole ones in order, at most ``shard_tokens`` tokens or one longer sentence.

    >>> plan_shards([3, 2, 9, 1], 5)
    [range(0, 2), range(2, 3), range(3, 4)]
    """
    plan: list[range] = []
    start = num_tokens = 0
    for number, length in enumerate(lengths):
        if number > start and num_tokens + length > shard_tokens:
            plan.append(range(start, number))
            start, num_tokens = number, 0
        num_tokens += length
    return [*plan, range(start, len(lengths))]


def shard_tensors(rows: Rows, dtype: torch.dtype, num_labels: int) -> dict[str, Tensor]:
    """The contents of the first file of a shard; features too large for the dtype are refused."""
    features = rows.features.to(dtype)  # (n, D)
    if not bool(features.isfinite().all()):
        largest = float(rows.features.abs().max())
        raise IndexFolderError(
            f"features up to {largest:.1e} do not fit {str(dtype).removeprefix('torch.')}; use bfloat16 or float32"
        )
    label_dtype = torch.int16 if num_labels < 2**15 else torch.int32
    return {
        "features": features,
        "labels": rows.labels.to(label_dtype),
        "lengths": rows.lengths.to(torch.int32),
    }


def read_rows(folder: Path, number: int, num_labels: int) -> Rows:
    """The first file of a shard; its features are memory-mapped, all else is checked."""
    tensors = map_tensors(folder / shard_name(number))
    try:
        features, labels, lengths = (tensors[name] for name in ("features", "labels", "lengths"))
    except KeyError as error:
        raise _damaged(folder / shard_name(number)) from error
    are_numbers = features.dtype in DTYPES.values() and {labels.dtype, lengths.dtype} <= _WHOLE
    rows = Rows(features, labels.long(), lengths.long())
    if not are_numbers or features.ndim != 2 or not _are_sentences(rows, num_labels):
        raise _damaged(folder / shard_name(number))
    return rows


def _are_sentences(rows: Rows, num_labels: int) -> bool:
    """Whether labels (n,) and lengths (b,) are those of sentences of ``n`` tokens, whoever wrote them."""
    labels, lengths = rows.labels, rows.lengths
    return (
        labels.shape == rows.features.shape[:1]
        and lengths.ndim == 1
        and bool(((labels >= 0) & (labels < num_labels)).all())
        and bool(((lengths >= 1) & (lengths <= len(labels))).all())
        and int(lengths.sum()) == len(labels)
    )


def read_errors(folder: Path, number: int, shape: tuple[int, int]) -> Tensor:
    """The errors (n, C) of a shard, memory-mapped."""
    path = folder / errors_name(number)
    errors = map_tensors(path).get("errors")
    if errors is None or errors.shape != shape or errors.dtype != torch.float32:
        raise _damaged(path)
    return errors


def read_text(folder: Path, number: int, shard: Shard) -> dict[str, Tensor]:
    """The text of a shard, memory-mapped."""
    path = folder / text_name(number)
    columns = map_tensors(path)
    if not are_columns(columns, len(shard.labels), len(shard.lengths)):
        raise _damaged(path)
    return columns


def _damaged(path: Path) -> IndexFolderError:
    return IndexFolderError(f"{path}: not a valid shard; restore a copy or build the index again")
