"""Comparing the files of an index with their checksums, without reading them every time.

``verified.json``, beside the manifest, records for every file its checksum, size, inode, and times of modification and
of change, when its contents were last found correct. If a file differs in any of these, all files are read again. It
may be deleted at any time.

The time of change, unlike that of modification, cannot be set. It ticks, though: a file that changed so recently that
it could change again without another time is not recorded, and so is read again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tagtrace._checks import TagtraceError
from tagtrace._documents import parse_json, read_regular_file
from tagtrace._files import write_json
from tagtrace._tensor_files import FileRecord, not_finite
from tagtrace.index.files import REMEDY, IndexFolderError, check_file, map_tensors

VERIFIED = "verified.json"

CLOCK_NS = 2_000_000_000
"""The coarsest steps of a file system's clock, in nanoseconds."""

Stamps = dict[str, list[str | int]]
"""By the name of a file: sha256, size in bytes, inode, times of modification and of change in nanoseconds."""


def check_contents(folder: Path, files: Sequence[FileRecord], *, again: bool = False) -> None:
    """Raise IndexFolderError unless all files have the contents that were written, and their numbers are finite.

    The files are read only if one has changed since they were last read, or if ``again`` is True.
    """
    for file in files:
        check_file(file, folder)
    now, stamps = time.time_ns(), _stamps(folder, files)  # before reading: what changes meanwhile is read again
    if not again and _remembered(folder) == stamps:
        return
    for file in files:
        check_file(file, folder, contents=True)
        _check_numbers(folder / file.name)
    if all(_last_change(folder / file.name) < now - CLOCK_NS for file in files):
        _remember(folder, stamps)


def _check_numbers(path: Path) -> None:
    """Whoever made the index may have made its checksums of anything."""
    name = not_finite(map_tensors(path))
    if name is not None:
        raise IndexFolderError(f"{path}: {name} contains NaN or infinity; {REMEDY}")


def _stamps(folder: Path, files: Sequence[FileRecord]) -> Stamps:
    found: Stamps = {}
    for file in files:
        status = _status(folder / file.name)
        found[file.name] = [file.sha256, status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]
    return found


def _last_change(path: Path) -> int:
    status = _status(path)
    return max(status.st_mtime_ns, status.st_ctime_ns)


def _status(path: Path) -> os.stat_result:
    return path.stat()


def _remembered(folder: Path) -> object:
    """The recorded stamps; None if they cannot be read."""
    try:
        return parse_json(read_regular_file(folder / VERIFIED))
    except (OSError, TagtraceError):
        return None


def _remember(folder: Path, stamps: Stamps) -> None:
    """Record the stamps; if the folder cannot be written to, the files are read again next time."""
    with suppress(OSError, TagtraceError):
        write_json(folder / VERIFIED, stamps, own=True)
