"""The files and folders of a command: what it reads and what it writes, and the check that runs before every command.

Each argument and option that is a path has one of the types below. Nothing is written onto an input or into a folder
that is read, onto an existing file without --overwrite, twice onto one path, or where there is no folder for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from tagtrace._checks import OptionError, TagtraceError
from tagtrace._files import check_not_input, check_outputs, check_parent, with_contents
from tagtrace._folders import check_holds_no_input
from tagtrace._pairs import finish_pairs
from tagtrace._places import find_place

Places = Mapping[str, Path]
"""Files and folders by what messages call them."""


class Input(click.Path):
    """A file or folder that is read and never changed."""

    def __init__(self, *, may_hold_outputs: bool = False) -> None:
        """``may_hold_outputs``: a folder in which a person may keep other files too."""
        super().__init__(path_type=Path)
        self.may_hold_outputs = may_hold_outputs

    def places(self, name: str, value: Any) -> Places:
        """All that is read for a value."""
        path = Path(value)
        return {} if self.may_hold_outputs and path.is_dir() else {name: path}


class IndexFolder(Input):
    """The folder of an index, which remembers where its data and its tagger are, or of a tagger."""

    def places(self, name: str, value: Any) -> Places:
        from tagtrace.index.manifest import read_manifest  # noqa: PLC0415  (`data check` needs no torch)

        found, folder = {name: Path(value)}, Path(value)
        with suppress(TagtraceError, OSError):
            data, tagger = read_manifest(folder).data, read_manifest(folder).tagger
            found[f"the data of {name}"] = find_place(folder, "data", data.path, data.from_index)
            found[f"the tagger of {name}"] = find_place(folder, "tagger", tagger.path, tagger.from_index)
        return found


class ProjectFolder(Input):
    """The folder of a review, whose parts may be anywhere."""

    def places(self, name: str, value: Any) -> Places:
        return {f"the {what} of {name}": path for what, path in _parts(value).items()} or {name: Path(value)}


def _parts(project: Path) -> Places:
    """All that a review reads; nothing if it has not begun, or cannot be read."""
    from tagtrace.review.project import MARKER, read_project_file  # noqa: PLC0415

    with suppress(TagtraceError, OSError):
        file = read_project_file(project)
        parts = {
            "decisions": file.decisions, "project file": file.folder / MARKER, "data": file.data, "dev": file.dev,
            "index": file.index, "audit": file.audit, "tagger": file.tagger,
        }  # fmt: skip
        return {what: path for what, path in parts.items() if path is not None}
    return {}


class EncoderName(click.types.StringParamType):
    """The name of an encoder, which may have a file or a folder in it: ``vectors:FILE``."""

    name = "text"

    def places(self, name: str, value: str) -> Places:
        given = re.sub(r"^(vectors|precomputed|transformer|spacy):", "", value)
        path = Path(given)
        if not given or not path.exists():
            return {}
        if value.startswith("precomputed:"):  # arrays often lie beside the data, where outputs may be too
            arrays = (file for file in path.glob("*") if file.suffix in (".npy", ".safetensors"))
            return {f"{file.name} of {name}": file for file in arrays}
        return {name: path}


class OutputFile(click.Path):
    """A file that is written aside and moved, or a device or a pipe that is written to."""

    def __init__(self, default: tuple[str, Callable[[Path], Path]] | None = None) -> None:
        """``default``: the name of another output, and the path that follows from it if none is given."""
        super().__init__(path_type=Path, readable=False)
        self.default = default


class OutputData(OutputFile):
    """Data: a file or, in some formats, a folder that appears as a whole."""

    def __init__(self, is_folder: Callable[[Mapping[str, Any]], bool]) -> None:
        """``is_folder``: whether it is a folder, by the values of all parameters."""
        super().__init__()
        self.is_folder = is_folder


class OutputFolder(click.Path):
    """A folder that appears as a whole, in the place of an older one only with --overwrite."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, readable=False)


class KeptFolder(OutputFolder):
    """A folder from which an interrupted command resumes: what is in it stays, and files are added."""


class KeptProject(KeptFolder):
    """The folder of a review that goes on. What it writes is as private as the parts that it names."""


def check_places(ctx: click.Context) -> list[Path]:
    """Raise, before any work is done, if an output of a command may not be written; returns all that it reads."""
    inputs = dict(_inputs(ctx))
    files, folders, kept = (_outputs(ctx, kind) for kind in (OutputFile, OutputFolder, KeptFolder))
    finish_pairs(files.values())
    for name in [name for name in _outputs(ctx, OutputData) if _is_folder(ctx, name)]:
        path = folders[name] = files.pop(name)
        check_not_input(name, path, inputs)
        if path.exists() and not ctx.params.get("overwrite"):
            raise OptionError(f"{path}: exists already; choose another folder for {name}, or overwrite it")
    for name, path in folders.items():
        if name not in kept:
            check_holds_no_input(path, inputs)
        check_not_input(name, path, inputs)
        check_parent(path)
    check_outputs(files, inputs, overwrite=ctx.params.get("overwrite", False), folders=folders)
    for path in files.values():
        check_parent(path, folders.values())
    if not files and not folders:
        return []
    given = (Path(value) for _, param, value in _values(ctx) if isinstance(param.type, Input))
    projects = _outputs(ctx, KeptProject).values()
    parts = (path for project in projects for what, path in _parts(project).items() if what != "decisions")
    return [*given, *(each for path in inputs.values() for each in with_contents(path)), *parts]


def new_files(ctx: click.Context) -> list[Path]:
    """The files that a command may not replace, once ``check_places`` has found those that were not given."""
    if ctx.params.get("overwrite"):
        return []
    return [path for name, path in _outputs(ctx, OutputFile).items() if not _is_folder(ctx, name)]


def _is_folder(ctx: click.Context, name: str) -> bool:
    return any(
        isinstance(param.type, OutputData) and param.type.is_folder(ctx.params)
        for each, param, _ in _values(ctx)
        if each == name
    )


def _values(ctx: click.Context) -> Iterator[tuple[str, click.Parameter, Any]]:
    """Each value of each parameter that has one, with what messages call it."""
    for param in ctx.command.params:
        name = param.opts[0] if isinstance(param, click.Option) else str(param.metavar).rstrip(".")
        given = ctx.params.get(param.name or "")
        for value in given if isinstance(given, tuple) else () if given is None else (given,):
            yield name, param, value


def _inputs(ctx: click.Context) -> Iterator[tuple[str, Path]]:
    for name, param, value in _values(ctx):
        if isinstance(param.type, Input | EncoderName):
            yield from param.type.places(name, value).items()


def _outputs(ctx: click.Context, kind: type[OutputFile | OutputFolder]) -> dict[str, Path]:
    """The outputs of a kind; those that were not given get the path that follows from another output."""
    for param in ctx.command.params:
        default = param.type.default if isinstance(param.type, OutputFile) else None
        if default is not None and param.name and ctx.params.get(param.name) is None:
            ctx.params[param.name] = default[1](ctx.params[default[0]])
    return {name: value for name, param, value in _values(ctx) if isinstance(param.type, kind)}
