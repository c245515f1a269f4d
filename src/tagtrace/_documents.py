"""JSON documents that are read, checked against a schema: a dataclass that inherits ``Document``.

Pydantic checks types, unknown and missing keys, numbers without an end and nesting, in one pass over the text. On a
machine without it (one that has torch and little else), values are taken as they are.
"""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import stat
import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from tagtrace._checks import DataError, TagtraceError, at

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MAX_BYTES = 256_000_000
"""Maximum size of a document, or a line, that is read at once; lines of a file are not limited together."""

MANY_BYTES = 16_000_000
"""What is decompressed is not compared with the size of the file before it is as large as this."""
MOST_EXPANSION = 60
"""Annotated text becomes 3 to 30 times as large."""

T = TypeVar("T")
_OPENED = re.compile(r"/(proc/\d+|dev)/fd/")


class Document:
    """The schema of a JSON object: its fields, each with its type, and no other keys."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = {"strict": True, "extra": "forbid", "allow_inf_nan": False}


class DocumentError(DataError):
    """A text is not JSON, or does not fit the schema."""


def check_value(value: object, kind: type[object]) -> None:
    """Raise DocumentError unless a value, as read from JSON, fits a schema."""
    parse_document(json.dumps(value), kind)


def parse_document(text: str | bytes, kind: type[T]) -> T:
    """The object in a JSON text; raises DocumentError with the first place that does not fit.

    A schema with a field ``format`` is the schema of that format alone, and the text has to name it.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Fruit(Document):
    ...     name: str
    ...     weights: tuple[float, ...] = ()
    >>> parse_document('{"name": "fig", "weights": [12, 14.5]}', Fruit)
    Fruit(name='fig', weights=(12.0, 14.5))
    >>> parse_document('{"name": "fig", "weights": [12, "heavy"]}', Fruit)
    Traceback (most recent call last):
    tagtrace._documents.DocumentError: weights.1 should be a valid number
    """
    _check_format(text, kind)
    schema = _schema(kind)
    if schema is None:
        return _plain_document(text, kind)
    from pydantic import ValidationError  # noqa: PLC0415

    try:
        return schema.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise DocumentError(_reason(first["loc"], first["msg"])) from None


def read_document(
    path: str | Path, kind: type[T], *, remedy: str, error: type[TagtraceError] = DataError, max_bytes: int = MAX_BYTES
) -> T:
    """The object in a JSON file; raises ``error`` with the file, the place in it and the remedy."""
    try:
        return parse_document(read_regular_file(path, max_bytes), kind)
    except OSError as reason:
        raise error(f"{at(path)}: cannot be read ({reason.strerror or reason}); {remedy}") from None
    except TagtraceError as reason:
        raise error(f"{at(path)}: {reason}; {remedy}") from None


def read_documents(
    path: str | Path, kind: type[T], *, remedy: str, error: type[TagtraceError] = DataError
) -> Iterator[tuple[int, T]]:
    """The object in each line of a file that is not empty, with the number of the line, counted from 1."""
    try:
        check_regular_file(path, opened=True)
        with Path(path).open("rb") as stream:  # a token may contain other line separators than \n
            for number, line in enumerate(limited_lines(stream), start=1):
                text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if not text.strip():
                    continue
                try:
                    yield number, parse_document(text, kind)
                except TagtraceError as reason:
                    raise error(f"{at(path, number)}: {reason}; {remedy}") from None
    except OSError as reason:
        raise error(f"{at(path)}: cannot be read ({reason.strerror or reason}); {remedy}") from None


def limited_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """The lines of a stream; raises OSError at one too long to be read at once, as a few KB of gzip may have."""
    while line := stream.readline(MAX_BYTES + 1):
        if len(line) > MAX_BYTES:
            raise OSError(errno.EFBIG, f"a line is longer than {MAX_BYTES:,} bytes")
        yield line


class ExpandedFile(gzip.GzipFile):
    """The decompressed bytes of a stream; raises OSError if they are far more than text ever is.

    A megabyte of gzip may be a gigabyte of line ends. What is read from a pipe has no size to compare with.
    """

    def __init__(self, compressed: IO[bytes]) -> None:
        super().__init__(fileobj=compressed)
        self._compressed, self._num_read = compressed, 0

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        self._num_read += len(found)
        if self._num_read > MANY_BYTES and self._compressed.seekable():
            most = MOST_EXPANSION * self._compressed.tell()
            if self._num_read > most:
                raise OSError(errno.EFBIG, f"expands to more than {MOST_EXPANSION} times its size")
        return found


def check_regular_file(path: str | Path, *, opened: bool = False) -> None:
    """Raise OSError unless the path is a file whose reading ends: a pipe or a device might never do so.

    With ``opened`` what this process has open already, as ``/dev/stdin`` or ``<(...)`` of a shell, may be a pipe too.
    """
    mode = Path(path).stat().st_mode
    if opened and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)) and _OPENED.match(os.path.realpath(path)):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "Is a directory", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(22, "Not an ordinary file", str(path))


def check_regular_files(folder: str | Path) -> None:
    """Raise OSError if a folder, or one inside it, has a pipe, a device, a broken link or one that leads out of it."""
    for path in Path(folder).rglob("*"):
        check_stays_inside(path, folder)
        if not path.is_dir():
            check_regular_file(path)


def check_stays_inside(path: str | Path, folder: str | Path) -> None:
    """Raise OSError if a path in a folder leads to a place outside it, by links that somebody may have put there.

    In the cache of Hugging Face, a version of a model links to files that it shares with other versions of the model.
    """
    whole = real_path(folder)
    if whole.parent.name == "snapshots" and (whole.parent.parent / "blobs").is_dir():
        whole = whole.parent.parent
    if not real_path(path).is_relative_to(whole):
        raise OSError(errno.ELOOP, "Is a link that leads out of its folder", str(path))


def read_regular_file(path: str | Path, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of an ordinary file; raises OSError if it is something else or larger than ``max_bytes``."""
    check_regular_file(path)
    with Path(path).open("rb") as stream:
        found = stream.read(max_bytes + 1)
    if len(found) > max_bytes:
        raise OSError(errno.EFBIG, f"larger than {max_bytes:,} bytes", str(path))
    return found


def real_path(path: str | Path) -> Path:
    """The path without links; of links in a circle, as it stands (``Path.resolve`` may raise RuntimeError)."""
    return Path(os.path.realpath(path))


def recorded_path(path: str | Path) -> str:
    """A path as text that JSON can hold: bytes of a name that are not UTF-8 become question marks."""
    return os.fsencode(path).decode("utf-8", "replace")


def check_recorded_path(name: str, path: str | None) -> None:
    """Raise DocumentError if a recorded path cannot be one."""
    if path is not None and (not path or "\0" in path):
        raise DocumentError(f"{name} {path!r} is not a path")


def _reason(place: tuple[int | str, ...], message: str) -> str:
    """Pydantic's message as part of a sentence.

    >>> _reason(("shards", 0, "num_tokens"), "Input should be a valid integer")
    'shards.0.num_tokens should be a valid integer'
    >>> _reason(("size",), "Unexpected keyword argument")
    'the key size is unknown'
    >>> _reason((), "Invalid JSON: EOF while parsing a value at line 1 column 0")
    'not valid JSON (EOF while parsing a value at line 1 column 0)'
    """
    where = ".".join(map(str, place)) or "the document"
    if message.startswith("Invalid JSON: "):
        return f"not valid JSON ({message.removeprefix('Invalid JSON: ')})"
    if message in ("Unexpected keyword argument", "Extra inputs are not permitted"):
        return f"the key {where} is unknown"
    if message in ("Field required", "Missing required argument"):
        return f"the key {where} is missing"
    return f"{where} {message.removeprefix('Input ').removeprefix('Value error, ')}"


@cache
def _schema(kind: type[T]) -> TypeAdapter[T] | None:
    """What checks a document; None where pydantic is not installed."""
    if find_spec("pydantic") is None:
        return None
    from pydantic import TypeAdapter  # noqa: PLC0415

    return TypeAdapter(kind)


def _check_format(text: str | bytes, kind: type[T]) -> None:
    """Raise unless the text has the ``format`` of its schema: another version's document is not a damaged one."""
    wanted = getattr(kind, "format", None) if is_dataclass(kind) else None
    if wanted is None:
        return
    whole = parse_json(text)
    found = whole.get("format") if isinstance(whole, dict) else None
    if found != wanted or isinstance(found, bool):
        raise DocumentError(f"format {found!r}, but this tagtrace reads format {wanted!r}; use a matching version")


def parse_json(text: str | bytes) -> Any:
    """Any JSON value; raises DocumentError."""
    try:
        if find_spec("pydantic_core") is None:
            return json.loads(text)
        from pydantic_core import from_json  # noqa: PLC0415

        return from_json(text)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"not valid JSON ({error})") from None


def _plain_document(text: str | bytes, kind: type[T]) -> T:
    try:
        return cast("T", _plain(json.loads(text), kind))
    except (ValueError, TypeError, RecursionError, AttributeError) as error:
        raise DocumentError(f"not valid JSON, or not of this kind ({error})") from None


def _plain(value: Any, kind: Any) -> Any:
    """A parsed value as dataclasses and tuples, where the type says so."""
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        known = {each.name for each in fields(kind)}
        return cast("Any", kind)(
            **{name: _plain(each, hints[name]) if name in known else each for name, each in value.items()}
        )
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        options = [option for option in inner if option is not type(None)]
        return value if value is None or len(options) > 1 else _plain(value, options[0])
    if origin is tuple and isinstance(value, list):
        kinds = [inner[0]] * len(value) if inner[-1:] == (...,) else inner
        return tuple(_plain(each, one) for each, one in zip(value, kinds, strict=True))
    if origin in (dict, Mapping) and isinstance(value, dict) and inner:
        return {name: _plain(each, inner[1]) for name, each in value.items()}
    return value
