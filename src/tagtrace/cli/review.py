"""``tagtrace review``: the page where labels are looked at, decided on and exported."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from tagtrace._checks import OptionError
from tagtrace.cli.options import read_options, reading_options
from tagtrace.cli.show import err, out
from tagtrace.review.project import MARKER, ProjectFile, new_project, read_project_file, write_project_file
from tagtrace.review.review import open_review

_PLACES = ("index", "data", "dev", "audit", "tagger")


@click.command()
@click.argument("folder", metavar="PROJECT", type=click.Path(path_type=Path))
@click.option("--index", type=click.Path(path_type=Path), help="New project: the index of the training data.")
@click.option("--data", type=click.Path(path_type=Path), help="New project: the training data to be corrected.")
@click.option("--dev", type=click.Path(path_type=Path), help="New project: held-out data, for the view of errors.")
@click.option("--audit", type=click.Path(path_type=Path), help="New project: what audit wrote, for the findings.")
@click.option("--tagger", type=click.Path(path_type=Path),
              help="The index's tagger. [default: where it was when the index was built]")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), help="Where to listen. [default: 8321, or any that is free]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--allow-remote", is_flag=True,
              help="Let other machines in by a --host that they can reach. They need the token in the address printed; "
              "nothing is encrypted.")  # fmt: skip
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option("--reviewer", help="Who decides. [default: your login name]")
@reading_options
def review(folder: Path, **values: Any) -> None:
    """Open the review page of PROJECT: see why, decide by keyboard, export the corrected data.

    PROJECT is a folder with a project.json. Where it has none, one is made of --index and --data.
    """
    serving = _serving()
    serving.check_host(values["host"], allow_remote=values["allow_remote"])
    file, save = _project(folder, values)
    with serving.listen(values["host"], values["port"]) as listening:  # before anything is begun in the background
        opened = open_review(file, values["reviewer"] or _login(), say=lambda what: err.print(what, highlight=False))
        save()
        out.print(f"{file.name}: {len(opened.texts.findings):,} findings in {len(opened.texts.sentences):,} sentences")
        with suppress(KeyboardInterrupt):
            serving.serve(
                opened, values["host"], values["port"], allow_remote=values["allow_remote"],
                browser=not values["no_browser"], listening=listening,
                say=lambda url: out.print(f"open {url}   (Ctrl-C stops)", soft_wrap=True),
            )  # fmt: skip
    err.print(f"stopped; every decision is in {file.decisions}", soft_wrap=True)


def _serving() -> Any:
    """What serves the page, where it is installed."""
    try:
        from tagtrace.review.http import serve as serving  # noqa: PLC0415
    except ImportError as error:
        how = 'pip install "tagtrace[review]" (from a checkout: pip install -e ".[review]")'
        raise OptionError(f"the review page needs {error.name}: {how}") from None
    return serving


def _project(folder: Path, values: dict[str, Any]) -> tuple[ProjectFile, Callable[[], object]]:
    """The project in the folder, or a new one; and what to do once its parts could be opened."""
    reading = read_options(values)
    places = {name: values[name] for name in _PLACES if values[name] is not None}
    if (folder / MARKER).exists():
        named = [name for name in places if name != "tagger"]
        if named:
            raise OptionError(f"{folder / MARKER} says where the {named[0]} is; leave out --{named[0]}, or edit it")
        file = read_project_file(folder)
        return file if "tagger" not in places else _with_tagger(file, places["tagger"]), lambda: None
    if not {"index", "data"} <= places.keys():
        raise OptionError(f"{folder}: has no {MARKER}; give --index and --data (and --dev, --audit) once to make one")
    for name, place in places.items():
        if not place.exists():
            raise OptionError(f"--{name} {place}: does not exist")
    return new_project(folder, reading, **places), partial(write_project_file, folder, reading, **places)


def _with_tagger(file: ProjectFile, tagger: Path) -> ProjectFile:
    return ProjectFile(file.folder, file.index, file.data, file.dev, file.audit, tagger, file.reading)


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no name for this user
        return "reviewer"
