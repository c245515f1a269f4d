"""Open the review page of a project and serve it until it is stopped."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from tagtrace._checks import OptionError
from tagtrace._documents import real_path
from tagtrace.data import ReadOptions
from tagtrace.review.project import MARKER, ProjectFile, new_project, read_project_file, write_project_file
from tagtrace.review.review import open_review


def review_project(
    folder: str | Path,
    *,
    index: str | Path | None = None,
    data: str | Path | None = None,
    dev: str | Path | None = None,
    audit: str | Path | None = None,
    tagger: str | Path | None = None,
    reading: ReadOptions | None = None,
    reviewer: str | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    allow_remote: bool = False,
    browser: bool = True,
    device: str = "cpu",
    show: Callable[[str], None] = print,
    note: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve the review page of the project in ``folder`` until Ctrl-C.

    If the folder has no ``project.json``, one is written for ``index`` and ``data`` and, optionally, ``dev`` and
    ``audit``. ``tagger`` is the folder of the index's tagger, if it was moved. An address that other machines can reach
    needs ``allow_remote``. ``show`` is called with the address, which has the token that clients need, ``note`` with
    each step. Explanations are computed on ``device``.
    """
    for package in ("fastapi", "uvicorn"):
        if find_spec(package) is None:
            how = 'pip install "tagtrace[review]" (from a checkout: pip install -e ".[review]")'
            raise OptionError(f"the review page needs {package}: {how}")
    from tagtrace.review.http import serve  # noqa: PLC0415 - needs the packages above

    serve.check_host(host, allow_remote=allow_remote)
    named = {"index": index, "data": data, "dev": dev, "audit": audit}
    places = {name: Path(place) for name, place in named.items() if place is not None}
    file, is_new = _project(Path(folder), places, reading)
    if tagger is not None:
        file = replace(file, tagger=Path(tagger))
    with serve.listen(host, port) as listening:  # before anything is started in the background
        opened = open_review(file, reviewer or _login(), say=note, device=device)
        if is_new:
            kept = places if tagger is None else {**places, "tagger": Path(tagger)}
            write_project_file(folder, reading, **kept)
        reviewed = opened.data
        show(f"{file.name}: {len(reviewed.findings):,} findings in {len(reviewed.sentences):,} sentences")
        with suppress(KeyboardInterrupt):
            serve.serve(
                opened, host, port, allow_remote=allow_remote, browser=browser, listening=listening,
                say=lambda url: show(f"open {url}   (Ctrl-C stops)"),
            )  # fmt: skip
    note(f"stopped; all decisions are saved in {file.decisions}")


def _project(folder: Path, places: dict[str, Path], reading: ReadOptions | None) -> tuple[ProjectFile, bool]:
    """The project in the folder, or a new one, and whether it is new."""
    if places and (folder / MARKER).exists():
        _check_same(read_project_file(folder), places)
        places = {}
    if not {"index", "data"} <= places.keys():
        file = read_project_file(folder)
        if reading not in (None, ReadOptions(), file.reading):
            raise OptionError(f"{folder / MARKER}: this project already says how its data is read; edit that file")
        return file, False
    for name, place in places.items():
        if not place.exists():
            raise OptionError(f"{place}: does not exist; give the path of the {name}")
    return new_project(folder, reading, **places), True


def _check_same(file: ProjectFile, places: dict[str, Path]) -> None:
    """Raise unless a project has these places: the command that began it can be repeated."""
    for name, place in places.items():
        known: Path | None = getattr(file, name)
        if known is None or real_path(known) != real_path(place):
            raise OptionError(
                f"{file.folder / MARKER}: this project already has its {name}; leave it out, or edit the file"
            )


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # the user has no name
        return "reviewer"
