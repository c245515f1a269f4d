"""Atomic writes: files are written under a temporary name and moved into place once complete."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO

from tagtrace._checks import OptionError
from tagtrace._documents import real_path, recorded_path

PART = ".tagtrace-part"
"""The end of the names of files that are being written, by which those of killed runs are known for tagtrace's own."""


_NEW: set[Path] = set()
"""Files that did not exist when the work began that writes them, and that may not be replaced."""


@contextmanager
def only_as_new(paths: Iterable[Path]) -> Iterator[None]:
    """In the block, files that do not exist yet replace none that somebody else writes meanwhile."""
    before = set(_NEW)
    _NEW.update(real_path(path) for path in paths if not path.exists())
    try:
        yield
    finally:
        _NEW.clear()
        _NEW.update(before)


def give_name(aside: Path, path: Path) -> None:
    """Give a file that is complete its name; raises OptionError if a file came there meanwhile and is not replaced."""
    if path not in _NEW:
        os.replace(aside, path)
        return
    check_still_new(path)
    try:
        os.link(aside, path)
    except FileExistsError:
        check_still_new(path)
        raise
    except OSError:  # this disk has no hard links
        os.replace(aside, path)
    else:
        aside.unlink()
    written(path)


def written(*paths: Path) -> None:
    """Note that files have been written: they may be written again."""
    _NEW.difference_update(paths)


def check_still_new(path: Path) -> None:
    """Raise OptionError if a file came to a place that was empty when the work began."""
    if path in _NEW and os.path.lexists(path):
        raise OptionError(f"{path}: was written by somebody else meanwhile; choose another file, or overwrite it")


def output_path(path: str | Path) -> Path:
    """The place that is written: what a link leads to, but a link that leads nowhere is refused."""
    path = Path(path)
    if path.is_symlink() and not path.exists():
        raise OptionError(f"{path}: is a link to a file that does not exist; remove it, or choose another name")
    return real_path(path)


def current_umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def make_ordinary(folder: Path, replaced: Path) -> None:
    """Give all in a folder ordinary permissions (safetensors sets private ones), and itself those of ``replaced``."""
    umask = current_umask()
    for each in (folder, *folder.rglob("*")):
        if each.is_symlink():
            continue
        os.chmod(each, (0o777 if each.is_dir() else 0o666) & ~umask)
    if replaced.is_dir():
        os.chmod(folder, replaced.stat().st_mode & 0o777)


def _withheld(paths: Iterable[Path]) -> int:
    """The permissions that the group and others lack if one of the files or folders cannot be read by them."""
    return lacking([path.stat().st_mode for path in paths if path.is_file() or path.is_dir()])


def lacking(modes: Collection[int]) -> int:
    """The permissions of the group and of others if one of the modes does not let them read."""
    return sum(bits for bits in (0o070, 0o007) if any(not mode & bits & 0o444 for mode in modes))


@contextmanager
def as_private_as(paths: Iterable[Path]) -> Iterator[None]:
    """New files are for nobody who cannot read all of ``paths``. This is the umask, so of the whole process."""
    before = current_umask()
    os.umask(before | _withheld(paths))
    try:
        yield
    finally:
        os.umask(before)


def with_contents(path: Path) -> Iterator[Path]:
    """A path and, if it is a folder, all that is in it and not hidden; links to folders are not followed."""
    yield path
    waiting = [path] if path.is_dir() else []
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if not entry.name.startswith("."):
                    yield Path(entry.path)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))


def keep_mode(aside: Path, path: Path, source: Path | None) -> None:
    """Give a file the permissions of the one that it will replace, but none that its source lacks."""
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~current_umask()
    os.chmod(aside, mode & ~_withheld([] if source is None else with_contents(source)))


def keep_modes(aside: Path, path: Path, source: Path) -> None:
    """The same for a folder and all that is in it."""
    umask, withheld = current_umask(), _withheld(with_contents(source))
    for each in (*sorted(aside.rglob("*")), aside):
        old = path / each.relative_to(aside)
        ordinary = (0o777 if each.is_dir() else 0o666) & ~umask
        os.chmod(each, (old.stat().st_mode & 0o777 if old.exists() else ordinary) & ~withheld)


@contextmanager
def file_moved_when_whole(path: str | Path, *, source: Path | None = None, own: bool = False) -> Iterator[IO[bytes]]:
    """Open a temporary binary file beside ``path``; it takes that name only when the block ends without an error.

    It has the permissions of the file that it replaces, if any, but none that the file ``source`` of its content lacks.
    A device or a pipe (``/dev/stdout``) cannot be replaced and is written to directly. What a link points to is
    replaced, but not for an ``own`` file of tagtrace: the link, or a pipe, that somebody put in its place is.
    """
    path = Path(path)
    if path.is_dir():
        raise OptionError(f"{path}: is a folder; give the name of a file")
    if not own and path.exists() and not path.is_file():
        with _opened_at_once(path) as stream:
            yield stream
        return
    path = real_path(path.parent) / path.name if own else output_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PART, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        keep_mode(Path(name), path, source)
        give_name(Path(name), path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _opened_at_once(path: Path) -> IO[bytes]:
    """A device or a pipe to write to; OSError if nobody reads the pipe, which would make this wait for ever."""
    handle = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(handle, True)
    return os.fdopen(handle, "wb")


def copy_file(path: Path, target: str | Path) -> None:
    """Write the bytes of a file to ``target``."""
    with path.open("rb") as source, file_moved_when_whole(target, source=path) as stream:
        shutil.copyfileobj(source, stream)


def file_sha256(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_json(path: str | Path, value: object, *, own: bool = False) -> None:
    """Write a value as JSON; ``own`` as in ``file_moved_when_whole``."""
    with file_moved_when_whole(path, own=own) as stream:
        stream.write(json.dumps(value, ensure_ascii=False, indent=1).encode())


def check_outputs(
    outputs: Mapping[str, Path],
    inputs: Mapping[str, Path],
    *,
    overwrite: bool,
    folders: Mapping[str, Path] = MappingProxyType({}),
) -> None:
    """Raise, before any work is done, if a file is an input, the same as another output, or an existing file.

    ``folders`` are other outputs. The keys describe the files in messages.
    """
    taken = {real_path(path): what for what, path in folders.items()}
    for what, path in outputs.items():
        check_not_input(what, path, inputs)
        if real_path(path) in taken:
            raise OptionError(f"{path}: cannot be both {taken[real_path(path)]} and {what}; give them different names")
        taken[output_path(path)] = what
        if path.is_dir():
            raise OptionError(f"{path}: is a folder; give the name of a file for {what}")
        if path.is_file() and not overwrite:
            raise OptionError(f"{path}: exists already; choose another file for {what}, or overwrite it")


def check_not_input(what: str, path: Path, inputs: Mapping[str, Path]) -> None:
    """Raise if an output, which messages call ``what``, is an input or inside one that is a folder."""
    for name, source in inputs.items():
        if real_path(path) == real_path(source) or (path.exists() and source.exists() and path.samefile(source)):
            raise OptionError(f"{path}: is {name}, which is never overwritten; choose another name for {what}")
        if real_path(path).is_relative_to(real_path(source)):
            raise OptionError(f"{path}: is inside {name}, which is never changed; choose another place for {what}")


def check_parent(path: Path, made: Collection[Path] = ()) -> None:
    """Raise if the folder that ``path`` is to be in does not exist.

    One inside the working folder, or inside one of the folders that are ``made``, will be created.
    """
    parent = real_path(path).parent
    existing = next(folder for folder in (parent, *parent.parents) if folder.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise OptionError(f"{path}: {existing} is not a folder that can be written to; choose another folder")
    within = (Path.cwd(), *(real_path(folder) for folder in made))
    if existing != parent and not any(parent.is_relative_to(folder) for folder in within):
        raise OptionError(f"{path}: the folder {parent} does not exist; create it first, or choose another one")


def check_name_is_text(path: Path) -> None:
    """Raise if tensors could not be read from a folder because its name, or that of a parent, is not UTF-8."""
    if recorded_path(real_path(path)).encode() != os.fsencode(real_path(path)):
        raise OptionError(
            f"{path}: its full name is not UTF-8, so weights could not be read from it; rename the folder"
        )
