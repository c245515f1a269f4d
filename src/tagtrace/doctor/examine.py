"""Examining a folder and the folders in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from tagtrace._checks import OptionError
from tagtrace._documents import real_path
from tagtrace._folders import restore_folder
from tagtrace.doctor.health import Health, Symptom
from tagtrace.doctor.kinds import KINDS, UNFINISHED
from tagtrace.doctor.left_behind import left_behind
from tagtrace.index.manifest import MARKER as INDEX
from tagtrace.tagger.folder import MARKER as TAGGER
from tagtrace.tagger.folder import is_tagger

MAX_DEPTH = 3
"""Folders in folders are looked at down to here: a demo has its index in a folder, a project its export."""


def examine(folder: str | Path, *, repair: bool = False) -> Health:
    """Check every tagger, index, audit and project in a folder whole: contents, ids, and what belongs to it elsewhere.

    With ``repair``, what can be made again or is of no use is removed: files that killed runs left, damaged files that
    only save time. An older folder whose replacement was interrupted gets its name back. Nothing else is changed.
    """
    folder = Path(folder)
    if repair:
        restore_folder(folder)
    if not folder.is_dir():
        raise OptionError(f"{folder}: not a folder; give that of a tagger, index, audit or project")
    found = [
        *left_behind(real_path(folder).parent, repair=repair, name=real_path(folder).name),
        *_below(folder, repair, 0),
    ]
    if not found:
        raise OptionError(f"{folder}: no tagger, index, audit or project in it; give the folder of one")
    return Health(folder, found)


def _below(folder: Path, repair: bool, depth: int) -> Iterator[Symptom]:
    for marker, kind in UNFINISHED.items():
        if (folder / marker).is_file():
            message = f"{kind} that was interrupted: give the same command again to finish it, or delete the folder"
            yield Symptom(folder, kind, "unfinished", message)
            return
    yield from left_behind(folder, repair=repair)
    check = _kind_of(folder)
    if check is not None:
        yield from check(folder, repair)
        if any((folder / marker).is_file() for marker in (INDEX, TAGGER)):
            return  # nothing else is in it
    if depth < MAX_DEPTH:
        for child in sorted(folder.iterdir()):
            if child.is_dir() and not child.is_symlink() and not child.name.startswith("."):
                yield from _below(child, repair, depth + 1)


def _kind_of(folder: Path) -> Callable[[Path, bool], Iterator[Symptom]] | None:
    found = next((check for marker, check in KINDS.items() if (folder / marker).is_file()), None)
    return KINDS[TAGGER] if found is None and is_tagger(folder) else found
