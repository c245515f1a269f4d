"""Atomic writes: files and folders are written under a temporary name and moved into place once complete."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tagtrace._checks import OptionError


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def make_ordinary(path: Path) -> None:
    """Give a file, or a folder and all in it, ordinary permissions (``mkstemp`` and safetensors set private ones)."""
    umask = _umask()
    for each in (path, *path.rglob("*")) if path.is_dir() else (path,):
        os.chmod(each, (0o777 if each.is_dir() else 0o666) & ~umask)


@contextmanager
def file_moved_when_whole(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a temporary binary file beside ``path``; it takes that name only when the block ends without an error.

    A device or a pipe (``/dev/stdout``) cannot be replaced and is written to directly.
    """
    path = Path(path)
    if path.is_dir():
        raise OptionError(f"{path}: is a folder; give the name of a file")
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield stream
        return
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        make_ordinary(Path(name))
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: str | Path, value: object) -> None:
    """Write a value as JSON."""
    with file_moved_when_whole(path) as stream:
        stream.write(json.dumps(value, ensure_ascii=False, indent=1).encode())


def check_outputs(outputs: Mapping[str, Path], inputs: Mapping[str, Path], *, overwrite: bool) -> None:
    """Raise, before any work is done, if an output is an input, the same as another output, or an existing file.

    The keys describe the files in messages.
    """
    taken: dict[Path, str] = {}
    for what, path in outputs.items():
        for name, source in inputs.items():
            if path.resolve() == source.resolve() or (path.exists() and source.exists() and path.samefile(source)):
                raise OptionError(f"{path}: is {name}, which is never overwritten; choose another name for {what}")
        if path.resolve() in taken:
            raise OptionError(f"{path}: cannot be both {taken[path.resolve()]} and {what}; give them different names")
        taken[path.resolve()] = what
        if path.is_dir():
            raise OptionError(f"{path}: is a folder; give the name of a file for {what}")
        if path.is_file() and not overwrite:
            raise OptionError(f"{path}: exists already; choose another file for {what}, or overwrite it")


def check_replaceable(path: str | Path, *, overwrite: bool, marker: str) -> None:
    """Raise, before any work is done, if a folder cannot be created or may not be replaced.

    Only an empty folder, or one that contains the file ``marker``, may be replaced.
    """
    path = Path(path)
    parent = next((parent for parent in path.resolve().parents if parent.exists()), path)
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise OptionError(f"{path}: {parent} is not a folder that can be written to; choose another folder")
    if not path.exists():
        return
    if not overwrite:
        raise OptionError(f"{path}: exists already; choose another folder, or overwrite it")
    if not path.is_dir() or (any(path.iterdir()) and not (path / marker).is_file()):
        raise OptionError(f"{path}: has no {marker}, so it is not replaced; choose another folder, or remove this one")


@contextmanager
def folder_moved_when_whole(path: str | Path, *, overwrite: bool = False, marker: str) -> Iterator[Path]:
    """Yield an empty temporary folder beside ``path``; it takes that name only when the block ends without an error.

    ``marker`` is a file that every such folder contains: a folder without it is not replaced, even with ``overwrite``.
    """
    check_replaceable(path, overwrite=overwrite, marker=marker)
    path = Path(path).resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield aside
        make_ordinary(aside)
        replace_folder(aside, path)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def replace_folder(aside: Path, path: Path) -> None:
    """Move ``aside`` to ``path``; an existing ``path`` is moved out of the way first and deleted last."""
    if not path.exists():
        os.replace(aside, path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
    try:
        os.replace(path, old / "folder")
        try:
            os.replace(aside, path)
        except BaseException:
            os.replace(old / "folder", path)
            raise
    except BaseException:
        with suppress(OSError):
            old.rmdir()  # fails, and so keeps it, while the older folder is inside
        raise
    shutil.rmtree(old, ignore_errors=True)
