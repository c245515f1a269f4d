"""Where something is that a folder belongs to: recorded in full and relative to the folder, so that both may move.

The relative path is tried first: a copy of everything is then used instead of what it was copied from.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tagtrace._checks import OptionError
from tagtrace._documents import real_path, recorded_path

What = Literal["data", "tagger", "folder of arrays", "pipeline"]
_REMEDY: dict[What, str] = {
    "data": "give the file of the data",
    "tagger": "give the tagger's folder",
    "folder of arrays": "put it back",
    "pipeline": "put it back",
}


class MovedError(OptionError):
    """Something is not where it was; ``what`` is the name of the argument that says where it is."""

    def __init__(self, message: str, what: What) -> None:
        super().__init__(message)
        self.what = what


@dataclass(frozen=True)
class RecordedPlace:
    """A path as it is recorded."""

    path: str
    """In full."""
    relative: str
    """Relative to the folder that records it."""

    @classmethod
    def of(cls, path: str | Path, folder: str | Path) -> RecordedPlace:
        relative = os.path.relpath(real_path(path), real_path(folder))
        return cls(recorded_path(Path(path).absolute()), recorded_path(Path(relative)))


def find_place(folder: Path, what: What, path: str | None, relative: str | None) -> Path:
    """The first of the recorded paths where something is; raises MovedError with all that were tried."""
    if path is None:
        raise MovedError(f"{folder}: has no record of where its {what} is; {_REMEDY[what]}", what)
    tried = [*([folder / relative] if relative is not None else []), Path(path)]
    found = next((place for place in tried if place.exists()), None)
    if found is None:
        places = " nor at ".join(dict.fromkeys(os.path.normpath(place.absolute()) for place in tried))
        raise MovedError(f"{folder}: its {what} is no longer at {places}; {_REMEDY[what]}", what)
    return found
