"""A half-built index: a folder ``OUT.building`` beside OUT, from which an interrupted build resumes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tagtrace._files import file_moved_when_whole, make_ordinary, replace_folder
from tagtrace._run_folder import RunFolder
from tagtrace.index.files import IndexFolderError
from tagtrace.index.manifest import MARKER

PROGRESS = "progress.json"


class Unfinished(RunFolder):
    """The finished parts of the index ``target``; those of another build are refused."""

    target: Path

    def __init__(self, target: str | Path, owner: Mapping[str, Any], *, restart: bool = False) -> None:
        self.target = Path(target).resolve()
        super().__init__(
            self.target.with_name(f"{self.target.name}.building"),
            PROGRESS,
            owner,
            "a half-built index",
            error=IndexFolderError,
            remedy="repeat the run that began it, or restart to begin again",
        )
        if restart and self.has_begun:
            self.remove()
        self.resume_or_check()

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
        with file_moved_when_whole(self.folder / MARKER) as stream:
            stream.write(json.dumps(manifest, indent=1).encode())
        for path in self.folder.iterdir():
            if path.name not in (MARKER, PROGRESS, *self.files):
                path.unlink()  # what a killed build was writing
        make_ordinary(self.folder)
        replace_folder(self.folder, self.target)
        (self.target / PROGRESS).unlink(missing_ok=True)
