"""What tests of files and folders look at."""

from __future__ import annotations

from pathlib import Path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fail_after(_: object, error: type[BaseException]) -> None:
    raise error


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777
