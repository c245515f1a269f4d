"""``tagtrace review``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tagtrace.cli.options import Command, device_option, read_options, reading_options, tagger_option
from tagtrace.cli.places import IndexFolder, Input, KeptProject
from tagtrace.cli.show import note, show
from tagtrace.review import review_project

_PLACES = ("index", "data", "dev", "audit")


@click.command(cls=Command)
@click.argument("folder", metavar="PROJECT", type=KeptProject())
@click.option("--index", type=IndexFolder(), metavar="FOLDER",
              help="New project: the index of the training data.")  # fmt: skip
@click.option("--data", type=Input(), metavar="FILE",
              help="New project: the training data to correct.")  # fmt: skip
@click.option("--dev", type=Input(), metavar="FILE",
              help="New project: held-out data, whose mispredictions can be explained.")  # fmt: skip
@click.option("--audit", type=Input(may_hold_outputs=True), metavar="FOLDER",
              help="New project: the folder of an audit, whose findings can be decided on.")  # fmt: skip
@tagger_option
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on. [default: 8321, or any free one]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--allow-remote", is_flag=True,
              help="Allow a --host that other machines can reach. "
              "The connection is not encrypted.")  # fmt: skip
@click.option("--no-browser", is_flag=True, help="Print the address without opening a browser.")
@click.option("--reviewer", help="Name under which decisions are recorded. [default: your login name]")
@device_option
@reading_options
def review(folder: Path, **values: Any) -> None:
    """Open the review page of PROJECT in the browser: explain predictions, decide on findings, export corrected data.

    PROJECT is a folder. The first time, give --index and --data (and --dev and --audit, if there are any); they are
    kept in its project.json. The page is served until Ctrl-C.
    """
    review_project(
        folder, reading=read_options(values), tagger=values["tagger_folder"],
        host=values["host"], port=values["port"], allow_remote=values["allow_remote"],
        browser=not values["no_browser"], device=values["device"], reviewer=values["reviewer"], show=show, note=note,
        **{name: values[name] for name in _PLACES},
    )  # fmt: skip
