"""Two files that appear together: data, which may be a folder too, and the log of what was changed in it.

Both are written aside. Then the data is renamed to ``.DATA.xxxxxxxxxxxxxxxx.N.tagtrace-pair``, where the digits are
those of the checksum of the log, and N tells the data that is replaced from any other, or is 0; the log gets its name;
and the data gets its name, for which an older folder is renamed. If the process is killed before the last step, the log
is there and tells which data belongs to it, and ``finish_pairs`` does that step, unless other data came meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tagtrace._checks import OptionError
from tagtrace._documents import real_path
from tagtrace._files import check_still_new, file_sha256, give_name, keep_mode, keep_modes, output_path, written
from tagtrace._folders import folder_aside, remove_left_over, replace_folder, replace_in_two_steps

_NUM_DIGITS = 16
_ENOUGH_SECONDS = 7 * 24 * 3600


@contextmanager
def pair_moved_when_whole(data: Path, log: Path, *, source: Path | None = None) -> Iterator[tuple[Path, Path]]:
    """Yield two paths to write to, whose files become ``data`` and ``log`` when the block ends without an error.

    They get the permissions of the files that they replace, but none that the file ``source`` of their content lacks.
    A device or a pipe cannot be replaced and is written to directly.
    """
    if _is_device(data) or _is_device(log):
        with moved_when_whole(data, source) as one, moved_when_whole(log, source) as other:
            yield one, other
        return
    data, log = output_path(data), output_path(log)
    for path in (data, log):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_left_over(path, "")
    with folder_aside(data) as one, folder_aside(log) as other:
        asides = one / data.name, other / log.name
        yield asides
        if data.exists() and data.is_dir() != asides[0].is_dir():
            raise OptionError(f"{data}: a folder and a file do not replace each other; choose another name")
        for aside, path in zip(asides, (data, log), strict=True):
            if aside.is_dir():
                keep_modes(aside, path, aside if source is None else source)
            else:
                keep_mode(aside, path, source)
        digest = file_sha256(asides[1])[:_NUM_DIGITS]
        staged = data.with_name(f".{data.name}.{digest}.{_stamp(data)}.tagtrace-pair")
        for path in (data, log):
            check_still_new(path)
        if staged.is_dir():  # of a run that was killed before its log was there
            _delete(staged)
        try:
            os.replace(asides[0], staged)
            os.replace(asides[1], log)
        finally:  # also after Ctrl-C
            if asides[1].exists():
                _delete(staged)
            else:
                with suppress(FileNotFoundError):  # another process has just finished the pair
                    _give_name(staged, data)
        written(data, log)


def _give_name(staged: Path, data: Path) -> None:
    """Two folders are never exchanged: the older one would then have the name of one that belongs to the log."""
    if staged.is_dir() and data.is_dir():
        replace_in_two_steps(staged, data)
    else:
        os.replace(staged, data)


def _delete(staged: Path) -> None:
    shutil.rmtree(staged) if staged.is_dir() else staged.unlink(missing_ok=True)


def _stamp(path: Path) -> int:
    """By which a file or folder is known as it is now; 0 if there is none."""
    if not os.path.lexists(path):
        return 0
    found = path.lstat()
    said = f"{found.st_ino} {found.st_size} {found.st_mtime_ns}".encode()
    return int.from_bytes(hashlib.sha256(said).digest()[:7])


def _is_device(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def moved_when_whole(path: Path, source: Path | None) -> Iterator[Path]:
    """A path to write to; unless it is a device, its file gets its name when the block ends without an error."""
    if _is_device(path):
        yield path
        return
    path = output_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with folder_aside(path) as folder:
        aside = folder / path.name
        yield aside
        if aside.is_dir():
            keep_modes(aside, path, aside if source is None else source)
            replace_folder(aside, path)
        else:
            keep_mode(aside, path, source)
            give_name(aside, path)


def finish_pairs(paths: Iterable[Path]) -> None:
    """If a run was killed between two files, one of which is in ``paths``, give the other its name too.

    What runs left that were killed before that is deleted, unless it is so young that they may go on. Raises
    OptionError if somebody has put other data there since.
    """
    paths = [real_path(path) for path in paths]
    digests = {file_sha256(path)[:_NUM_DIGITS] for path in paths if path.is_file()} if _staged(paths) else set[str]()
    for data, staged, digest, replaced in _staged(paths):
        with suppress(OSError):
            if digest in digests:
                if _stamp(data) not in (0, replaced):
                    raise OptionError(
                        f"{data}: was written by somebody else after a run was killed, whose result is {staged}; move "
                        "one of the two elsewhere"
                    )
                _give_name(staged, data)
            elif time.time() - staged.stat().st_mtime > _ENOUGH_SECONDS:
                _delete(staged)


def _staged(paths: Iterable[Path]) -> list[tuple[Path, Path, str, int]]:
    """Data that waits for its name: the name, where it is, the first digits of its log's checksum, what it replaces."""
    found: list[tuple[Path, Path, str, int]] = []
    for data in paths:
        pattern = re.compile(rf"\.{re.escape(data.name)}\.([0-9a-f]{{{_NUM_DIGITS}}})\.([0-9]+)\.tagtrace-pair")
        with suppress(OSError):
            names = (pattern.fullmatch(path.name) for path in sorted(data.parent.iterdir()))
            found += [(data, data.with_name(name[0]), name[1], int(name[2])) for name in names if name]
    return found
