"""A folder that belongs to one run: an interrupted run resumes from it, any other run is refused.

The marker, a JSON file, records the *owner* (everything that the results depend on), notes, and the complete files with
their checksums. It is replaced atomically after each step, so a run that is killed loses at most one step.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from tagtrace._checks import OptionError, TagtraceError
from tagtrace._files import write_json
from tagtrace._tensor_files import FileRecord, map_tensors, write_tensors


class RunFolder:
    """The folder of a run; ``what`` names its contents in messages, which are raised as ``error``."""

    folder: Path
    marker: str
    what: str
    error: type[TagtraceError]
    remedy: str

    def __init__(
        self,
        folder: str | Path,
        marker: str,
        owner: Mapping[str, Any],
        what: str,
        *,
        error: type[TagtraceError] = OptionError,
        remedy: str = "choose another folder",
    ) -> None:
        self.folder, self.marker, self.what = Path(folder), marker, what
        self.owner: dict[str, Any] = json.loads(json.dumps(owner))
        self.error, self.remedy = error, remedy
        self.files: dict[str, FileRecord] = {}
        self.notes: dict[str, Any] = {}
        """Results that belong to the files, such as the step that a run has reached."""

    @property
    def has_begun(self) -> bool:
        return (self.folder / self.marker).is_file()

    def open(self) -> RunFolder:
        """Resume an interrupted run or begin a new one; raises if the folder belongs to anything else."""
        self.resume_or_check()
        if not self.has_begun:
            self.begin()
        return self

    def resume_or_check(self) -> None:
        """Read what an interrupted run left; raises if the folder belongs to anything else."""
        if self.has_begun:
            self.resume()
        elif self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise self.error(f"{self.folder}: exists and has no {self.marker}; move it or choose another folder")

    def begin(self) -> None:
        """Create the folder, if there is none, and write the marker."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.save()

    def resume(self) -> None:
        """Read the marker; raises if it is damaged or belongs to another run."""
        path = self.folder / self.marker
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            owner, notes = dict(saved["owner"]), dict(saved["notes"])
            records = [FileRecord(**file) for file in saved["files"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self.error(f"{path}: damaged; {self.remedy}") from error
        if owner != self.owner:
            changed = [name for name, value in self.owner.items() if owner.get(name) != value] or ["version"]
            raise self.error(
                f"{self.folder}: {self.what} of another run (different {', '.join(changed)}); {self.remedy}"
            )
        self.notes = notes
        self.files = {record.name: record for record in records if record.is_there(self.folder)}

    def save(self) -> None:
        """Write the marker."""
        files = [record.to_json() for record in self.files.values()]
        saved = {"owner": self.owner, "notes": self.notes, "files": files}
        write_json(self.folder / self.marker, saved)

    def has(self, *names: str) -> bool:
        """Whether these files are complete."""
        return all(name in self.files for name in names)

    def add(self, files: Mapping[str, Mapping[str, Tensor]], **notes: Any) -> None:
        """Write files of tensors, then record that they are complete."""
        self.files.update({name: write_tensors(self.folder, name, tensors) for name, tensors in files.items()})
        self.notes.update(notes)
        self.save()

    def read(self, name: str) -> dict[str, Tensor] | None:
        """The tensors of a complete file, memory-mapped; None if it is missing or damaged."""
        record = self.files.get(name)
        if record is None or record.problem(self.folder, contents=True) is not None:
            return None
        try:
            return map_tensors(self.folder / name)
        except TagtraceError:
            return None

    def forget(self, names: Iterable[str]) -> None:
        """Delete files that are no longer needed, and their folders once these are empty."""
        for name in list(names):
            self.files.pop(name, None)
            path = self.folder / name
            path.unlink(missing_ok=True)
            if path.parent != self.folder and path.parent.is_dir() and not any(path.parent.iterdir()):
                path.parent.rmdir()

    def remove(self) -> None:
        """Delete the whole folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
