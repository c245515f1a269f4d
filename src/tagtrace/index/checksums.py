"""When the contents of an index were last compared with its checksums, so that its files are not read every time.

``verified.json`` lies beside the manifest and holds, for every file, its checksum and the size and time of change that
it had when its contents were found right. Where a file differs in any of them, all are read again. It may be deleted at
any time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tagtrace._checks import TagtraceError
from tagtrace._files import file_moved_when_whole
from tagtrace._tensor_files import FileRecord
from tagtrace.index.files import check_file

VERIFIED = "verified.json"

Stamps = dict[str, list[str | int]]
"""By the name of a file: sha256, bytes, time of change in nanoseconds."""


def check_contents(folder: Path, files: Sequence[FileRecord], *, again: bool = False) -> None:
    """Raise IndexFolderError unless all files are what was written.

    They are read unless none has changed since they were last read, or ``again`` asks for it.
    """
    for file in files:
        check_file(file, folder)
    stamps = _stamps(folder, files)  # before reading: a file changed meanwhile is read again next time
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
    """What was noted; None where nothing can be read."""
    try:
        return json.loads((folder / VERIFIED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _remember(folder: Path, stamps: Stamps) -> None:
    """Note the stamps; where the folder cannot be written to, the files are read again next time."""
    with suppress(OSError, TagtraceError), file_moved_when_whole(folder / VERIFIED) as stream:
        stream.write(json.dumps(stamps, indent=1).encode())
