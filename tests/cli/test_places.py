"""What every command reads and writes: outputs never meet inputs, nor existing files, nor each other."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Any

import click
import pytest

from tagtrace.cli.main import main
from tagtrace.cli.options import Command
from tagtrace.cli.places import Input, OutputFile, OutputFolder
from tests.cli.command import refused, succeed, tagtrace
from tests.fault.table import CASES, Case
from tests.fault.test_table import leaves

TEXT = {
    "scheme", "tokens_key", "labels_key", "label_names", "sentence", "segment", "target", "label", "pair", "document",
    "removed", "relabelled", "to", "device", "query", "host", "reviewer", "name", "seeds", "ranks",
}  # fmt: skip
"""The parameters that are text, and no path."""
LEAVES = dict(leaves(main))


def output_files(case: Case) -> list[str]:
    """The arguments of a case that name files to write."""
    command = LEAVES[case.command]
    context = copy(command).make_context(case.command, list(case.argv[len(case.command.split()) :]))
    names = [param.name for param in command.params if isinstance(param.type, OutputFile)]
    return [str(context.params[name]) for name in names if name and context.params[name] is not None]


FILES = [(case, name) for case in CASES for name in output_files(case)]


@pytest.mark.parametrize("name", LEAVES)
def test_every_path_is_declared_as_input_or_output(name: str) -> None:
    command = LEAVES[name]
    assert isinstance(command, Command)
    for param in command.params:
        if isinstance(param.type, click.Path | click.File):
            assert isinstance(param.type, Input | OutputFile | OutputFolder), param.name
        if type(param.type) is type(click.STRING):
            assert param.name in TEXT, f"{param.name}: a path? Then give it a type of cli/places.py"
    if any(isinstance(param.type, OutputFile) for param in command.params):
        assert "overwrite" in {param.name for param in command.params}


def test_commands_that_write_files_are_tested() -> None:
    writing = {name for name, leaf in LEAVES.items() if any(isinstance(one.type, OutputFile) for one in leaf.params)}
    assert writing == {case.command for case, _ in FILES} >= {"fix", "predict", "explain", "gain"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, in which commands check their outputs and do nothing else."""

    def nothing(**_: Any) -> None:
        pass

    for command in LEAVES.values():
        monkeypatch.setattr(command, "callback", nothing)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_inputs(case: Case) -> dict[Path, bytes]:
    """Something by the name of each input; returns all files with their contents."""
    for name in case.inputs:
        path = Path(name)
        if "." in name:
            path.write_text(name)
        else:
            path.mkdir()
            (path / "manifest.json").write_text(name)
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def with_output(case: Case, name: str, path: object) -> list[str]:
    return [str(path) if part == name else part for part in case.argv if part != "--overwrite"]


@pytest.mark.parametrize(("case", "name"), FILES, ids=str)
def test_no_file_is_written_onto_an_input(here: Path, case: Case, name: str) -> None:
    before = make_inputs(case)
    for number, read in enumerate(part for part in case.argv[1:] if Path(part).exists()):
        path = Path(read)
        targets = [path / "manifest.json", path / "new"] if path.is_dir() else [path]
        if path.is_file():
            targets += [here / f"symbolic-{number}", here / f"hard-{number}"]
            targets[1].symlink_to(path)
            targets[2].hardlink_to(path)
        for target in targets:
            refused(tagtrace(*with_output(case, name, target), "--overwrite"), "never")
            refused(tagtrace(*with_output(case, name, target)), "never")
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(("case", "name"), FILES, ids=str)
def test_an_existing_file_is_replaced_only_when_asked(here: Path, case: Case, name: str) -> None:
    make_inputs(case)
    (here / name).write_text("precious")
    refused(tagtrace(*with_output(case, name, name)), "exists already")
    assert (here / name).read_text() == "precious"
    succeed(*with_output(case, name, name), "--overwrite")


@pytest.mark.parametrize("case", [case for case in CASES if case.outputs], ids=str)
def test_folders_are_not_invented(here: Path, case: Case) -> None:
    make_inputs(case)
    for name in case.outputs:
        if name in case.argv:
            inside, outside = f"deep/er/{name}", here.parent / "nowhere" / name
            succeed(*with_output(case, name, inside))
            message = refused(tagtrace(*with_output(case, name, outside)), "does not exist; create it first")
            assert str(outside.parent) in message
    assert not (here.parent / "nowhere").exists()
    assert not (here / "deep").exists()
