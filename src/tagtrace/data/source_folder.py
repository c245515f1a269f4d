"""A data folder: its files, read and hashed on the way, and the kind of folder that a copy of it may replace.

Hidden files and folders (``.stats_cache`` of brat, ``.git``) are no part of it: they are not read, hashed or copied.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

from tagtrace._checks import DataError, at
from tagtrace._documents import MAX_BYTES, check_regular_file, check_stays_inside, read_regular_file
from tagtrace._folders import Product

MAX_DEPTH, MAX_FILES = 64, 200_000
"""A folder with more in it is hardly a corpus: perhaps somebody's home folder was given."""


class SourceFolder:
    """The files of a folder. A file that changes between two readings is an error."""

    path: Path
    is_gzip: bool = False

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._digests: dict[str, bytes] = {}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The paths of all files relative to the folder, with ``/``, in the order of their bytes."""
        with self._readable():
            return tuple(sorted(_names_in(self.path), key=os.fsencode))

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self._known

    @property
    def fingerprint(self) -> str:
        """sha256 of the paths and the sha256 of the bytes of all files."""
        whole = hashlib.sha256()
        for name in self.names:
            if name not in self._digests:
                self._stream(name, None)
            whole.update(os.fsencode(name) + b"\0" + self._digests[name])
        return whole.hexdigest()

    def read(self, name: str, max_bytes: int = MAX_BYTES) -> bytes:
        """The bytes of a file, which may not have more than ``max_bytes``."""
        with self._readable(name):
            check_stays_inside(self.path / name, self.path)
            data = read_regular_file(self.path / name, max_bytes)
        self._note(name, hashlib.sha256(data).digest())
        return data

    def text(self, name: str) -> str:
        """The text of a file, with the byte-order mark that it may begin with."""
        data = self.read(name)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            where = at(self.path / name, data.count(b"\n", 0, error.start) + 1)
            raise DataError(f"{where}: byte {error.start} is not UTF-8; convert the file to UTF-8") from None

    def copy(self, name: str, target: Path) -> None:
        """Write the bytes of a file to ``target``."""
        with target.open("wb") as stream:
            self._stream(name, stream)

    def _stream(self, name: str, target: IO[bytes] | None) -> None:
        digest, path = hashlib.sha256(), self.path / name
        with self._readable(name):
            check_stays_inside(path, self.path)
            check_regular_file(path)
            stream = path.open("rb")
        with stream:
            while block := stream.read(1 << 20):
                digest.update(block)
                if target is not None:
                    target.write(block)
        self._note(name, digest.digest())

    def _note(self, name: str, digest: bytes) -> None:
        if self._digests.setdefault(name, digest) != digest:
            raise DataError(f"{at(self.path / name)}: the file changed while it was read; repeat the command")

    @contextmanager
    def _readable(self, name: str = "") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = error.filename or self.path / name
            reason = error.strerror or error
            raise DataError(f"{at(where)}: cannot be read: {reason}; check the folder {self.path}") from error


def _names_in(folder: Path) -> Iterator[str]:
    num_files, waiting = 0, [("", 0)]
    while waiting:
        prefix, depth = waiting.pop()
        with os.scandir(folder / prefix) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    _check_inner(entry, depth, folder)
                    waiting.append((f"{prefix}{entry.name}/", depth + 1))
                    continue
                check_stays_inside(entry.path, folder)
                check_regular_file(entry.path)
                num_files += 1
                if num_files > MAX_FILES:
                    raise DataError(
                        f"{at(folder)}: has more than {MAX_FILES:,} files; give the folder of the data alone"
                    )
                yield prefix + entry.name


def _check_inner(entry: os.DirEntry[str], depth: int, folder: Path) -> None:
    if entry.is_symlink():
        raise DataError(f"{at(entry.path)}: is a link to a folder, which is not followed; put the folder itself there")
    if depth == MAX_DEPTH:
        raise DataError(
            f"{at(folder)}: has folders in more than {MAX_DEPTH} folders; give the folder of the data alone"
        )


@dataclass(frozen=True)
class DataFolder(Product):
    """Folders with exactly these files, or fewer; only such a one is replaced by a copy."""

    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, names: Collection[str], marker: str | None = None) -> DataFolder:
        """``marker`` is a file that every such folder has, by default the first one."""
        return cls(min(names) if marker is None else marker, (), frozenset(names))

    def _is_file(self, path: str) -> bool:
        return path in self.names
