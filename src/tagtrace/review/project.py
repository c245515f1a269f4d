"""The project file, which says where the index, the data and the audit of a review are.

A project is a folder with a file ``project.json``. The paths in it are absolute or relative to the folder:

    {"index": "index", "data": "data/train.conll", "dev": "data/dev.conll", "audit": "audit", "reading": {}}

``dev``, ``audit`` and ``tagger`` are optional. ``reading`` has the fields of ``ReadOptions`` that differ from their
defaults. Decisions are saved in ``decisions.sqlite`` in the same folder, exports in the folder ``export``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tagtrace._checks import OptionError
from tagtrace._files import file_moved_when_whole
from tagtrace.data import ReadOptions

MARKER = "project.json"
REQUIRED = ("index", "data")
OPTIONAL = ("dev", "audit", "tagger")


@dataclass(frozen=True)
class ProjectFile:
    """The content of ``project.json``, with paths that can be opened."""

    folder: Path
    index: Path
    data: Path
    dev: Path | None = None
    audit: Path | None = None
    tagger: Path | None = None
    """Folder of the index's tagger, if it was moved after the index was built."""
    reading: ReadOptions = field(default_factory=ReadOptions)

    def __post_init__(self) -> None:
        if self.data.resolve().parent == self.export.resolve():
            raise OptionError(f"{self.data}: the export would overwrite this file; move it out of {self.export}")

    @property
    def decisions(self) -> Path:
        return self.folder / "decisions.sqlite"

    @property
    def export(self) -> Path:
        """The folder that exports are written to."""
        return self.folder / "export"

    @property
    def name(self) -> str:
        return self.folder.resolve().name


def read_project_file(folder: str | Path) -> ProjectFile:
    """Read and check the project file of a folder."""
    path = Path(folder) / MARKER
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise OptionError(f"{folder}: has no {MARKER}; give the index and the data to create a project") from None
    except (OSError, ValueError, RecursionError) as error:
        raise OptionError(f"{path}: cannot be read as JSON ({error}); correct or delete it") from None
    return _checked(path, saved)


def write_project_file(folder: str | Path, reading: ReadOptions | None = None, **places: Path | None) -> ProjectFile:
    """Write the project file for ``index`` and ``data`` and, optionally, ``dev``, ``audit`` and ``tagger``.

    Paths inside the folder are written relative to it, so that the folder can be moved; all others are absolute.
    """
    path, saved = Path(folder) / MARKER, _saved(Path(folder), reading, places)
    found = _checked(path, saved)
    with file_moved_when_whole(path) as stream:
        stream.write(json.dumps(saved, ensure_ascii=False, indent=1).encode())
    return found


def new_project(folder: str | Path, reading: ReadOptions | None = None, **places: Path | None) -> ProjectFile:
    """The project that ``write_project_file`` would create, without writing it."""
    return _checked(Path(folder) / MARKER, _saved(Path(folder), reading, places))


def _saved(folder: Path, reading: ReadOptions | None, places: Mapping[str, Path | None]) -> dict[str, Any]:
    named = {name: _written(place, folder) for name, place in places.items() if place is not None}
    default = asdict(ReadOptions())
    changed = {name: value for name, value in asdict(reading or ReadOptions()).items() if value != default[name]}
    return {**named, "reading": changed}


def _checked(path: Path, saved: Any) -> ProjectFile:
    if not isinstance(saved, dict):
        raise OptionError(f"{path}: expected a JSON object with the keys index and data; correct or delete it")
    unknown = [name for name in saved if name not in (*REQUIRED, *OPTIONAL, "reading")]
    missing = [name for name in REQUIRED if not saved.get(name)]
    if unknown or missing:
        what = f"the key {missing[0]!r} is missing" if missing else f"the key {unknown[0]!r} is unknown"
        raise OptionError(f"{path}: {what}; expected index and data, and optionally dev, audit, tagger and reading")
    places = {name: saved[name] for name in (*REQUIRED, *OPTIONAL) if saved.get(name) is not None}
    for name, place in places.items():
        if not isinstance(place, str):
            raise OptionError(f"{path}: {name} must be a path; got {place!r}")
    opened = {name: path.parent / place for name, place in places.items()}
    return ProjectFile(path.parent, **opened, reading=_reading(path, saved.get("reading", {})))


def _reading(path: Path, saved: Any) -> ReadOptions:
    known = asdict(ReadOptions())
    if not isinstance(saved, Mapping) or any(name not in known for name in saved):
        raise OptionError(f"{path}: reading must be an object with keys among {', '.join(known)}")
    return ReadOptions(**{str(name): value for name, value in saved.items()})


def _written(place: Path, folder: Path) -> str:
    inside = os.path.relpath(place.resolve(), folder.resolve())
    return Path(inside).as_posix() if not inside.startswith(os.pardir) else str(place.resolve())
