"""Reading the files of an index; each error says what to do about it."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from tagtrace import _tensor_files
from tagtrace._checks import TagtraceError
from tagtrace._tensor_files import FileRecord, TensorFileError

REMEDY = "restore a copy or build the index again"


class IndexFolderError(TagtraceError):
    """A folder is not an index, is damaged, or belongs to another tagger or other data."""


def check_file(record: FileRecord, folder: Path, *, contents: bool = False) -> None:
    """Raise unless the folder has this file, compared by size or, with ``contents``, by checksum."""
    problem = record.problem(folder, contents=contents)
    if problem is not None:
        raise IndexFolderError(f"{problem}; {REMEDY}")


def map_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, memory-mapped."""
    try:
        return _tensor_files.map_tensors(path)
    except TensorFileError as error:
        raise IndexFolderError(f"{error}; {REMEDY}") from error
