"""``tagtrace train``."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from tagtrace._documents import real_path
from tagtrace._folders import check_replaceable
from tagtrace.cli.labels_to_learn import decisions_option, read_training_data, trusted_option, trusted_sentences
from tagtrace.cli.options import (
    Command,
    device_option,
    overwrite_option,
    read_options,
    reading_options,
)
from tagtrace.cli.places import EncoderName, Input, OutputFolder
from tagtrace.cli.show import TrainingDisplay, note, refit_line, show
from tagtrace.data import read_corpus
from tagtrace.tagger import HeadOptions, RefitOptions, TrainOptions, remove_checkpoint, save_tagger
from tagtrace.tagger import train as train_new
from tagtrace.tagger.folder import PRODUCT


@click.command(cls=Command)
@click.argument("train_file", metavar="TRAIN", type=Input())
@click.argument("folder", metavar="OUT", type=OutputFolder())
@click.option(
    "--dev",
    "dev_file",
    type=Input(),
    metavar="FILE",
    help="Held-out data: the epoch with the lowest loss on it is kept, and F1 on it is printed.",
)
@trusted_option
@decisions_option
@click.option("--encoder", type=EncoderName(), default="lexical", show_default=True,
              help="Encoder, which computes features of tokens: lexical, vectors:FILE, precomputed:DIR, "
              "spacy:DIR or transformer:NAME_OR_DIR.")  # fmt: skip
@click.option("--head", type=click.Choice(["crf", "softmax"]), default="crf", show_default=True,
              help="Head, which predicts labels from features: a linear-chain CRF, or softmax for each token "
              "alone.")  # fmt: skip
@click.option(
    "--start-end", is_flag=True, help="CRF: also learn scores for the first and the last label of a sentence."
)
@click.option("--constrained", is_flag=True, help="CRF: rule out ill-formed label sequences in training too.")
@click.option("--unit", type=click.Choice(["sentence", "document"]), default="sentence", show_default=True,
              help="What is labelled as one sequence.")  # fmt: skip
@click.option("--epochs", type=int, default=15, show_default=True, help="Number of passes over the training data.")
@click.option(
    "--batch-size",
    type=int,
    default=16,
    show_default=True,
    help="Number of sentences (or documents) in one training step.",
)
@click.option("--learning-rate", type=float, help="Learning rate. [default: 2e-5 for a transformer, 2e-3 for lexical]")
@click.option("--head-learning-rate", type=float, help="Learning rate of the head. [default: the same]")
@click.option("--schedule", type=click.Choice(["constant", "linear"]), default="constant", show_default=True,
              help="Learning rate over time. linear: rises in the first tenth, then falls to zero.")  # fmt: skip
@click.option("--dropout", type=float, default=0.3, show_default=True,
              help="Share of features that are set to zero in training.")  # fmt: skip
@click.option(
    "--max-norm", type=float, default=10.0, show_default=True, help="Norm to which larger gradients are clipped."
)
@click.option("--weight-decay", type=float, default=0.0, show_default=True, help="Weight decay of AdamW.")
@click.option("--precision", type=click.Choice(["auto", "float32", "bfloat16"]), default="auto", show_default=True,
              help="Number format in training. auto: bfloat16 where that is fast, else float32.")  # fmt: skip
@click.option("--keep", type=click.Choice(["best", "last"]), default="best", show_default=True,
              help="With --dev: keep the epoch with the lowest loss on it, or the last one.")  # fmt: skip
@click.option("--l2", type=float, default=1.0, show_default=True,
              help="With vectors or precomputed: strength of L2 regularisation of the head, as for refit.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@click.option("--checkpoint-seconds", type=float, default=60.0, show_default=True,
              help="Number of seconds between checkpoints.")  # fmt: skip
@overwrite_option
@click.option("--restart", is_flag=True, help="Start again instead of resuming an interrupted run.")
@device_option
@reading_options
def train(train_file: Path, folder: Path, dev_file: Path | None, **values: Any) -> None:
    """Train a tagger on TRAIN and save it as the folder OUT.

    An interrupted run resumes when the same command is run again. The encoders vectors and precomputed are not
    trained: only the head is fitted, to its exact optimum. After a review, give the fixed data as TRAIN and the
    review's folder as --decisions.
    """
    options = read_options(values)
    check_replaceable(folder, overwrite=values["overwrite"], product=PRODUCT)
    recipe = TrainOptions(**{f.name: values[f.name] for f in fields(TrainOptions) if f.name in values})
    head, refit = HeadOptions(values["head"], values["start_end"], values["constrained"]), RefitOptions(values["l2"])
    corpus, dev = read_training_data(train_file, options), read_corpus(dev_file, options) if dev_file else None
    trusted = trusted_sentences(values["trusted_file"], values["project_folder"], corpus, options)
    checkpoint = folder.parent / f"{real_path(folder).name}.checkpoint"
    if values["restart"]:
        remove_checkpoint(checkpoint)
    if checkpoint.exists():
        note(f"resuming from {checkpoint}")
    with TrainingDisplay() as display:
        tagger = train_new(
            corpus, dev, trusted=trusted, encoder=values["encoder"], head=head, unit=values["unit"], options=recipe,
            refit=refit, device=values["device"], checkpoint=checkpoint, progress=display, refit_progress=refit_line,
        )  # fmt: skip
    save_tagger(tagger, folder, overwrite=values["overwrite"])
    remove_checkpoint(checkpoint)
    if dev is not None:
        card = tagger.evaluate(dev)
        show(card.table(str(dev_file)))
        show(f"accuracy {100 * card.accuracy:.2f}")
    show(f"saved {folder}")
