"""The manifest of an index: its contents, and the tagger and data that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from tagtrace._checks import DataError
from tagtrace._documents import check_recorded_path, real_path
from tagtrace._folders import Product, restore_folder
from tagtrace._seals import SealedDocument, read_sealed, sealed
from tagtrace._tensor_files import FileRecord
from tagtrace.data.labels import LabelSet
from tagtrace.data.options import ReadOptions
from tagtrace.index.files import REMEDY, IndexFolderError
from tagtrace.index.options import IndexOptions
from tagtrace.index.shards import shard_files
from tagtrace.tagger.encoders.transformer import Pooling
from tagtrace.tagger.folder import is_tagger
from tagtrace.tagger.head import HeadOptions
from tagtrace.tagger.tagger import Unit

FORMAT = 2
MARKER = "manifest.json"
"""The file that identifies a folder as an index."""
HEAD = "head.safetensors"
_SHARDS = tuple(f"{kind}-*.safetensors" for kind in ("shard", "errors", "text"))
_ADDED = tuple(
    f"{folder}/*.{kind}" for folder in ("curvature", "curvature-damped", "whole") for kind in ("json", "safetensors")
)
PRODUCT = Product(MARKER, (MARKER, HEAD, "verified.json", "progress.json", *_SHARDS, *_ADDED))


@dataclass(frozen=True)
class FitRecord:
    """How well the stored head fits the stored features: the objective J of ``tagger.objective`` there."""

    refit: bool
    """Whether the head was refit on the stored features; if not, it is the tagger's own."""
    l2: float
    objective: float
    max_gradient: float
    num_steps: int


@dataclass(frozen=True)
class ShardRecord:
    """One shard and its files: features, errors, text."""

    num_sentences: int
    num_tokens: int
    files: tuple[FileRecord, ...]


@dataclass(frozen=True)
class TaggerRecord:
    """The tagger that an index was built with."""

    path: str | None
    """Where it was; None if it was in memory."""
    from_index: str | None
    """The same, relative to the index."""
    fingerprint: str
    encoder: str
    """The kind of encoder."""
    pooling: Pooling | None = None
    """Which pieces of a word the features come from, for a tagger of another library; see ``load_tagger``."""

    def __post_init__(self) -> None:
        check_recorded_path("tagger.path", self.path)
        check_recorded_path("tagger.from_index", self.from_index)


@dataclass(frozen=True)
class DataRecord:
    """The data that an index was built from."""

    path: str
    fingerprint: str
    """Of the file."""
    content: str
    """A fingerprint of the sentences."""
    options: ReadOptions
    num_sentences: int
    from_index: str | None = None
    """The path relative to the index; earlier versions did not record it."""

    def __post_init__(self) -> None:
        check_recorded_path("data.path", self.path)
        check_recorded_path("data.from_index", self.from_index)


@dataclass(frozen=True)
class Manifest(SealedDocument):
    """Everything about an index except its tensors."""

    tagtrace: str
    """The version of tagtrace that wrote the index."""
    dtype: Literal["float16", "bfloat16", "float32"]
    """The dtype of the stored features."""
    num_tokens: int
    num_sentences: int
    dim: int
    labels: LabelSet
    unit: Unit
    head: HeadOptions
    fit: FitRecord
    options: IndexOptions
    tagger: TaggerRecord
    data: DataRecord
    head_file: FileRecord
    shards: tuple[ShardRecord, ...]
    format: Literal[2] = FORMAT

    def __post_init__(self) -> None:
        names = [[file.name for file in shard.files] for shard in self.shards]
        if self.head_file.name != HEAD or not names or names != [shard_files(n) for n in range(len(names))]:
            raise DataError("its files are not those of an index")
        if self.fit.l2 < 0:
            raise DataError(f"fit.l2 is {self.fit.l2}, but cannot be negative")
        for name in ("num_tokens", "num_sentences"):
            found, expected = getattr(self, name), sum(getattr(shard, name) for shard in self.shards)
            if found != expected or any(getattr(shard, name) < 0 for shard in self.shards):
                raise DataError(f"{name} is {found}, but the shards have {expected}")

    @property
    def l2(self) -> float:
        """The L2 strength of the objective whose optimum the head is."""
        return self.fit.l2

    def files(self) -> Iterator[FileRecord]:
        """Every file except the manifest itself."""
        yield self.head_file
        for shard in self.shards:
            yield from shard.files

    def to_json(self) -> dict[str, Any]:
        return sealed({"format": self.format, **asdict(self)})


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an index; raises IndexFolderError if there is none or it cannot be read."""
    restore_folder(folder)
    if not (folder / MARKER).exists():
        raise _no_index(folder)
    return read_sealed(folder / MARKER, Manifest, remedy=REMEDY, error=IndexFolderError)


def _no_index(folder: Path) -> IndexFolderError:
    half = real_path(folder).with_name(f"{real_path(folder).name}.building")
    if half.is_dir() and not folder.exists():
        return IndexFolderError(f"{folder}: only half built; build it again with the same arguments to finish it")
    if not folder.exists():
        return IndexFolderError(f"{folder}: does not exist; give a folder that an index was built in")
    if is_tagger(folder):
        return IndexFolderError(f"{folder}: a tagger, not an index; build an index of it and its training data first")
    return IndexFolderError(f"{folder}: not an index (no {MARKER}); give a folder that an index was built in")
