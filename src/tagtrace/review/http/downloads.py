"""Downloads of what an export wrote: its own files, below the project's folder, which no link leads to.

A project may come from anybody, with links in its folder ``export`` that lead to private files of its reader.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from tagtrace._checks import DataError
from tagtrace._documents import recorded_path
from tagtrace.review.decisions.decide import NotFoundError

MAX_ZIPPED = 1_000_000_000
"""Bytes of all files of a folder that is downloaded."""
BLOCK = 1 << 20
_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
"""For opening: neither a link nor a pipe, which would wait for somebody to write to it."""


def download(folder: Path, file: Path) -> Response:
    """A file below a folder."""
    return _sent(_opened(folder, file), file.name, "application/octet-stream")


def download_folder(folder: Path, source: Path, names: Iterable[str]) -> Response:
    """The named files in ``source``, which is below ``folder``, as a ZIP file."""
    made, whole = TemporaryFile(), 0  # noqa: SIM115 - closed when it has been sent
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            with _opened(folder, source / name) as stream:
                whole += os.fstat(stream.fileno()).st_size
                if whole > MAX_ZIPPED:
                    raise DataError(f"{source}: has more than {MAX_ZIPPED:,} bytes; copy it from there")
                place = zipfile.ZipInfo(f"{recorded_path(source.name)}/{recorded_path(name)}")
                with archive.open(place, "w") as target:
                    shutil.copyfileobj(stream, target, BLOCK)
    return _sent(made, f"{source.name}.zip", "application/zip")


def _sent(stream: IO[bytes], name: str, kind: str) -> Response:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    headers = {
        "content-disposition": f"attachment; filename*=utf-8''{quote(recorded_path(name))}",
        "content-length": str(size),
    }
    return StreamingResponse(_blocks(stream, size), headers=headers, media_type=kind)


def _blocks(stream: IO[bytes], size: int) -> Iterator[bytes]:
    """As many bytes as were announced, even if the file has grown."""
    with stream:
        while block := stream.read(min(BLOCK, size)):
            size -= len(block)
            yield block


def _opened(folder: Path, file: Path) -> IO[bytes]:
    """An ordinary file below a folder; raises NotFoundError if there is none, or a link on the way."""
    try:
        handle = _handle(folder, file.relative_to(folder).parts)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
    else:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            return os.fdopen(handle, "rb")
        os.close(handle)
    raise NotFoundError("there is no export yet; export the data first")


def _handle(folder: Path, parts: tuple[str, ...]) -> int:
    """Open each part in the one before, so that nobody can put a link there meanwhile."""
    handle = os.open(folder, os.O_RDONLY)
    for part in parts:
        try:
            inner = os.open(part, os.O_RDONLY | _FLAGS, dir_fd=handle)
        finally:
            os.close(handle)
        handle = inner
    return handle
