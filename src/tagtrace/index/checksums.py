"""Comparing the files of an index with their checksums, without reading them every time.

``verified.json``, beside the manifest, records for every file its checksum, size and modification time when its
contents were last found correct. If a file differs in any of these, all files are read again. It may be deleted at any
time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tagtrace._checks import TagtraceError
from tagtrace._files import write_json
from tagtrace._tensor_files import FileRecord
from tagtrace.index.files import check_file

VERIFIED = "verified.json"

Stamps = dict[str, list[str | int]]
"""By the name of a file: sha256, size in bytes, modification time in nanoseconds."""


def check_contents(folder: Path, files: Sequence[FileRecord], *, again: bool = False) -> None:
    """Raise IndexFolderError unless all files have the contents that were written.

    The files are read only if one has changed since they were last read, or if ``again`` is True.
    """
    for file in files:
        check_file(file, folder)
    stamps = _stamps(folder, files)  # before reading: a file that changes meanwhile is read again next time
    if not again and _remembered(folder) == stamps:
        return
    for file in files:
        check_file(file, folder, contents=True)
    _remember(folder, stamps)


def _stamps(folder: Path, files: Sequence[FileRecord]) -> Stamps:
    found: Stamps = {}
    for file in files:
        status = (folder / file.name).stat()
        found[file.name] = [file.sha256, status.st_size, status.st_mtime_ns]
    return found


def _remembered(folder: Path) -> object:
    """The recorded stamps; None if they cannot be read."""
    try:
        return json.loads((folder / VERIFIED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _remember(folder: Path, stamps: Stamps) -> None:
    """Record the stamps; if the folder cannot be written to, the files are read again next time."""
    with suppress(OSError, TagtraceError):
        write_json(folder / VERIFIED, stamps)
