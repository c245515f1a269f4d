"""The table of the harness has every command, with every option that names an output."""

from __future__ import annotations

from collections.abc import Iterator

import click

from tagtrace.cli.main import main
from tests.fault.table import CASES


def leaves(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command with its full name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def test_every_command_is_in_the_table() -> None:
    assert {name for name, _ in leaves(main)} == {case.command for case in CASES}


def test_names_are_used_once() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


def test_the_table_says_what_is_whose() -> None:
    for case in CASES:
        assert set(case.free) <= set(case.inputs), case.name
        assert set(case.changed) <= set(case.inputs), case.name
        assert not set(case.outputs) & set(case.inputs), case.name
        assert all(any(name in part for part in case.argv) for name in case.outputs if "." not in name), case.name
