"""Opening the file of a database of decisions, which may come from anybody.

SQLite follows links, waits for pipes, runs the triggers and views of a file, and deletes what a journal beside it
names. So the file and those beside it must be ordinary ones, and its schema must be ours, before anything else is asked
of it.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path

from tagtrace._checks import DataError
from tagtrace._documents import real_path

PATIENCE = 20.0
"""Maximum number of seconds to wait while another process writes."""
MAX_SECONDS = 60.0
"""Time in which SQLite has to come to an end with a file that nobody has looked at yet."""
MAX_BYTES = 1_000_000_000
"""Maximum size of the database: some two million decisions."""
RESERVE = 10_000_000
"""What is left free below ``MAX_BYTES``: a larger database is not opened, so no decision may make it one."""
MAX_LOG = 64_000_000
"""Size to which the write-ahead log shrinks after a large transaction."""
MAX_ID = MAX_BYTES
"""Maximum id of a row: more rows do not fit, and a page can hold it exactly."""
MAX_TEXT = 64_000_000
"""Maximum size of a row in bytes: the labels of a document of a million tokens fit."""

SCHEMA = """
create table if not exists setting(name text primary key, value text not null) without rowid;
create table if not exists decision(
    id integer primary key,
    time text not null,
    reviewer text not null,
    batch text not null,
    action text not null,
    rank integer,
    audit text not null,
    sentence_number integer not null,
    sentence text not null,
    start integer not null,
    stop integer not null,
    given text not null,
    labels text,
    note text not null,
    base integer,
    key text not null unique,
    undoes integer references decision(id)
);
create trigger if not exists decision_is_kept before delete on decision
    begin select raise(abort, 'decisions are never deleted'); end;
create trigger if not exists decision_is_final before update on decision
    begin select raise(abort, 'decisions are never changed'); end;
"""

_OBJECTS = "select type, name, tbl_name, coalesce(sql, '') from sqlite_master"
_BESIDE = ("", "-wal", "-shm", "-journal")
"""The ends of the names of all files of a database."""
_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")
"""The end of a journal that names another file, which SQLite deletes. Ours never do."""


def open_to_write(path: Path) -> sqlite3.Connection:
    """A connection to the database, which is created, for its owner alone, if there is none."""
    path = _checked(path)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    _make_private(path)
    found = _connect(str(path))
    try:
        _check_schema(found, path)
        (mode,) = found.execute("pragma journal_mode = wal").fetchone()
        if mode != "wal":
            raise DataError(f"{path}: this disk does not support write-ahead logs; use a local folder")
        found.execute(f"pragma journal_size_limit = {MAX_LOG}")
    except BaseException:
        found.close()
        raise
    return found


def open_copy(path: Path) -> sqlite3.Connection:
    """A copy in memory of the database as it is now, empty if there is none; no file is changed.

    Without a write-ahead log nobody has it open, and it is read as a file that nobody changes; even read-only, SQLite
    would create files beside it. If it was opened meanwhile, it is read again.
    """
    path, copy = _checked(path), _connect(":memory:")
    while path.exists():
        before = _stamps(path)
        address = f"{path.as_uri()}?mode=ro{'' if before[1] else '&immutable=1'}"
        with closing(_connect(address, uri=True)) as source:
            _check_schema(source, path)
            _check_size(source, path)
            source.backup(copy)
        if before[1] or before == _stamps(path):
            break
    return copy


@contextmanager
def in_time(connection: sqlite3.Connection) -> Iterator[None]:
    """Within the block, SQLite stops with an error if it does not come to an end."""
    end = time.monotonic() + MAX_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > end, 10_000)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)


def _checked(path: Path) -> Path:
    """The full path of the database; raises DataError unless all its files are ordinary ones, or are yet to be made."""
    path = real_path(path.parent) / path.name  # what is relative and begins with "file:" would be an address
    for end in _BESIDE:
        file = path.with_name(path.name + end)
        with suppress(FileNotFoundError):
            found = file.lstat()
            if not stat.S_ISREG(found.st_mode):
                raise DataError(f"{file}: is a link, a pipe or something else that is not a file; move it away")
            if found.st_size > MAX_BYTES:
                raise _too_large(file)
            if end == "-journal" and _names_another(file):
                raise DataError(f"{file}: was not left by a review, and could delete a file; move it away")
    return path


def _names_another(journal: Path) -> bool:
    with journal.open("rb") as stream:
        stream.seek(max(journal.stat().st_size - len(_NAMES_ANOTHER), 0))
        return stream.read() == _NAMES_ANOTHER


def _too_large(path: Path) -> DataError:
    return DataError(f"{path}: larger than {MAX_BYTES:,} bytes, so not a database of decisions; restore a copy")


def _make_private(path: Path) -> None:
    """Take permissions from others, and from the group too unless it may write, which somebody must have allowed."""
    for end in _BESIDE:
        file = path.with_name(path.name + end)
        with suppress(FileNotFoundError, PermissionError):  # it may belong to a colleague
            mode = file.stat().st_mode & 0o777
            wanted = mode & (0o770 if mode & 0o020 else 0o700)
            if wanted != mode:
                file.chmod(wanted)


def _connect(name: str, *, uri: bool = False) -> sqlite3.Connection:
    found = sqlite3.connect(name, timeout=PATIENCE, isolation_level=None, check_same_thread=False, uri=uri)
    found.text_factory = lambda text: text.decode("utf-8", "backslashreplace")
    found.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_TEXT)
    found.execute("pragma trusted_schema = off")
    found.execute("pragma cell_size_check = on")
    return found


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raise DataError if the database has a table, trigger, index or view that is not one of ours, as we make it."""
    with in_time(connection):
        for each in connection.execute(_OBJECTS):
            if each not in _known_objects():
                raise DataError(
                    f"{path}: not a database of decisions: its {each[0]} {each[1]} is not one that a review makes; "
                    "move it away"
                )


@cache
def _known_objects() -> frozenset[tuple[str, ...]]:
    """What databases have, those of a development version too, which call ``sentence_number`` ``chain``."""
    found = set[tuple[str, ...]]()
    for schema in (SCHEMA, SCHEMA.replace("sentence_number", "chain")):
        with closing(sqlite3.connect(":memory:")) as empty:
            empty.executescript(schema)
            found.update(empty.execute(_OBJECTS))
    return frozenset(found)


def check_room(connection: sqlite3.Connection, path: Path) -> None:
    """Raise DataError if a transaction makes the database so large that it would not be opened again."""
    if _size(connection) > MAX_BYTES - RESERVE:
        raise DataError(
            f"{path}: has no room for more decisions (at most {MAX_BYTES:,} bytes), so nothing was changed; export the "
            "data and begin a new project with it"
        )


def _check_size(connection: sqlite3.Connection, path: Path) -> None:
    """Raise DataError if a write-ahead log says that the database is much larger than its file."""
    if _size(connection) > MAX_BYTES:
        raise _too_large(path)


def _size(connection: sqlite3.Connection) -> int:
    (number,), (size,) = (connection.execute(f"pragma {name}").fetchone() for name in ("page_count", "page_size"))
    return number * size


def _stamps(path: Path) -> list[tuple[int, int] | None]:
    """Size and time of the database and of its write-ahead log; None for one that does not exist."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return [(file.stat().st_size, file.stat().st_mtime_ns) if file.exists() else None for file in files]
