"""The documentation names every command, its code compiles, its links lead somewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import tagtrace
from tagtrace.cli import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


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


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command: str) -> None:
    assert command in TEXT or f"`{command.removeprefix('tagtrace ')}`" in TEXT


def test_no_command_is_documented_that_does_not_exist() -> None:
    named = set(re.findall(r"(?:^ {4,}|`)(tagtrace [a-z-]+(?: check)?)\b", TEXT, re.MULTILINE))
    assert len(named) > 3
    assert named <= set(COMMANDS)


def test_no_option_is_documented_that_does_not_exist() -> None:
    others = ("pip install", "pytest", "python experiments/", "python benchmarks/")
    lines = [line for line in TEXT.splitlines() if not any(other in line for other in others)]
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", "\n".join(lines)))
    assert len(named) > 5
    assert named <= options()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_compiles_and_imports_what_exists(page: Path) -> None:
    for code in blocks(page, "python"):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and node.module == "tagtrace":
                assert {alias.name for alias in node.names} <= set(tagtrace.__all__)


def test_the_readme_has_code() -> None:
    assert blocks(ROOT / "README.md", "python")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:|#", link):
            assert (page.parent / link.split("#")[0]).exists(), link
