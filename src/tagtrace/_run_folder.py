"""A folder that belongs to one run: an interrupted run resumes from it, any other run is refused.

The marker, a JSON file, records the *owner* (everything that the results depend on), notes, and the complete files with
their checksums. It is replaced atomically after each step, so a run that is killed loses at most one step.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar

from torch import Tensor

from tagtrace._checks import OptionError, TagtraceError
from tagtrace._documents import Document, parse_document, parse_json, read_document
from tagtrace._files import write_json
from tagtrace._folders import Product, moved_aside, remove_left_over
from tagtrace._tensor_files import FileRecord, map_tensors, write_tensors

T = TypeVar("T")


@dataclass(frozen=True)
class RunDocument(Document):
    """The marker of a run; owner and notes are checked by the run itself."""

    owner: dict[str, Any]
    notes: dict[str, Any]
    files: tuple[FileRecord, ...]


class RunFolder:
    """The folder of a run; ``what`` names its contents in messages, which are raised as ``error``."""

    folder: Path
    marker: str
    what: str
    error: type[TagtraceError]
    remedy: str
    is_unasked: bool
    """Whether nobody named the folder: its name follows from that of an output."""

    def __init__(
        self,
        folder: str | Path,
        marker: str,
        owner: Mapping[str, Any],
        what: str,
        *,
        product: Product | None = None,
        error: type[TagtraceError] = OptionError,
        remedy: str = "choose another folder",
        is_unasked: bool = False,
    ) -> None:
        self.folder, self.marker, self.what = Path(folder), marker, what
        self.product: Product = product or Product(marker, (marker, "*.safetensors", "*/*.safetensors"))
        self.owner: dict[str, Any] = parse_json(json.dumps(owner))
        self.error, self.remedy, self.is_unasked = error, remedy, is_unasked
        self.files: dict[str, FileRecord] = {}
        self.lost: tuple[str, ...] = ()
        """Names of recorded files that are missing or of another size."""
        self.notes: dict[str, Any] = {}
        """Results that belong to the files, such as the step that a run has reached."""

    @property
    def has_begun(self) -> bool:
        return (self.folder / self.marker).exists()

    def open(self) -> RunFolder:
        """Resume an interrupted run or begin a new one; raises if the folder belongs to anything else."""
        self.resume_or_check()
        if not self.has_begun:
            self.begin()
        return self

    def resume_or_check(self) -> None:
        """Read what an interrupted run left; raises if the folder belongs to anything else, or to somebody else."""
        self._check_place()
        if self.has_begun:
            self.resume()
        elif self.folder.exists() and (not self.folder.is_dir() or any(self.not_begun())):
            raise self.error(f"{self.folder}: exists and has no {self.marker}; move it or choose another folder")

    def _check_place(self) -> None:
        """Raise if a folder that nobody named is a link, or was made by another user, who foresaw its name."""
        if not self.is_unasked:
            return
        if self.folder.is_symlink():
            raise self.error(f"{self.folder}: is a link, which is not followed; remove it")
        if self.folder.exists() and self.folder.stat().st_uid != _own_uid(self.folder.parent):
            raise self.error(f"{self.folder}: {self.what} of another user; choose another folder")

    def not_begun(self) -> Iterator[Path]:
        """What is in a folder without a marker, but for one that was being written."""
        return (path for path in self.folder.iterdir() if not path.name.startswith(f".{self.marker}."))

    def begin(self) -> None:
        """Create the folder, if there is none, and write the marker."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.save()

    def resume(self) -> None:
        """Read the marker; raises if it is damaged or belongs to another run."""
        saved = self._read_marker()
        if saved.owner != self.owner:
            changed = [name for name, value in self.owner.items() if saved.owner.get(name) != value] or ["version"]
            raise self.error(
                f"{self.folder}: {self.what} of another run (different {', '.join(changed)}); {self.remedy}"
            )
        for record in saved.files:
            self._check_own(record.name)
        self.notes = saved.notes
        self.files = {record.name: record for record in saved.files if record.is_there(self.folder)}
        self.lost = tuple(record.name for record in saved.files if record.name not in self.files)

    def _check_own(self, name: str) -> None:
        """Raise unless a file is one that a run writes, and no link leads from the folder to another place."""
        path = self.folder / name
        below = [path, *path.parents][: len(Path(name).parts)]
        if not self.product.has(name) or any(each.is_symlink() for each in below):
            raise self.error(f"{path}: is not a file that tagtrace wrote here; move the folder elsewhere")

    def _read_marker(self) -> RunDocument:
        remedy = f"move the folder elsewhere, or {self.remedy}"
        return read_document(self.folder / self.marker, RunDocument, remedy=remedy, error=self.error)

    def save(self) -> None:
        """Write the marker."""
        saved = RunDocument(self.owner, self.notes, tuple(self.files.values()))
        write_json(self.folder / self.marker, asdict(saved), own=True)

    def has(self, *names: str) -> bool:
        """Whether these files are complete."""
        return all(name in self.files for name in names)

    def add(self, files: Mapping[str, Mapping[str, Tensor]], **notes: Any) -> None:
        """Write files of tensors, then record that they are complete; a run that has not begun begins."""
        if not self.has_begun:  # a folder with files and no marker would not be known for this run's
            self.begin()
        for name in files:
            self._check_own(name)
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

    def note(self, name: str, kind: type[T]) -> T:
        """A note, checked by the schema ``kind``, because a run may have been received."""
        try:
            return parse_document(json.dumps(self.notes.get(name)), kind)
        except TagtraceError as error:
            raise self.error(f"{self.folder / self.marker}: {name}: {error}; {self.remedy}") from None

    def forget(self, names: Iterable[str]) -> None:
        """Delete files that are no longer needed, and their folders once these are empty."""
        for name in list(names):
            self.files.pop(name, None)
            path = self.folder / name
            path.unlink(missing_ok=True)
            if path.parent != self.folder and path.parent.is_dir() and not any(path.parent.iterdir()):
                path.parent.rmdir()

    def remove(self) -> None:
        """Delete what a run wrote, at once, and the folder if nothing else is in it; what others wrote stays."""
        self._check_place()
        remove_left_over(self.folder, self.marker)
        if not self._is_of_a_run:
            return
        if self.is_own:
            with moved_aside(self.folder, self.folder):
                return
        (self.folder / self.marker).unlink()
        for path in sorted(self.folder.rglob("*"), reverse=True):
            if path.is_dir() and not path.is_symlink():
                _remove_if_empty(path)
            elif self.product.has(path.relative_to(self.folder).as_posix()):
                path.unlink()
        _remove_if_empty(self.folder)

    @property
    def is_own(self) -> bool:
        """Whether a run began here, and nothing but what it wrote is in the folder."""
        return self._is_of_a_run and not self.folder.is_symlink() and not any(self.product.others(self.folder))

    @property
    def _is_of_a_run(self) -> bool:
        """Whether a run began here. A damaged marker is that of a run if there are other files that a run writes."""
        if not self.has_begun:
            return False
        try:
            self._read_marker()
        except self.error:
            return any(self.folder.rglob("*.safetensors"))
        return True


def _own_uid(folder: Path) -> int:
    """The owner of what this user makes in a folder; disks of other machines may show another one."""
    with TemporaryFile(dir=folder) as stream:
        return os.fstat(stream.fileno()).st_uid


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def run_damage(folder: Path, marker: str) -> str | None:
    """What is wrong with the files of a run, whoever it belongs to; None if they have the recorded contents."""
    run = RunFolder(folder, marker, {}, "a run")
    try:
        records = run._read_marker().files
    except TagtraceError as error:
        return str(error)
    problems = (record.problem(folder, contents=True) for record in records)
    return next((problem for problem in problems if problem is not None), None)
