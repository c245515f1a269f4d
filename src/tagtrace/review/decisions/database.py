"""Decisions on the disk: a table that only grows.

SQLite in write-ahead mode with synchronous = FULL: when ``write`` returns, what it added survives a killed process and
a lost power supply. Several processes may write; each takes its turn. Triggers refuse to change or delete a row.
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
"""Seconds to wait for another process that writes."""

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
    """What a reviewer did at one place, or the undoing (``undoes``) of that, or of an undoing."""

    time: str
    reviewer: str
    batch: str
    """Decisions made, and undone, together."""
    action: str
    rank: int | None
    audit: str
    """The fingerprint of the findings that the rank is from."""
    sentence_number: int
    sentence: str
    start: int
    stop: int
    given: tuple[str, ...]
    labels: tuple[str, ...] | None
    note: str
    base: int | None
    """The last decision on the place that the reviewer saw."""
    key: str
    """Made by the client: the same key again is the same decision again."""
    undoes: int | None = None
    id: int = 0
    """0 until it is kept."""


class Store:
    """An open file of decisions. All methods may be called from any thread."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.RLock()
        try:
            self._connection = sqlite3.connect(
                self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            (mode,) = self._connection.execute("pragma journal_mode = wal").fetchone()
            if mode != "wal":
                raise OptionError(f"{self.path}: this disk cannot keep a write-ahead log; use a local folder")
            self._connection.execute("pragma synchronous = full")
            self._connection.execute("pragma foreign_keys = on")
            self._rename_old_column()
            self._connection.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise DataError(f"{self.path}: cannot be opened as decisions ({error}); move it away or mend it") from None

    def _rename_old_column(self) -> None:
        """Databases made by a development version call the number of a sentence ``chain``."""
        columns = [row[1] for row in self._connection.execute("pragma table_info(decision)")]
        if "chain" in columns:
            self._connection.execute("alter table decision rename column chain to sentence_number")

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction: everything added inside is kept when the block ends, or nothing."""
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
        """Append a decision; returns its id. Call it inside ``writing``."""
        values = {name: getattr(one, name) for name in _COLUMNS}
        values["given"] = json.dumps(one.given)
        values["labels"] = None if one.labels is None else json.dumps(one.labels)
        for name in ("sentence", "note", "reviewer"):  # SQLite takes no half of a surrogate pair
            values[name] = values[name].encode("utf-8", "backslashreplace").decode()
        found = self._connection.execute(_INSERT, [values[name] for name in _COLUMNS]).lastrowid
        assert found is not None
        return found

    def after(self, last: int) -> list[Decision]:
        """The decisions with larger ids, in order."""
        with self._lock:
            rows = self._connection.execute(f"{_SELECT} where id > ? order by id", (last,)).fetchall()
        return [_decision(row) for row in rows]

    def with_key(self, key: str) -> Decision | None:
        with self._lock:
            row = self._connection.execute(f"{_SELECT} where key = ?", (key,)).fetchone()
        return None if row is None else _decision(row)

    def setting(self, name: str, value: str) -> str:
        """A value that is kept with the decisions: the one there is, or this one from now on."""
        with self._lock:
            self._connection.execute("insert or ignore into setting values (?, ?)", (name, value))
            (found,) = self._connection.execute("select value from setting where name = ?", (name,)).fetchone()
        return found


def _decision(row: tuple[object, ...]) -> Decision:
    values = dict(zip(("id", *_COLUMNS), row, strict=True))
    values["given"] = tuple(json.loads(str(values["given"])))
    values["labels"] = None if values["labels"] is None else tuple(json.loads(str(values["labels"])))
    return Decision(**values)  # pyright: ignore[reportArgumentType]
