"""The files of an index: written whole or not at all, checked by size and checksum, read by memory map."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from tagtrace._checks import TagtraceError

_REMEDY = "restore a copy or build the index again"


class IndexFolderError(TagtraceError):
    """A folder is not an index, is damaged, or belongs to another tagger or other data."""


@dataclass(frozen=True)
class FileRecord:
    """A file as it was when it was written."""

    name: str
    num_bytes: int
    sha256: str

    def is_there(self, folder: Path) -> bool:
        """Whether the folder holds a file of this name and size."""
        path = folder / self.name
        return path.is_file() and path.stat().st_size == self.num_bytes

    def check(self, folder: Path, *, contents: bool = False) -> None:
        """Raise unless the folder holds this file, by size or, with ``contents``, by checksum."""
        path = folder / self.name
        if not path.is_file():
            raise IndexFolderError(f"{path}: missing from the index; {_REMEDY}")
        if not self.is_there(folder):
            found = path.stat().st_size
            raise IndexFolderError(f"{path}: holds {found:,} bytes, but {self.num_bytes:,} were written; {_REMEDY}")
        if contents and file_sha256(path) != self.sha256:
            raise IndexFolderError(f"{path}: its checksum differs from the manifest's, so it was changed; {_REMEDY}")

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "num_bytes": self.num_bytes, "sha256": self.sha256}


def file_sha256(path: Path) -> str:
    """sha256 of a file, read piece by piece."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> FileRecord:
    """Write a safetensors file aside; it takes its name when it is whole and on the disk."""
    part = path.with_name(f".{path.name}.part")
    try:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, part)
        record = FileRecord(path.name, part.stat().st_size, file_sha256(part))
        _flush(part)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return record


def _flush(path: Path) -> None:
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


def map_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, memory-mapped: nothing is read until it is used, and writing to them changes no file."""
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        reason = " ".join(str(error).split())
        raise IndexFolderError(f"{path}: cannot be read ({reason}); {_REMEDY}") from error
