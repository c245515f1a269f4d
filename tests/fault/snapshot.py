"""The contents of a folder in a form that can be compared: times and secrets are left out."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import stat
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tests.fault.table import Case

VARYING = {"cost", "seconds", "factor_seconds", "milliseconds", "versions", "time", "batch"}
"""Keys of JSON objects, and columns of tables, that differ from run to run."""
CACHES = ("*/verified.json", "*/curvature*", "*.sqlite-wal", "*.sqlite-shm")
"""Files that may come and go at any time."""
Snapshot = dict[str, str]
"""What is at each path: a digest."""


def raw(folder: Path) -> Snapshot:
    """Every file by its bytes, and what is not a file by its kind."""
    return _each(folder, lambda path: hashlib.sha256(path.read_bytes()).hexdigest())


def canonical(folder: Path) -> Snapshot:
    """Every file by what it says."""
    return _each(folder, lambda path: hashlib.sha256(_said(path)).hexdigest())


def _each(folder: Path, digest: Any) -> Snapshot:
    found: Snapshot = {}
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(place) / name
            key = os.fsencode(path.relative_to(folder)).decode("utf-8", "backslashreplace")
            mode = path.lstat().st_mode
            if any(fnmatch(key, cache) for cache in CACHES):
                continue
            found[key] = digest(path) if stat.S_ISREG(mode) else f"kind {stat.S_IFMT(mode)}"
    return found


def _said(path: Path) -> bytes:
    data = path.read_bytes()
    if data.startswith(b"SQLite format 3\0"):
        return _rows(path)
    if path.suffix in (".json", ".jsonl"):
        try:
            return json.dumps([_steady(json.loads(line)) for line in _documents(path, data)], sort_keys=True).encode()
        except (ValueError, RecursionError):
            return data
    return steady_text(data)


def _documents(path: Path, data: bytes) -> list[bytes]:
    return [data] if path.suffix == ".json" else data.splitlines()


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _steady(each) for name, each in value.items() if name not in VARYING}
    if isinstance(value, float):
        return f"{value:.9g}"  # the last digits differ with where numbers lie in memory
    return [_steady(each) for each in value] if isinstance(value, list) else value


def steady_text(text: bytes) -> bytes:
    """Text without times, ports and what else differs from run to run."""
    text = re.sub(rb"\(\d+ s in all\)|about \d+ s left|seconds=[\d.]+", b"", text)
    text = re.sub(rb"http://127.0.0.1:\d+/\S*", b"http://", text)
    return re.sub(rb"<dc:date>.*?</dc:date>", b"", text)


def _rows(path: Path) -> bytes:
    connection = sqlite3.connect(path)
    found: list[Any] = []
    for (name,) in connection.execute("select name from sqlite_master where type = 'table' order by name").fetchall():
        for row in connection.execute(f"select * from {name}").fetchall():
            columns = [each[1] for each in connection.execute(f"pragma table_info({name})")]
            said = {column: str(value) for column, value in zip(columns, row, strict=True) if column not in VARYING}
            found.append([name, said])
    connection.close()
    return json.dumps(found).encode()


def is_below(path: str, parents: tuple[str, ...]) -> bool:
    """Whether a path is one of ``parents`` or in one of them; these may be patterns."""
    return any(fnmatch(path, parent) or fnmatch(path, f"{parent}/*") for parent in parents)


def is_temporary(path: str) -> bool:
    """Whether a path is, or is in, something that is moved into place or deleted once it is complete."""
    return any(part.startswith(".") for part in path.split("/"))


def inputs_changed(case: Case, before: Snapshot, after: Snapshot) -> list[str]:
    """The inputs that are not as they were."""
    kept = tuple(name for name in case.inputs if name not in case.changed)
    paths = {path for path in (*before, *after) if is_below(path, kept)}
    return sorted(path for path in paths if before.get(path) != after.get(path))
