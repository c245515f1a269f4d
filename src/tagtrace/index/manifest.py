"""The manifest of an index: its contents, and the tagger and data that it belongs to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tagtrace._checks import TagtraceError
from tagtrace._tensor_files import FileRecord
from tagtrace.data.labels import LabelSet
from tagtrace.index.files import IndexFolderError
from tagtrace.tagger.folder import MARKER as TAGGER_MARKER
from tagtrace.tagger.head import HeadOptions

FORMAT = 2
MARKER = "manifest.json"
"""The file that identifies a folder as an index."""
HEAD = "head.safetensors"


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

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> ShardRecord:
        files = tuple(FileRecord(**file) for file in saved["files"])
        return cls(int(saved["num_sentences"]), int(saved["num_tokens"]), files)


@dataclass(frozen=True)
class Manifest:
    """Everything about an index except its tensors."""

    tagtrace: str
    """The version of tagtrace that wrote the index."""
    dtype: str
    """The dtype of the stored features."""
    num_tokens: int
    num_sentences: int
    dim: int
    labels: LabelSet
    unit: str
    head: HeadOptions
    fit: FitRecord
    options: dict[str, Any]
    """The ``IndexOptions`` that the index was built with."""
    tagger: dict[str, Any]
    """path, from_index (the path relative to the index), fingerprint, encoder."""
    data: dict[str, Any]
    """path, fingerprint of the file, content (a fingerprint of the sentences), reading options."""
    head_file: FileRecord
    shards: tuple[ShardRecord, ...]

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
        return {"format": FORMAT, **asdict(self), "labels": self.labels.to_json()}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Manifest:
        values = {name: value for name, value in saved.items() if name != "format"}
        values["labels"] = LabelSet.from_json(saved["labels"])
        values["head"] = HeadOptions(**saved["head"])
        values["fit"] = FitRecord(**saved["fit"])
        values["head_file"] = FileRecord(**saved["head_file"])
        values["shards"] = tuple(ShardRecord.from_json(shard) for shard in saved["shards"])
        return cls(**values)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an index; raises IndexFolderError if there is none or it cannot be read."""
    path = folder / MARKER
    if not path.is_file():
        raise _no_index(folder)
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise IndexFolderError(f"{path}: not valid JSON; restore a copy or build the index again") from error
    found = saved.get("format") if isinstance(saved, dict) else None
    if found != FORMAT:
        raise IndexFolderError(
            f"{path}: format {found!r}, but this tagtrace reads format {FORMAT}; build the index again or use a "
            "matching version"
        )
    try:
        return Manifest.from_json(saved)
    except (KeyError, TypeError, ValueError, AttributeError, TagtraceError) as error:
        reason = " ".join(str(error).split())
        raise IndexFolderError(f"{path}: damaged ({reason}); restore a copy or build the index again") from error


def _no_index(folder: Path) -> IndexFolderError:
    half = folder.resolve().with_name(f"{folder.resolve().name}.building")
    if half.is_dir() and not folder.exists():
        return IndexFolderError(f"{folder}: only half built; build it again with the same arguments to finish it")
    if not folder.exists():
        return IndexFolderError(f"{folder}: does not exist; give a folder that an index was built in")
    if (folder / TAGGER_MARKER).is_file():
        return IndexFolderError(f"{folder}: a tagger, not an index; build an index of it and its training data first")
    return IndexFolderError(f"{folder}: not an index (no {MARKER}); give a folder that an index was built in")
