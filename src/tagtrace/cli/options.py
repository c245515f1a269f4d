"""Options that several commands share, and the parsing of their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tagtrace._checks import OptionError
from tagtrace._files import as_private_as, only_as_new
from tagtrace._places import MovedError
from tagtrace.cli.places import Input, OutputFile, check_places, new_files
from tagtrace.data import ReadOptions
from tagtrace.data.options import FORMAT_NAMES

_F = TypeVar("_F", bound=Callable[..., Any])
Option = Callable[[Any], Any]
"""A decorator that adds options to a command."""

_READING = (
    click.option("--format", "file_format", default="auto", show_default=True,
                 type=click.Choice(FORMAT_NAMES),
                 help="Format of the data, plain or gzip. auto: detected."),
    click.option("--scheme", default="auto", show_default=True,
                 help="Label scheme: iob1, iob2, bioes, bilou, io or plain. auto: detected."),
    click.option("--token-column", type=int, metavar="N",
                 help="CoNLL: column of the token; the first column is 0. [default: detected]"),
    click.option("--label-column", type=int, metavar="N", help="CoNLL: column of the label. [default: the last]"),
    click.option("--pos-column", type=int, metavar="N",
                 help="CoNLL: column of the part of speech. [default: detected]"),
    click.option("--tokens-key", default="tokens", show_default=True, metavar="KEY",
                 help="JSON lines: key of the list of tokens."),
    click.option("--labels-key", metavar="KEY",
                 help="JSON lines, parquet: key of the list of labels. [default: ner_tags, labels, tags, ...] "
                      "CoNLL-U: key in MISC. [default: NER]"),
    click.option("--label-names", metavar="NAMES",
                 help="JSON lines: if labels are numbers, their names in order, separated by commas."),
)  # fmt: skip

READING_NAMES = (
    "file_format", "scheme", "token_column", "label_column", "pos_column", "tokens_key", "labels_key", "label_names"
)  # fmt: skip

device_option: Option = click.option(
    "--device", default="auto", show_default=True,
    help="Where to compute: cpu, cuda, cuda:1, ... auto: on a GPU if there is one.",
)  # fmt: skip
tagger_option: Option = click.option(
    "--tagger", "tagger_folder", type=Input(), metavar="FOLDER",
    help="Tagger that the index was built with. [default: where it was then]",
)  # fmt: skip
overwrite_option: Option = click.option("--overwrite", is_flag=True, help="Replace the output if it already exists.")
pooling_option: Option = click.option(
    "--pooling", type=click.Choice(["first", "mean", "last"]),
    help="For a Hugging Face checkpoint: the pieces of a word that it was trained to label. [default: first]",
)  # fmt: skip
unlabelled_option: Option = click.option(
    "--unlabelled", is_flag=True, help="The data has no labels, or they should be ignored. [default: detected]"
)


class Command(click.Command):
    """Checks its outputs before it runs; what it writes is as private as what it reads.

    Its help lists the options for reading data files in a section of their own. Errors about something that has moved
    name the option that says where it is.
    """

    def __init__(self, *args: Any, **extra: Any) -> None:
        super().__init__(*args, **extra)
        self.context_settings.setdefault("help_option_names", ["-h", "--help"])  # also without the group

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with as_private_as(check_places(ctx)), only_as_new(new_files(ctx)):
                return super().invoke(ctx)
        except MovedError as error:
            option = f"--{error.what}"
            if not any(option in parameter.opts for parameter in self.params):
                raise
            raise OptionError(f"{error} with {option}") from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], "How data files are read": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                sections["How data files are read" if parameter.name in READING_NAMES else "Options"].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def together(*options: Callable[[_F], _F]) -> Callable[[_F], _F]:
    """Several options as one decorator, in this order."""

    def decorate(command: _F) -> _F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


reading_options: Option = together(*_READING)
json_option: Option = together(
    click.option("--json", "json_file", type=OutputFile(), metavar="FILE",
                 help="Also write the answer as JSON."),
    overwrite_option,
)  # fmt: skip
refit_options: Option = together(
    click.option("--l2", type=float, default=1.0, show_default=True,
                 help="Strength of L2 regularisation, relative to the sum of losses."),
    click.option("--tolerance", type=float, default=1e-6, show_default=True,
                 help="Refit until no entry of the gradient is larger than this."),
    click.option("--max-steps", type=int, default=100, show_default=True, help="Maximum number of Newton steps."),
)  # fmt: skip


def read_options(values: dict[str, Any]) -> ReadOptions:
    """ReadOptions from what ``reading_options`` collected; takes them out of ``values``."""
    given = {name: values.pop(name) for name in READING_NAMES}
    names = given.pop("label_names")
    return ReadOptions(
        format=given.pop("file_format"),
        labels=None if names is None else names.split(","),
        labelled=not values.get("unlabelled", False),
        **given,
    )


def parse_slice(text: str | None) -> tuple[int, int] | None:
    """``3:5`` as (3, 5)."""
    if text is None:
        return None
    try:
        start, stop = (int(part) for part in text.split(":"))
    except ValueError:
        raise OptionError(f"--segment {text!r}: expected START:STOP, for example 3:5") from None
    return start, stop
