"""Files of tensors: written completely or not at all, checked by size and checksum, read by memory map."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from tagtrace._checks import TagtraceError
from tagtrace._documents import check_regular_file, check_stays_inside
from tagtrace._files import file_sha256
from tagtrace._folders import folder_aside, remove_left_over


class TensorFileError(TagtraceError):
    """A file of tensors cannot be read."""


@dataclass(frozen=True)
class FileRecord:
    """A file as it was when it was written."""

    name: str
    num_bytes: int
    sha256: str

    def __post_init__(self) -> None:
        parts = PurePath(self.name).parts
        if not parts or self.name.startswith("/") or ".." in parts or "\0" in self.name:
            raise TensorFileError(f"file name {self.name!r} is not inside its folder")

    @classmethod
    def of(cls, name: str, folder: Path) -> FileRecord:
        """A file as it is now."""
        return cls(name, (folder / name).stat().st_size, file_sha256(folder / name))

    def is_there(self, folder: Path) -> bool:
        """Whether the folder has a file of this name and size."""
        path = folder / self.name
        return path.is_file() and path.stat().st_size == self.num_bytes

    def problem(self, folder: Path, *, contents: bool = False) -> str | None:
        """What is wrong with the file in a folder, by its size or, with ``contents``, by its checksum."""
        path = folder / self.name
        if not path.is_file():
            return f"{path}: missing"
        try:
            check_stays_inside(path, folder)
        except OSError as error:
            return f"{path}: {error.strerror}"
        if not self.is_there(folder):
            return f"{path}: has {path.stat().st_size:,} bytes, but {self.num_bytes:,} were written"
        if contents and file_sha256(path) != self.sha256:
            return f"{path}: its checksum differs from the recorded one"
        return None


def write_tensors(
    folder: Path, name: str, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None
) -> FileRecord:
    """Write a safetensors file in a temporary folder; it gets its name once it is complete and on disk."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_left_over(path, "")
    with folder_aside(path) as aside:  # for the temporary files of safetensors too
        part = aside / path.name
        save_file({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}, part, metadata)
        record = FileRecord(name, part.stat().st_size, file_sha256(part))
        with part.open("rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(part, path)
    return record


def map_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, memory-mapped: nothing is read until it is used, and writing to them changes no file."""
    try:
        check_regular_file(path)
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise TensorFileError(f"{path}: cannot be read ({' '.join(str(error).split())})") from error


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a file of tensors, which are not read."""
    try:
        check_regular_file(path)
        with safe_open(path, "pt") as opened:
            return opened.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise TensorFileError(f"{path}: cannot be read ({' '.join(str(error).split())})") from error


def not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """The name of the first tensor with a NaN or infinite number; None if there is none."""
    return next((name for name, value in tensors.items() if not _is_finite(value)), None)


def _is_finite(value: Tensor) -> bool:
    """The sum tells, in half the time, unless it overflows."""
    return bool(value.sum(dtype=torch.float32).isfinite()) or bool(value.isfinite().all())
