"""Files of tensors: written completely or not at all, checked by size and checksum, read by memory map."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from tagtrace._checks import TagtraceError


class TensorFileError(TagtraceError):
    """A file of tensors cannot be read."""


@dataclass(frozen=True)
class FileRecord:
    """A file as it was when it was written."""

    name: str
    num_bytes: int
    sha256: str

    def is_there(self, folder: Path) -> bool:
        """Whether the folder has a file of this name and size."""
        path = folder / self.name
        return path.is_file() and path.stat().st_size == self.num_bytes

    def problem(self, folder: Path, *, contents: bool = False) -> str | None:
        """What is wrong with the file in a folder, by its size or, with ``contents``, by its checksum."""
        path = folder / self.name
        if not path.is_file():
            return f"{path}: missing"
        if not self.is_there(folder):
            return f"{path}: has {path.stat().st_size:,} bytes, but {self.num_bytes:,} were written"
        if contents and file_sha256(path) != self.sha256:
            return f"{path}: its checksum differs from the recorded one"
        return None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def file_sha256(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_tensors(folder: Path, name: str, tensors: Mapping[str, Tensor]) -> FileRecord:
    """Write a safetensors file under a temporary name; it is renamed once it is complete and on disk."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        save_file({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}, part)
        record = FileRecord(name, part.stat().st_size, file_sha256(part))
        with part.open("rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return record


def map_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, memory-mapped: nothing is read until it is used, and writing to them changes no file."""
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise TensorFileError(f"{path}: cannot be read ({' '.join(str(error).split())})") from error
