"""Temporary files and folders that killed runs left behind."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from tagtrace._files import PART
from tagtrace._folders import left_over
from tagtrace.doctor.health import Symptom

_FILE = re.compile(rf"\.(?P<name>.+?)(?:\.[a-z0-9_]{{8}})?{re.escape(PART)}")
_FOLDER = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}\.tagtrace-(?P<kind>new|old)")
ENOUGH_SECONDS = 3600
"""Temporary files are not locked: younger ones may be those of a run that goes on."""


def left_behind(folder: Path, *, repair: bool, name: str | None = None) -> Iterator[Symptom]:
    """What killed runs left in a folder, or only what they left of ``name`` there; with ``repair`` it is deleted."""
    for path in _in_folder(folder):
        is_folder = path.is_dir() and not path.is_symlink()
        found = (_FOLDER if is_folder else _FILE).fullmatch(path.name)
        if found is None or name not in (None, found["name"]):
            continue
        if _is_free(path, found["name"], f"tagtrace-{found['kind']}") if is_folder else _is_old_file(path):
            yield _found(path, repair)


def _in_folder(folder: Path) -> list[Path]:
    """All paths in a folder; none if it may not be read, as that around a folder that may."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _is_old_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and time.time() - path.stat().st_mtime > ENOUGH_SECONDS


def _is_free(path: Path, name: str, kind: str) -> bool:
    """Whether no process has a temporary folder, and it is not the only copy of what had its name."""
    if kind.endswith("old") and not (path.parent / name).exists():
        return False
    return any(one == path for one in left_over(path.parent / name, kind))


def _found(path: Path, repair: bool) -> Symptom:
    if not repair:
        return Symptom(path, "left over", "repairable", "left by a run that was killed")
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    return Symptom(path, "left over", "repaired", "left by a run that was killed; deleted")
