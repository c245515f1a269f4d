"""The decisions on disk: an append-only table.

SQLite runs in write-ahead mode with synchronous = FULL: when a ``writing`` block has ended, its rows survive a killed
process and a power failure. Several processes can write, one after the other. Triggers prevent that a row is changed or
deleted.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tagtrace._checks import DataError, OptionError

PATIENCE = 20.0
"""Maximum number of seconds to wait while another process writes."""

_SCHEMA = """
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

_COLUMNS = (
    "time", "reviewer", "batch", "action", "rank", "audit", "sentence_number", "sentence", "start", "stop", "given",
    "labels", "note", "base", "key", "undoes",
)  # fmt: skip
_INSERT = f"insert into decision({', '.join(_COLUMNS)}) values ({', '.join('?' * len(_COLUMNS))})"
_SELECT = f"select id, {', '.join(_COLUMNS)} from decision"


@dataclass(frozen=True, slots=True)
class Decision:
    """One row: what a reviewer decided on a segment, an undo of such a row, or a redo, which undoes an undo."""

    time: str
    reviewer: str
    batch: str
    """Shared by decisions that were made together; they are undone together."""
    action: str
    rank: int | None
    audit: str
    """The fingerprint of the findings that the rank belongs to."""
    sentence_number: int
    sentence: str
    start: int
    stop: int
    given: tuple[str, ...]
    labels: tuple[str, ...] | None
    note: str
    base: int | None
    """The id of the last decision on these tokens that the reviewer had seen."""
    key: str
    """Chosen by the client; a decision that is sent twice with the same key is made once."""
    undoes: int | None = None
    """The id of the row that this one undoes."""
    id: int = 0
    """0 until the row is saved."""


class Store:
    """An open database of decisions. All methods can be called from any thread."""

    path: Path

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.RLock()
        try:
            self._connection = sqlite3.connect(
                self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            (mode,) = self._connection.execute("pragma journal_mode = wal").fetchone()
            if mode != "wal":
                raise OptionError(f"{self.path}: this disk does not support write-ahead logs; use a local folder")
            self._connection.execute("pragma synchronous = full")
            self._connection.execute("pragma foreign_keys = on")
            self._rename_old_column()
            self._connection.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise DataError(f"{self.path}: not a database of decisions ({error}); repair it or move it away") from None

    def _rename_old_column(self) -> None:
        """In databases of a development version, the column ``sentence_number`` is called ``chain``."""
        columns = [row[1] for row in self._connection.execute("pragma table_info(decision)")]
        if "chain" in columns:
            self._connection.execute("alter table decision rename column chain to sentence_number")

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction: when the block ends, all rows that were added in it are saved, or none."""
        with self._lock:
            self._connection.execute("begin immediate")
            try:
                yield
                self._connection.execute("commit")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("rollback")
                raise

    def add(self, one: Decision) -> int:
        """Append a decision and return its id; call it inside ``writing``."""
        values = {name: getattr(one, name) for name in _COLUMNS}
        values["given"] = json.dumps(one.given)
        values["labels"] = None if one.labels is None else json.dumps(one.labels)
        for name in ("sentence", "note", "reviewer"):  # SQLite cannot store lone surrogates
            values[name] = values[name].encode("utf-8", "backslashreplace").decode()
        found = self._connection.execute(_INSERT, [values[name] for name in _COLUMNS]).lastrowid
        assert found is not None
        return found

    def after(self, last: int) -> list[Decision]:
        """The decisions whose id is larger than ``last``, by id."""
        with self._lock:
            rows = self._connection.execute(f"{_SELECT} where id > ? order by id", (last,)).fetchall()
        return [_decision(row) for row in rows]

    def with_key(self, key: str) -> Decision | None:
        """The decision with a key; None if there is none."""
        with self._lock:
            row = self._connection.execute(f"{_SELECT} where key = ?", (key,)).fetchone()
        return None if row is None else _decision(row)

    def setting(self, name: str, value: str) -> str:
        """A value that is saved with the decisions; if ``name`` has no value yet, ``value`` is saved."""
        with self._lock:
            self._connection.execute("insert or ignore into setting values (?, ?)", (name, value))
            (found,) = self._connection.execute("select value from setting where name = ?", (name,)).fetchone()
        return found


def _decision(row: tuple[object, ...]) -> Decision:
    values = dict(zip(("id", *_COLUMNS), row, strict=True))
    values["given"] = tuple(json.loads(str(values["given"])))
    values["labels"] = None if values["labels"] is None else tuple(json.loads(str(values["labels"])))
    return Decision(**values)  # pyright: ignore[reportArgumentType]
