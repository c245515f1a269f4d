"""``tagtrace refit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tagtrace._folders import check_replaceable
from tagtrace.cli.labels_to_learn import read_training_data
from tagtrace.cli.options import (
    Command,
    device_option,
    overwrite_option,
    pooling_option,
    read_options,
    reading_options,
    refit_options,
)
from tagtrace.cli.places import Input, OutputFolder
from tagtrace.cli.show import counting, refit_line, show
from tagtrace.tagger import RefitOptions, load_tagger, pick_device, refit_tagger, save_tagger
from tagtrace.tagger.folder import PRODUCT


@click.command(cls=Command)
@click.argument("folder", metavar="TAGGER", type=Input())
@click.argument("train_file", metavar="TRAIN", type=Input())
@click.argument("target", metavar="OUT", type=OutputFolder())
@refit_options
@overwrite_option
@pooling_option
@device_option
@reading_options
def refit(folder: Path, train_file: Path, target: Path, **values: Any) -> None:
    """Refit the head of TAGGER on TRAIN to its exact optimum, and save the tagger as the folder OUT.

    The encoder stays as it is. The loss of the head is convex, so it has one optimum; the theory of influence holds
    exactly only there.
    """
    options = read_options(values)
    refitting = RefitOptions(values["l2"], values["tolerance"], values["max_steps"])
    check_replaceable(target, overwrite=values["overwrite"], product=PRODUCT)
    tagger = load_tagger(folder, pooling=values["pooling"]).to(pick_device(values["device"]))
    corpus = read_training_data(train_file, options)
    with counting("encoding") as progress:
        refit_tagger(tagger, corpus, refitting, encoding=progress, progress=refit_line)
    save_tagger(tagger, target, overwrite=values["overwrite"])
    show(f"saved {target}")
