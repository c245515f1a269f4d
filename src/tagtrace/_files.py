"""Writing so that nothing is ever half-written: aside first, moved into place when whole."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tagtrace._checks import OptionError


def _new_file_mode() -> int:
    """The permissions an ordinary new file would get (``mkstemp`` makes private ones)."""
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


@contextmanager
def file_moved_when_whole(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a binary file beside ``path``; it takes that name only when the block ends without an error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, _new_file_mode())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def folder_moved_when_whole(path: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield an empty folder beside ``path``; it takes that name only when the block ends without an error."""
    path = Path(path)
    if path.exists() and not overwrite:
        raise OptionError(f"{path}: exists already; choose another folder or pass --overwrite")
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield aside
        aside.chmod(0o777 & ~(0o666 & ~_new_file_mode()))
        _replace_folder(aside, path)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _replace_folder(aside: Path, path: Path) -> None:
    """Move ``aside`` to ``path``; an older ``path`` steps aside first and is deleted last."""
    if not path.exists():
        os.replace(aside, path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
    os.replace(path, old / "folder")
    try:
        os.replace(aside, path)
    except BaseException:
        os.replace(old / "folder", path)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)
