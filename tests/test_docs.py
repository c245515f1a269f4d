"""The documentation names every command, its code runs, its links lead somewhere."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import click
import pytest

import tagtrace
from tagtrace.cli import main
from tagtrace.data.invented import generate, write_invented
from tagtrace.review import write_project_file
from tagtrace.tagger import Lexical, LexicalOptions
from tests.pages import PAGES, README, TUTORIALS, blocks, follow
from tests.places import REPOSITORY

TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def name_of(page: Path) -> str:
    return page.name


def commands(group: click.Group, path: str = "tagtrace") -> Iterator[tuple[str, click.Command]]:
    """Every command a user can run, by what they type."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


COMMANDS = dict(commands(main))


def options() -> set[str]:
    known = {"--help", "--version"}
    for command in COMMANDS.values():
        for parameter in command.params:
            known.update(parameter.opts, parameter.secondary_opts)
    return known


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command: str) -> None:
    assert command in TEXT or f"`{command.removeprefix('tagtrace ')}`" in TEXT


def test_no_command_is_documented_that_does_not_exist() -> None:
    named = set(re.findall(r"(?:^ {4,}|`)(tagtrace [a-z-]+(?: check| convert)?)\b", TEXT, re.MULTILINE))
    assert len(named) > 3
    assert named <= set(COMMANDS)


def test_no_option_is_documented_that_does_not_exist() -> None:
    others = ("docker ", "pip install", "pytest", "python experiments/", "python benchmarks/")
    lines = [line for line in TEXT.splitlines() if not any(other in line for other in others)]
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", "\n".join(lines)))
    assert len(named) > 5
    assert named <= options()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_compiles_and_imports_what_exists(page: Path) -> None:
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block.code)):
            if isinstance(node, ast.ImportFrom) and node.module == "tagtrace":
                assert {alias.name for alias in node.names} <= set(tagtrace.__all__)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small project under the names that the documentation uses."""
    folder = tmp_path_factory.mktemp("docs")
    write_invented(generate(num_documents=20), folder)
    train, dev = (tagtrace.read_corpus(folder / f"{name}.conll") for name in ("train", "dev"))
    encoder = Lexical(LexicalOptions(buckets=256, width=8, hidden=8))
    tagger = tagtrace.train(train, encoder=encoder, options=tagtrace.TrainOptions(epochs=2, learning_rate=2e-2))
    tagtrace.save_tagger(tagger, folder / "my-tagger")
    index = tagtrace.build_index(tagger, train, folder / "my-index", tagtrace.IndexOptions(tolerance=1e-4))
    options = tagtrace.AuditOptions(judges="head", num_folds=2, num_effects=0)
    tagtrace.run_audit(index, dev, options).save(folder / "my-audit")
    places = {"index": folder / "my-index", "data": folder / "train.conll", "audit": folder / "my-audit"}
    (folder / "my-project").mkdir()
    write_project_file(folder / "my-project", None, **places)
    return folder


@pytest.mark.parametrize("page", [page for page in PAGES if page not in (README, *TUTORIALS)], ids=name_of)
def test_the_examples_of_a_page_run(page: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the README run on the whole demo in test_readme.py."""
    monkeypatch.chdir(project)
    follow(page, project)


@pytest.mark.parametrize("page", TUTORIALS, ids=name_of)
def test_a_tutorial_can_be_followed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins in an empty folder, and prints what it says."""
    monkeypatch.chdir(tmp_path)
    follow(page, tmp_path)


def test_commands_can_be_parsed() -> None:
    code = [block.code for page in PAGES for block in blocks(page, "sh")]
    text = re.sub(r"\\\n\s*", "", "\n".join([TEXT, indent("".join(code), "    ")]))
    lines = re.findall(r"^ {4,}(tagtrace [^\n#]+)", text, re.MULTILINE)
    asked = [shlex.split(line)[1:] for line in lines if "..." not in line]
    assert len(asked) > 20
    for name, *arguments in asked:
        if name.startswith("-"):
            continue
        command = COMMANDS.get(f"tagtrace {name}")
        if command is None:
            command = COMMANDS[f"tagtrace {name} {arguments.pop(0)}"]
        command.make_context(name, arguments, resilient_parsing=False)  # raises where the line is wrong


def test_the_readme_has_code() -> None:
    assert blocks(README, "python")


@pytest.mark.parametrize("page", [*PAGES, REPOSITORY / "CONTRIBUTING.md", REPOSITORY / "CHANGELOG.md"], ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:|#", link):
            assert (page.parent / link.split("#")[0]).exists(), link
