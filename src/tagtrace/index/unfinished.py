"""A half-built index: a folder ``OUT.building`` beside OUT, from which an interrupted build resumes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tagtrace._documents import real_path
from tagtrace._files import file_moved_when_whole, make_ordinary
from tagtrace._folders import left_over, moved_aside, remove_left_over, replace_folder
from tagtrace._run_folder import RunFolder
from tagtrace.index.files import IndexFolderError
from tagtrace.index.manifest import MARKER, PRODUCT

PROGRESS = "progress.json"


class Unfinished(RunFolder):
    """The finished parts of the index ``target``; those of another build are refused."""

    target: Path

    def __init__(self, target: str | Path, owner: Mapping[str, Any], *, restart: bool = False) -> None:
        self.target = real_path(target)
        super().__init__(
            self.target.with_name(f"{self.target.name}.building"),
            PROGRESS,
            owner,
            "a half-built index",
            product=replace(PRODUCT, marker=PROGRESS),
            error=IndexFolderError,
            remedy="repeat the run that began it, or restart to begin again",
            is_unasked=True,
        )
        self._take_back(*left_over(self.target))
        self._check_kind()
        if restart:
            self.remove()
        self.resume_or_check()

    def _take_back(self, *folders: Path) -> None:
        """Resume from a build that was killed while it was moved into place."""
        for folder in folders:
            if (folder / PROGRESS).is_file() and not self.folder.exists():
                os.replace(folder, self.folder)

    def _check_kind(self) -> None:
        other = next(PRODUCT.others(self.folder), None) if self.has_begun else None
        if other is not None:
            raise self.error(f"{self.folder / other}: was not written by tagtrace; move it elsewhere")

    @property
    def num_bytes(self) -> int:
        """The number of bytes written so far."""
        return sum(record.num_bytes for record in self.files.values())

    @contextmanager
    def kept_if_useful(self) -> Iterator[None]:
        """Create the folder; after an error it is kept only if it has a complete file to resume from."""
        try:
            self.begin()
            yield
        except BaseException:
            if not self.files:
                self.remove()
            raise

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Add the manifest and move the folder into place; an older index there is deleted last."""
        with file_moved_when_whole(self.folder / MARKER, own=True) as stream:
            stream.write(json.dumps(manifest, indent=1).encode())
        self._check_kind()
        for path in self.folder.iterdir():
            if path.name not in (MARKER, PROGRESS, *self.files):
                path.unlink()  # what a killed build was writing
        make_ordinary(self.folder, self.target)
        remove_left_over(self.target, MARKER)
        (self.target / PROGRESS).unlink(missing_ok=True)
        with moved_aside(self.folder, self.target) as aside:
            try:
                replace_folder(aside, self.target, PRODUCT)
            except BaseException:
                self._take_back(aside)
                raise
        (self.target / PROGRESS).unlink(missing_ok=True)
