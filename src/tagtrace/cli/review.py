"""``tagtrace review``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tagtrace.cli.options import read_options, reading_options, tagger_option
from tagtrace.cli.show import note, show
from tagtrace.review import review_project

_PLACES = ("index", "data", "dev", "audit")


@click.command()
@click.argument("folder", metavar="PROJECT", type=click.Path(path_type=Path))
@click.option("--index", type=click.Path(path_type=Path), help="New project: the index of the training data.")
@click.option("--data", type=click.Path(path_type=Path), help="New project: the training data to correct.")
@click.option("--dev", type=click.Path(path_type=Path), help="New project: held-out data, for the view of errors.")
@click.option("--audit", type=click.Path(path_type=Path), help="New project: the folder of an audit.")
@tagger_option
@click.option("--port", type=click.IntRange(0, 65535), help="Port. [default: 8321, or any free one]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--allow-remote", is_flag=True,
              help="Allow a --host that other machines can reach. They need the token in the address printed; "
              "nothing is encrypted.")  # fmt: skip
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option("--reviewer", help="Name of the reviewer. [default: your login name]")
@reading_options
def review(folder: Path, **values: Any) -> None:
    """Open the review page of PROJECT: see why, decide by keyboard, export the corrected data.

    PROJECT is a folder with a project.json. If it has none, --index and --data make one.
    """
    review_project(
        folder, reading=read_options(values), tagger=values["tagger_folder"],
        host=values["host"], port=values["port"], allow_remote=values["allow_remote"],
        browser=not values["no_browser"], reviewer=values["reviewer"], show=show, note=note,
        **{name: values[name] for name in _PLACES},
    )  # fmt: skip
