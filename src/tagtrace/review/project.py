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
from tagtrace._documents import Document, check_recorded_path, read_document, real_path, recorded_path
from tagtrace._files import file_moved_when_whole
from tagtrace.data import ReadOptions

MARKER = "project.json"
PLACES = ("index", "data", "dev", "audit", "tagger")


@dataclass(frozen=True)
class ProjectDocument(Document):
    """``project.json`` as it is written."""

    index: str
    data: str
    dev: str | None = None
    audit: str | None = None
    tagger: str | None = None
    reading: ReadOptions = field(default_factory=ReadOptions)

    def __post_init__(self) -> None:
        for name in PLACES:
            check_recorded_path(name, getattr(self, name))


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
        export = real_path(self.folder) / self.export.name
        for place in (self.data, self.dev, self.index, self.audit, self.tagger):
            if place is not None and real_path(place).is_relative_to(export):
                raise OptionError(f"{place}: an export could overwrite this; move it out of {self.export}")

    @property
    def decisions(self) -> Path:
        return self.folder / "decisions.sqlite"

    @property
    def export(self) -> Path:
        """The folder that exports are written to."""
        return self.folder / "export"

    @property
    def name(self) -> str:
        return real_path(self.folder).name


def read_project_file(folder: str | Path) -> ProjectFile:
    """Read and check the project file of a folder."""
    path = Path(folder) / MARKER
    if not path.exists():
        raise OptionError(f"{folder}: has no {MARKER}; give the index and the data to create a project")
    return _opened(path, read_document(path, ProjectDocument, remedy="correct or delete it", error=OptionError))


def write_project_file(folder: str | Path, reading: ReadOptions | None = None, **places: Path | None) -> ProjectFile:
    """Write the project file for ``index`` and ``data`` and, optionally, ``dev``, ``audit`` and ``tagger``.

    Paths inside the folder are written relative to it, so that the folder can be moved; all others are absolute.
    """
    path, saved = Path(folder) / MARKER, _saved(Path(folder), reading, places)
    found = new_project(folder, reading, **places)
    with file_moved_when_whole(path) as stream:
        stream.write(json.dumps(saved, ensure_ascii=False, indent=1).encode())
    return found


def new_project(folder: str | Path, reading: ReadOptions | None = None, **places: Path | None) -> ProjectFile:
    """The project that ``write_project_file`` would create, without writing it."""
    named = {name: _written(place, Path(folder)) for name, place in places.items() if place is not None}
    return _opened(Path(folder) / MARKER, ProjectDocument(**named, reading=reading or ReadOptions()))


def _saved(folder: Path, reading: ReadOptions | None, places: Mapping[str, Path | None]) -> dict[str, Any]:
    named = {name: _written(place, folder) for name, place in places.items() if place is not None}
    default = asdict(ReadOptions())
    changed = {name: value for name, value in asdict(reading or ReadOptions()).items() if value != default[name]}
    return {**named, "reading": changed}


def _opened(path: Path, saved: ProjectDocument) -> ProjectFile:
    places = {name: path.parent / place for name in PLACES if (place := getattr(saved, name)) is not None}
    return ProjectFile(path.parent, **places, reading=saved.reading)


def _written(place: Path, folder: Path) -> str:
    inside = os.path.relpath(real_path(place), real_path(folder))
    found = Path(inside).as_posix() if not inside.startswith(os.pardir) else str(real_path(place))
    if recorded_path(found).encode() != os.fsencode(found):
        raise OptionError(f"{place}: its name is not UTF-8, so a project cannot record it; rename it")
    return found
