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
from typing import Any

from tagtrace._checks import DataError
from tagtrace._documents import parse_document
from tagtrace.review.decisions.database_file import MAX_ID, SCHEMA, check_room, in_time, open_copy, open_to_write

_COLUMNS = (
    "time", "reviewer", "batch", "action", "rank", "audit", "sentence_number", "sentence", "start", "stop", "given",
    "labels", "note", "base", "key", "undoes",
)  # fmt: skip
_NUMBERS = ("id", "rank", "sentence_number", "start", "stop", "base", "undoes")
_OPTIONAL = ("rank", "labels", "base", "undoes")
_NEXT = "(select coalesce(max(id), 0) + 1 from decision)"
_INSERT = f"insert into decision(id, {', '.join(_COLUMNS)}) values ({_NEXT}, {', '.join('?' * len(_COLUMNS))})"
"""SQLite would give a row some free id, which may be smaller than that of the row before."""
_END = "select coalesce({}(id), 1) from decision"
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
    """Empty for an undo or a redo, like ``labels``: the row that it undoes has them."""
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
    unreadable: dict[int, str]
    """Why a row could not be read, by its id; ``after`` leaves such rows out."""

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        """With ``read_only``, the decisions are read into memory, none if there is no file; no file is changed."""
        self.path, self.unreadable = Path(path), {}
        self._added = list[int]()  # ids of the rows of the current transaction
        self._lock = threading.RLock()
        try:
            self._connection = open_copy(self.path) if read_only else open_to_write(self.path)
            self._connection.execute("pragma synchronous = full")
            self._connection.execute("pragma foreign_keys = on")
            self._rename_old_column()
            self._connection.executescript(SCHEMA)
        except sqlite3.Error as error:
            raise DataError(f"{self.path}: not a database of decisions ({error}); repair it or move it away") from None
        if (problem := self._damage()) is not None:
            self.close()
            raise DataError(
                f"{self.path}: damaged ({problem}); restore a copy, or import the log of an export into a new project"
            )

    def _rename_old_column(self) -> None:
        """In databases of a development version, the column ``sentence_number`` is called ``chain``."""
        columns = [row[1] for row in self._connection.execute("pragma table_info(decision)")]
        if "chain" in columns:
            self._connection.execute("alter table decision rename column chain to sentence_number")

    def _damage(self) -> str | None:
        """What SQLite finds wrong with any page of the database (half a second for a million rows); None if nothing.

        A damaged page may otherwise be met only when a decision is saved. A row whose id is not one that ``add`` gives
        would not be read, or keep the rows after it from being read.
        """
        try:
            with in_time(self._connection):
                (answer,) = self._connection.execute("pragma integrity_check(1)").fetchone()
                (first,), (last,) = (self._connection.execute(_END.format(name)).fetchone() for name in ("min", "max"))
        except sqlite3.Error as error:
            return str(error)
        if answer != "ok":
            return str(answer)
        return None if 1 <= first <= last <= MAX_ID else f"its rows have the ids {first} to {last}"

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction: when the block ends, all rows that were added in it are saved, or none."""
        with self._lock:
            self._connection.execute("begin immediate")
            self._added.clear()
            try:
                yield
                check_room(self._connection, self.path)
                self._connection.execute("commit")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("rollback")
                for number in self._added:
                    self.unreadable.pop(number, None)
                raise

    def add(self, one: Decision) -> int:
        """Append a decision and return its id; call it inside ``writing``."""
        values = {name: getattr(one, name) for name in _COLUMNS}
        values["given"] = json.dumps(one.given)
        values["labels"] = None if one.labels is None else json.dumps(one.labels)
        for name in ("sentence", "note", "reviewer"):  # SQLite cannot store lone surrogates
            values[name] = values[name].encode("utf-8", "backslashreplace").decode()
        try:
            found = self._connection.execute(_INSERT, [values[name] for name in _COLUMNS])
        except (sqlite3.DataError, OverflowError) as error:  # too long a text, too large a number
            raise DataError(
                f"{self.path}: the decision cannot be saved ({error}); decide on fewer tokens at once"
            ) from None
        if found.rowcount != 1 or found.lastrowid is None:
            raise sqlite3.IntegrityError("the row was not added")
        self._added.append(found.lastrowid)
        return found.lastrowid

    def added(self, last: int) -> list[Decision]:
        """All rows after ``last``, read inside ``writing``; raises DataError unless they are those that it added.

        What cannot be read again is not saved.
        """
        found = self.after(last)
        if [row.id for row in found] != self._added or max(self._added, default=last) > MAX_ID:
            raise DataError(
                f"{self.path}: the decision could not be read again, so nothing was changed; restore a copy"
            )
        return found

    def after(self, last: int) -> list[Decision]:
        """The decisions whose id is larger than ``last``, by id."""
        found = list[Decision]()
        with self._lock:
            for row in self._connection.execute(f"{_SELECT} where id > ? order by id", (last,)):
                if row[0] <= last:  # pages that lead to each other have no end
                    raise DataError(f"{self.path}: its rows are not in order, so it is damaged; restore a copy")
                last = row[0]
                try:
                    found.append(_decision(row))
                except ValueError as error:
                    self.unreadable[row[0]] = str(error)
        return found

    def with_key(self, key: str) -> Decision | None:
        """The decision with a key; None if there is none."""
        with self._lock:
            row = self._connection.execute(f"{_SELECT} where key = ?", (key,)).fetchone()
        if row is None:
            return None
        try:
            return _decision(row)
        except ValueError as error:
            raise DataError(f"{self.path}: decision {row[0]} has this key and cannot be read ({error})") from None

    def has_setting(self, name: str) -> bool:
        """Whether ``name`` has a value."""
        with self._lock:
            return self._connection.execute("select 1 from setting where name = ?", (name,)).fetchone() is not None

    def setting(self, name: str, value: str) -> str:
        """A value that is saved with the decisions; if ``name`` has no value yet, ``value`` is saved."""
        with self._lock:
            self._connection.execute("insert or ignore into setting values (?, ?)", (name, value))
            (found,) = self._connection.execute("select value from setting where name = ?", (name,)).fetchone()
        return found


def _labels(value: object) -> tuple[str, ...]:
    """The labels in a row; raises ValueError if they are something else."""
    try:
        return parse_document(str(value), tuple[str, ...])
    except DataError as error:
        raise ValueError(f"its labels: {error}") from None


def _decision(row: tuple[object, ...]) -> Decision:
    """The decision in a row; raises ValueError if a value cannot be one of its kind."""
    values: dict[str, Any] = dict(zip(("id", *_COLUMNS), row, strict=True))
    for name, value in values.items():
        is_none = value is None and name in _OPTIONAL
        if not is_none and not isinstance(value, int if name in _NUMBERS else str):
            raise ValueError(f"{name} is of a wrong type")
    values["given"] = _labels(values["given"])
    values["labels"] = None if values["labels"] is None else _labels(values["labels"])
    return Decision(**values)
