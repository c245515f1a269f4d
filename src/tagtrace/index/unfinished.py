"""A half-built index: a folder ``OUT.building`` beside OUT that a later run can go on with.

``progress.json`` says what it belongs to and which files are whole; it is replaced in one stroke after each shard,
so a build killed at any moment loses at most the shard it was at.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from tagtrace._files import _make_ordinary, _replace_folder, file_moved_when_whole
from tagtrace.index.files import FileRecord, IndexFolderError, write_tensors
from tagtrace.index.manifest import MARKER

PROGRESS = "progress.json"


class Unfinished:
    """What exists already of the index ``target``; refuses what another build left."""

    def __init__(self, target: str | Path, owner: Mapping[str, Any], *, restart: bool = False) -> None:
        self.target = Path(target).resolve()
        self.folder = self.target.with_name(f"{self.target.name}.building")
        self.owner: dict[str, Any] = json.loads(json.dumps(owner))
        self.files: dict[str, FileRecord] = {}
        self.notes: dict[str, Any] = {}
        """Results that belong to the files, such as how the refit went."""
        if self.folder.exists():
            self._take_over(restart=restart)

    def _take_over(self, *, restart: bool) -> None:
        path = self.folder / PROGRESS
        if not path.is_file():
            if self.folder.is_dir() and not any(self.folder.iterdir()):
                return
            raise IndexFolderError(f"{self.folder}: in the way, and holds no {PROGRESS}; move it or choose another OUT")
        if restart:
            shutil.rmtree(self.folder)
            return
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            self._check_owner(saved["owner"])
            records = [FileRecord(**file) for file in saved["files"]]
            self.notes = dict(saved["notes"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise IndexFolderError(f"{path}: damaged; pass --restart to begin the index again") from error
        self.files = {record.name: record for record in records if record.is_there(self.folder)}

    def _check_owner(self, owner: Mapping[str, Any]) -> None:
        if owner == self.owner:
            return
        changed = [name for name, value in self.owner.items() if owner.get(name) != value]
        raise IndexFolderError(
            f"{self.folder}: a half-built index of another run (different {', '.join(changed) or 'version'}); "
            "repeat that run's command to finish it, or pass --restart to begin again"
        )

    @property
    def num_bytes(self) -> int:
        """What is written already."""
        return sum(record.num_bytes for record in self.files.values())

    @contextmanager
    def kept_if_useful(self) -> Iterator[None]:
        """Make the folder; after an error it stays only where it holds something whole to go on with."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._save()
            yield
        except BaseException:
            if not self.files:
                shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def has(self, *names: str) -> bool:
        """Whether these files are whole."""
        return all(name in self.files for name in names)

    def add(self, files: Mapping[str, Mapping[str, Tensor]], **notes: Any) -> None:
        """Write files of tensors, then note that they are whole."""
        written = {name: write_tensors(self.folder / name, tensors) for name, tensors in files.items()}
        self.files.update(written)
        self.notes.update(notes)
        self._save()

    def _save(self) -> None:
        files = [record.to_json() for record in self.files.values()]
        progress = {"owner": self.owner, "notes": self.notes, "files": files}
        with file_moved_when_whole(self.folder / PROGRESS) as stream:
            stream.write(json.dumps(progress, indent=1).encode())

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Add the manifest and move the folder to its place; an older index there is deleted last."""
        with file_moved_when_whole(self.folder / MARKER) as stream:
            stream.write(json.dumps(manifest, indent=1).encode())
        for path in self.folder.iterdir():
            if path.name not in (MARKER, PROGRESS, *self.files):
                path.unlink()  # what a killed build was writing
        _make_ordinary(self.folder)
        _replace_folder(self.folder, self.target)
        (self.target / PROGRESS).unlink(missing_ok=True)
