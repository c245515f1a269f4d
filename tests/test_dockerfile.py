"""The Dockerfile of the review page, which is not built here: what it copies, installs and starts exists."""

from __future__ import annotations

import json
import re
import tomllib

import click

from tagtrace.cli import main
from tests.places import REPOSITORY

TEXT = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")


def instruction(name: str) -> list[str]:
    """What stands behind each instruction of a name, lines joined."""
    return re.findall(rf"^{name} (.*)$", TEXT.replace("\\\n", " "), re.MULTILINE)


def test_the_command_is_one_and_is_documented() -> None:
    (started,) = instruction("ENTRYPOINT")
    program, name, *arguments = json.loads(started)
    assert program == "tagtrace"
    command = main.get_command(click.Context(main), name)
    assert command is not None
    context = command.make_context(name, arguments, resilient_parsing=False)
    assert (context.params["host"], context.params["allow_remote"]) == ("0.0.0.0", True)
    assert str(context.params["port"]) in instruction("EXPOSE")
    text = (REPOSITORY / "docs" / "elsewhere.md").read_text(encoding="utf-8")
    assert " ".join([program, name, *arguments]) in text


def test_what_is_copied_exists_and_may_be_sent() -> None:
    copied = [name for line in instruction("COPY") for name in line.split()[:-1]]
    allowed = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "src" in copied
    assert all((REPOSITORY / name).exists() for name in copied)
    assert allowed[0] == "*"
    assert {f"!{name}" for name in copied} == {line for line in allowed if line.startswith("!")}


def test_it_installs_pinned_extras_and_does_not_run_as_root() -> None:
    (install,) = instruction("RUN")
    extras = re.findall(r'"\.\[([a-z,]+)\]"', install)[0].split(",")
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(extras) <= set(project["optional-dependencies"])
    assert all("--constraint constraints.txt" in part for part in install.split("&&") if "pip install" in part)
    (user,) = instruction("USER")
    assert user != "root"
    assert re.search(rf"useradd .*\b{user}$", install)
    assert TEXT.index("\nRUN ") < TEXT.index(f"\nUSER {user}\n") < TEXT.index("\nENTRYPOINT ")
