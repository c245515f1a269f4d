"""The bytes of a data file, read line by line and hashed on the way; and the rows that readers make of them."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tagtrace._checks import DataError, at
from tagtrace._documents import ExpandedFile, check_regular_file, limited_lines, recorded_path

_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(slots=True)
class Row:
    """A sentence as its file has it: labels in the file's own scheme, id and document not yet final."""

    tokens: tuple[str, ...]
    labels: tuple[str, ...]
    lines: Sequence[int]
    pos: tuple[str, ...] | None = None
    id: str = ""
    document: str = ""
    path: str = ""
    """Its file, if the data is a folder."""


class SourceFile:
    """A file to be read once from start to end, compressed or not.

    ``is_gzip`` is known once reading has begun, ``fingerprint`` (sha256 of the decompressed bytes) once it has ended.
    """

    path: Path
    is_gzip: bool

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.is_gzip = False
        self._hash = hashlib.sha256()

    @property
    def fingerprint(self) -> str:
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[bytes]:
        """The lines unchanged, each with its line end; only ``\\n`` ends a line."""
        update = self._hash.update
        try:
            check_regular_file(self.path, opened=True)
            with self.path.open("rb") as file:
                for line in limited_lines(self._decompressed(file)):
                    update(line)
                    yield line
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or f"damaged gzip data ({error})"
            raise DataError(f"{at(self.path)}: cannot be read: {reason}; check the file") from error

    def _decompressed(self, file: io.BufferedReader) -> IO[bytes]:
        self.is_gzip = file.peek(2)[:2] == _GZIP_MAGIC
        if not self.is_gzip:
            return file
        return io.BufferedReader(ExpandedFile(file))  # pyright: ignore[reportArgumentType]

    def texts(self, lines: Iterator[bytes] | None = None) -> Iterator[tuple[int, str]]:
        """Each line's number and text, without the byte-order mark a file may start with.

        ``lines`` are those of the file, if its reading has begun.
        """
        offset = 0
        for number, line in enumerate(self if lines is None else lines, start=1):
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                where = f"{at(self.path, number)}: byte {offset + error.start}"
                raise DataError(f"{where} is not UTF-8; convert the file to UTF-8") from None
            offset += len(line)
            yield number, text.removeprefix("\ufeff") if number == 1 else text


def compressed(stream: IO[bytes], is_gzip: bool) -> AbstractContextManager[IO[bytes] | gzip.GzipFile]:
    """A stream to write to: compressed, without a time stamp, if the file was."""
    return gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) if is_gzip else nullcontext(stream)


def stem(path: str | Path) -> str:
    """A file's name without folders, ``.gz`` and one more ending, as text that can be written.

    >>> stem("data/train.conll.gz")
    'train'
    """
    return recorded_path(Path(Path(path).name.removesuffix(".gz")).stem)


def shown(text: str, limit: int = 40) -> str:
    """A piece of a file, quoted for a one-line message.

    >>> shown("a\\tb")
    "'a\\\\tb'"
    """
    return repr(text) if len(text) <= limit else repr(text[:limit]) + "..."
