"""``tagtrace refit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tagtrace._files import check_replaceable
from tagtrace.cli.options import Command, device_option, overwrite_option, read_options, reading_options, refit_options
from tagtrace.cli.show import counting, refit_line, show
from tagtrace.data import read_corpus
from tagtrace.tagger import RefitOptions, load_tagger, pick_device, refit_tagger, save_tagger
from tagtrace.tagger.folder import MARKER


@click.command(cls=Command)
@click.argument("folder", metavar="TAGGER", type=click.Path(path_type=Path))
@click.argument("train_file", metavar="TRAIN")
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@refit_options
@overwrite_option
@device_option
@reading_options
def refit(folder: Path, train_file: str, target: Path, **values: Any) -> None:
    """Refit the head of TAGGER on TRAIN to its exact optimum, and save the tagger as the folder OUT.

    The encoder stays as it is. The loss of the head is convex, so it has one optimum; the theory of influence holds
    exactly only there.
    """
    options = read_options(values)
    refitting = RefitOptions(values["l2"], values["tolerance"], values["max_steps"])
    check_replaceable(target, overwrite=values["overwrite"], marker=MARKER)
    tagger, corpus = load_tagger(folder).to(pick_device(values["device"])), read_corpus(train_file, options)
    with counting("encoding") as progress:
        refit_tagger(tagger, corpus, refitting, encoding=progress, progress=refit_line)
    save_tagger(tagger, target, overwrite=values["overwrite"])
    show(f"saved {target}")
