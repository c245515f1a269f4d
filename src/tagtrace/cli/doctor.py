"""``tagtrace doctor``."""

from __future__ import annotations

from pathlib import Path

import click

from tagtrace._checks import OptionError
from tagtrace._markup import counted
from tagtrace.cli.options import Command
from tagtrace.cli.places import Input
from tagtrace.cli.show import show, show_json
from tagtrace.doctor import examine


@click.command(cls=Command)
@click.argument("folder", type=Input(), metavar="FOLDER")
@click.option("--repair", is_flag=True, help="Remove what killed runs left, and damaged files that only save time.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def doctor(folder: Path, repair: bool, as_json: bool) -> None:
    """Check whether everything in FOLDER is whole, and say what to do where it is not.

    FOLDER is that of a tagger, an index, an audit or a project, or one that has some of these in it. Contents are
    compared with checksums, and what belongs together is compared by id. Nothing is changed without --repair. The exit
    status is 1 if something is broken.
    """
    health = examine(folder, repair=repair)
    if as_json:
        show_json(health.to_json())
    else:
        show(health)
    if not health.is_sound:
        mends = any(one.state == "repairable" for one in health.symptoms)
        remedy = "give the same command with --repair to repair what can be" if mends else "do what the table says"
        raise OptionError(f"{folder}: {counted(health.num_problems, 'problem')}; {remedy}")
