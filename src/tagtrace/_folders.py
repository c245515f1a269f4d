"""Folders that are replaced as a whole: written aside, then exchanged with what was there.

Where the system can exchange two names (``renameat2`` on Linux), a folder is at every moment the whole old or the whole
new one. Elsewhere the old one is renamed first; if the process dies before the second renaming, ``restore_folder``
undoes the first one, before the next reading or writing.

``.NAME.xxxxxxxx.tagtrace-new`` is a folder that is being written (or, after an exchange, the old one),
``.NAME.xxxxxxxx.tagtrace-old`` an old one. They are locked while their process runs; the next run that writes NAME
deletes those that are not.
"""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tagtrace._checks import OptionError
from tagtrace._documents import real_path
from tagtrace._files import PART, check_name_is_text, current_umask, keep_modes, lacking, make_ordinary

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_NEW, _OLD = "tagtrace-new", "tagtrace-old"
_TEMPORARY = re.compile(rf"\..+\.[0-9a-f]{{8}}\.({_NEW}|{_OLD})")
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_FOLDER_ONLY = sum(getattr(os, name, 0) for name in ("O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK"))
"""For opening: neither a link nor a pipe, which would wait for somebody to write to it."""


@dataclass(frozen=True)
class Product:
    """The files of one kind of folder. Only a folder of this kind, with nothing else in it, is replaced.

    >>> Product("m.json", ("m.json", "sub/part-*.bin")).has("sub/part-3.bin")
    True
    """

    marker: str
    """A file that every such folder contains."""
    files: tuple[str, ...]
    """Patterns of the paths of all files, part by part."""

    def has(self, path: str) -> bool:
        """Whether a path is one of the files, or what a killed run left of one."""
        *_, name = path.split("/")
        names = [name]
        if name.startswith(".") and name.endswith(PART):
            of = name[1:].removesuffix(PART)
            names += [of, of.rsplit(".", 1)[0]]  # the second: without the random part
        return any(self._is_file(f"{path.removesuffix(name)}{each}") for each in names)

    def _is_file(self, path: str) -> bool:
        return any(_matches(path.split("/"), pattern.split("/")) for pattern in self.files)

    def within(self, name: str) -> tuple[str, ...]:
        """The patterns of its files where it is a folder in another one."""
        return tuple(f"{name}/{pattern}" for pattern in self.files)

    def others(self, folder: Path) -> Iterator[str]:
        """The paths of files in a folder that are not of this kind."""
        for path in _files_below(folder, ""):
            if not self.has(path):
                yield path


def _matches(parts: list[str], patterns: list[str]) -> bool:
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def _files_below(folder: Path, prefix: str) -> Iterator[str]:
    """All that is in a folder, but for folders and what killed runs left; links are not followed."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            if entry.is_dir(follow_symlinks=False):
                if not _TEMPORARY.fullmatch(entry.name):
                    yield from _files_below(folder / entry.name, f"{prefix}{entry.name}/")
            else:
                yield prefix + entry.name


def check_replaceable(
    path: str | Path, *, overwrite: bool, product: Product, inputs: Mapping[str, str | Path] | None = None
) -> None:
    """Raise, before any work is done, if a folder cannot be created or may not be replaced.

    Only an empty folder or one of the same kind, without files of any other kind, may be replaced, and never one that
    an input is in. The keys of ``inputs`` describe these in messages.
    """
    path = Path(path)
    check_movable(path)
    check_holds_no_input(path, inputs or {})
    if not path.exists():
        return
    if not overwrite:
        raise OptionError(f"{path}: exists already; choose another folder, or overwrite it")
    _check_kind(path, product)


def check_movable(path: Path) -> None:
    """Raise, before any work is done, if no folder could be moved to ``path``, where there may be one."""
    check_name_is_text(path)
    restore_folder(path)
    parent = next((parent for parent in real_path(path).parents if parent.exists()), path)
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise OptionError(f"{path}: {parent} is not a folder that can be written to; choose another folder")
    if path.is_symlink() and not path.exists():
        raise OptionError(f"{path}: is a link to a folder that does not exist; remove it, or choose another folder")
    if path.is_mount():
        raise OptionError(f"{path}: a disk is mounted here, so it is not replaced; choose a folder in it")
    if path.exists() and _is_inside(Path(), path):
        raise OptionError(f"{path}: is the working folder, so it is not replaced; work in another folder")


def check_holds_no_input(path: Path, inputs: Mapping[str, str | Path]) -> None:
    """Raise if an input is in a folder that is to be replaced."""
    for what, source in inputs.items():
        if _is_inside(Path(source), path):
            raise OptionError(f"{path}: {source} ({what}) is in this folder; choose another folder")


def _check_kind(path: Path, product: Product) -> None:
    if not path.is_dir() or (any(path.iterdir()) and not (path / product.marker).is_file()):
        raise OptionError(
            f"{path}: has no {product.marker}, so it is not replaced; choose another folder, or remove this one"
        )
    other = next(product.others(path), None)
    if other is not None:
        raise OptionError(f"{path / other}: was not written by tagtrace, so {path} is not replaced; move it elsewhere")


def check_own(folder: Path, markers: Collection[str]) -> None:
    """Raise unless a folder that tagtrace made itself, and never asked for, is still one, or is yet to be made.

    Such a folder is not a link, which could lead anywhere, and if it has files, one of the ``markers`` is among them.
    """
    if folder.is_symlink():
        raise OptionError(f"{folder}: is a link, and nothing is written through it; remove it")
    check_movable(folder)
    is_made = any((folder / name).is_file() and not (folder / name).is_symlink() for name in markers)
    if folder.exists() and not is_made and (not folder.is_dir() or _has_files(folder)):
        raise OptionError(f"{folder}: was not written by tagtrace, so it is not replaced; move it elsewhere")


def _has_files(folder: Path) -> bool:
    """Whether anything is in a folder but hidden files."""
    return any(not path.name.startswith(".") for path in folder.iterdir())


def _named(path: str | Path) -> Path:
    """The path without links, but for its own name, which may be one."""
    return real_path(Path(path).parent) / Path(path).name


def _is_inside(source: Path, folder: Path) -> bool:
    """Whether a path, or what it links to, is a folder or something in it."""
    folders = {Path(os.path.normpath(folder.absolute())), Path(os.path.realpath(folder))}
    named = Path(os.path.realpath(source.parent)) / source.name
    places = (Path(os.path.normpath(source.absolute())), named, Path(os.path.realpath(source)))
    return any(not folders.isdisjoint((place, *place.parents)) for place in places)


@contextmanager
def folder_moved_when_whole(
    path: str | Path, *, overwrite: bool = False, product: Product, source: Path | None = None
) -> Iterator[Path]:
    """Yield an empty temporary folder beside ``path``; it takes that name only when the block ends without an error.

    Its files get ordinary permissions. If they are made from ``source``, they keep those of the files that they replace
    and get none that a file of ``source`` lacks.
    """
    check_replaceable(path, overwrite=overwrite, product=product)
    path = real_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_left_over(path, product.marker)
    with folder_aside(path) as aside:
        yield aside
        if source is None:
            make_ordinary(aside, path)
        else:
            keep_modes(aside, path, source)
        _write_to_disk(aside)
        if path.exists():
            _check_kind(path, product)  # work may have taken hours
        replace_folder(aside, path, product)


@contextmanager
def files_replaced_together(folder: str | Path, product: Product) -> Iterator[Path]:
    """Yield an empty folder, whose files replace all of ``product`` in ``folder`` at once, at the end of the block.

    All else in ``folder`` stays. It is replaced as a whole: what stays is linked into the new one. If ``folder`` is a
    link, the link is replaced.
    """
    check_movable(Path(folder))
    path = _named(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_left_over(path, product.marker)
    with folder_aside(path) as aside:
        make_ordinary(aside, path)
        yield aside
        _write_to_disk(aside)
        if path.exists():
            _keep_modes(path, aside)
            _link_others(path, aside, product)
        replace_folder(aside, path, product)


def _keep_modes(old: Path, new: Path) -> None:
    """Permissions stay as they were, but for those that what is new lacks, and for writing by everybody."""
    for name in (".", *_files_below(new, "")):
        if (old / name).exists() and not (old / name).is_symlink():
            made = 0o777 & ~current_umask() if name == "." else (new / name).stat().st_mode
            os.chmod(new / name, (old / name).stat().st_mode & 0o775 & ~lacking([made]))


def _link_others(source: Path, target: Path, product: Product, prefix: str = "") -> None:
    with os.scandir(source) as entries:
        for entry in entries:
            place, is_folder = target / entry.name, entry.is_dir(follow_symlinks=False)
            if os.path.lexists(place) and is_folder != place.is_dir():
                kind = "file" if is_folder else "folder"
                raise OptionError(f"{entry.path}: is in the way of a {kind} that is written here; move it elsewhere")
            if not is_folder:
                if not product.has(prefix + entry.name) and not os.path.lexists(place):
                    _link(Path(entry.path), place)
            elif not _TEMPORARY.fullmatch(entry.name):
                place.mkdir(exist_ok=True)
                shutil.copystat(entry.path, place)
                _link_others(Path(entry.path), place, product, f"{prefix}{entry.name}/")


def _link(source: Path, place: Path) -> None:
    try:
        os.link(source, place, follow_symlinks=False)
    except OSError:  # this disk has no hard links
        shutil.copy2(source, place, follow_symlinks=False)


def _write_to_disk(folder: Path) -> None:
    for name in (*_files_below(folder, ""), *(["."] if fcntl else [])):
        handle = os.open(folder / name, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def folder_aside(path: Path) -> Iterator[Path]:
    """Yield a new, locked folder beside ``path``; what has that name at the end is deleted."""
    aside = _temporary(path, _NEW)
    aside.mkdir(mode=0o700)
    while (handle := _lock(aside, is_needed=False)) is None:  # another run took it for one that was left over
        aside = _temporary(path, _NEW)
        aside.mkdir(mode=0o700)
    try:
        yield aside
    finally:
        os.close(handle)
        _delete(aside)


@contextmanager
def moved_aside(folder: Path, path: Path) -> Iterator[Path]:
    """Give a folder a temporary name beside ``path``; what has that name at the end is deleted."""
    aside, handle = _temporary(path, _NEW), _lock(folder)
    try:
        os.replace(folder, aside)
        yield aside
    finally:
        if handle is not None:
            os.close(handle)
        _delete(aside)


def _delete(folder: Path) -> None:
    """Delete a folder, as far as that can be done; Ctrl-C takes effect afterwards."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _temporary(path: Path, kind: str) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.{kind}")


def _lock(folder: Path, *, is_needed: bool = True) -> int | None:
    """The handle of a folder that is locked until it is closed; None if a process has it, or it is no longer there.

    Where folders cannot be locked, this is None if the lock ``is_needed``.
    """
    if fcntl is None:
        return None if is_needed else os.open(os.devnull, os.O_RDONLY)
    try:
        handle = os.open(folder, os.O_RDONLY | _FOLDER_ONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_held = os.path.samestat(os.fstat(handle), folder.lstat())
    except OSError as error:
        is_held = not is_needed and not isinstance(error, BlockingIOError | FileNotFoundError)
    if is_held:
        return handle
    os.close(handle)
    return None


def replace_folder(aside: Path, path: Path, product: Product | None = None) -> None:
    """Move ``aside`` to ``path``; afterwards an older ``path`` has the name ``aside``, or is deleted.

    Files that are not of the product, because they came at the last moment, move from the older one to the new one.
    """
    if not path.exists():
        os.replace(aside, path)
    elif _exchange(aside, path):
        _move_others(aside, path, product)
    else:
        replace_in_two_steps(aside, path, product)


def _move_others(old: Path, new: Path, product: Product | None) -> None:
    for name in [] if product is None else list(product.others(old)):
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(old / name, new / name)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names at once; False where the system cannot do that."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    return renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0


def replace_in_two_steps(aside: Path, path: Path, product: Product | None = None) -> None:
    """Rename the older folder ``path``, move ``aside`` to its place, and delete the older one."""
    old, handle = _temporary(path, _OLD), _lock(path)
    try:
        os.replace(path, old)
        os.replace(aside, path)
    except BaseException:
        if old.exists() and not path.exists():
            os.replace(old, path)
        raise
    finally:
        if handle is not None:
            os.close(handle)
    _move_others(old, path, product)
    _delete(old)


def left_over(path: Path, kind: str = _NEW) -> Iterator[Path]:
    """The temporary folders of ``path`` whose processes have ended, each locked until the next one is asked for."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.{kind}")
    with suppress(OSError):
        for folder in sorted(path.parent.iterdir()):
            handle = _lock(folder) if pattern.fullmatch(folder.name) and not folder.is_symlink() else None
            if handle is not None:
                try:
                    yield folder
                finally:
                    os.close(handle)


def remove_left_over(path: Path, marker: str) -> None:
    """Delete what killed runs left beside ``path``; older folders only if ``path`` is a complete one.

    A folder is complete if it has its ``marker``; without one, if it is there.
    """
    for folder in left_over(path):
        shutil.rmtree(folder, ignore_errors=True)
    if (path / marker).is_file() if marker else path.is_dir():
        for folder in left_over(path, _OLD):
            shutil.rmtree(folder, ignore_errors=True)


def restore_folder(path: str | Path) -> None:
    """If a run was killed while it replaced a folder, which is therefore missing, give it its name back."""
    path = Path(os.path.realpath(path))
    if os.path.lexists(path):
        return
    found = {folder: folder.stat().st_mtime for folder in left_over(path, _OLD)}
    if found:
        with suppress(OSError):
            os.replace(max(found, key=lambda folder: found[folder]), path)
