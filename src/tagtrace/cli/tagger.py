"""``tagtrace train``, ``refit``, ``predict`` and ``evaluate``."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click

from tagtrace._checks import NoLabelsError, OptionError
from tagtrace._files import check_replaceable
from tagtrace.cli.device import device_option, pick_device
from tagtrace.cli.options import read_options, reading_options
from tagtrace.cli.show import TrainingDisplay, counting, err, out, refit_line, scorecard_table
from tagtrace.data import Corpus, LabelSet, ReadOptions, read_corpus, write_predictions
from tagtrace.tagger import (
    HeadOptions,
    RefitOptions,
    Scorecard,
    Tagger,
    TrainOptions,
    build_encoder,
    load_tagger,
    new_tagger,
    refit_tagger,
    save_tagger,
    score_labels,
    train_tagger,
)
from tagtrace.tagger.checkpoint import remove_checkpoint
from tagtrace.tagger.folder import MARKER


@click.command()
@click.argument("train_file", metavar="TRAIN")
@click.argument("folder", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--dev", "dev_file", metavar="FILE", help="Held-out data: the epoch with its lowest loss is kept.")
@click.option(
    "--encoder",
    default="lexical",
    show_default=True,
    help="lexical, vectors:FILE, precomputed:DIR or transformer:NAME_OR_DIR.",
)
@click.option("--head", type=click.Choice(["crf", "softmax"]), default="crf", show_default=True)
@click.option("--start-end", is_flag=True, help="CRF: learn scores for the first and last label.")
@click.option("--constrained", is_flag=True, help="CRF: forbid ill-formed labels in training too.")
@click.option(
    "--unit",
    type=click.Choice(["sentence", "document"]),
    default="sentence",
    show_default=True,
    help="What is one sentence.",
)
@click.option("--epochs", type=int, default=15, show_default=True)
@click.option("--batch-size", type=int, default=16, show_default=True)
@click.option("--learning-rate", type=float, help="[default: 2e-5 for a transformer, 2e-3 for lexical]")
@click.option("--head-learning-rate", type=float, help="[default: the same]")
@click.option("--schedule", type=click.Choice(["constant", "linear"]), default="constant", show_default=True)
@click.option("--dropout", type=float, default=0.3, show_default=True)
@click.option("--max-norm", type=float, default=10.0, show_default=True, help="Clip gradients at this norm.")
@click.option("--weight-decay", type=float, default=0.0, show_default=True)
@click.option("--precision", type=click.Choice(["auto", "float32", "bfloat16"]), default="auto", show_default=True)
@click.option(
    "--keep",
    type=click.Choice(["best", "last"]),
    default="best",
    show_default=True,
    help="The epoch with the lowest dev loss, or the last.",
)
@click.option("--l2", type=float, default=1.0, show_default=True, help="Encoders that are not trained: see refit.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--checkpoint-seconds", type=float, default=60.0, show_default=True, help="How often to save where the run stands."
)
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
@click.option("--restart", is_flag=True, help="Forget the checkpoint of an unfinished run.")
@device_option
@reading_options
def train(train_file: str, folder: Path, dev_file: str | None, **values: Any) -> None:
    """Train a tagger on TRAIN and save it as the folder OUT.

    A run that was stopped goes on where it was when the same command is given again. With an encoder that is not
    trained (vectors, precomputed) the head alone is fitted, exactly.
    """  # fmt: skip
    options = read_options(values)
    check_replaceable(folder, overwrite=values["overwrite"], marker=MARKER)
    recipe = TrainOptions(**{f.name: values[f.name] for f in fields(TrainOptions) if f.name in values})
    refitting = RefitOptions(l2=values["l2"])
    head = HeadOptions(values["head"], values["start_end"], values["constrained"])
    corpus = read_corpus(train_file, options)
    dev = read_corpus(dev_file, options) if dev_file else None
    labels = LabelSet.from_sentences(corpus.sentences, corpus.normalised_scheme)
    if dev is not None:
        labels.check(dev.sentences)
    encoder = build_encoder(values["encoder"], corpus.sentences, recipe.seed)
    for file in (corpus, dev):
        if file is not None:
            encoder.check_corpus(file)
    tagger = new_tagger(encoder, labels, head, values["unit"], recipe.seed).to(pick_device(values["device"]))
    checkpoint = folder.parent / f"{folder.resolve().name}.checkpoint"
    if values["restart"]:
        remove_checkpoint(checkpoint)
    if encoder.trainable:
        if checkpoint.exists():
            err.print(f"going on from {checkpoint}", soft_wrap=True)
        with TrainingDisplay() as display:
            train_tagger(
                tagger, corpus.sentences, dev.sentences if dev else (), recipe,
                checkpoint=checkpoint, progress=display,
            )  # fmt: skip
    else:
        err.print(f"{encoder.kind} features are not trained: fitting the head exactly")
        refit_tagger(tagger, corpus.sentences, refitting, progress=refit_line)
    tagger.record["data"] = {"train": str(train_file), "fingerprint": corpus.fingerprint}
    save_tagger(tagger, folder, overwrite=values["overwrite"])
    remove_checkpoint(checkpoint)
    if dev is not None:
        _show_scores(_evaluate(tagger, dev, constrained=True), str(dev_file))
    out.print(f"saved {folder}", soft_wrap=True)


@click.command()
@click.argument("folder", metavar="TAGGER", type=click.Path(path_type=Path))
@click.argument("train_file", metavar="TRAIN")
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--l2", type=float, default=1.0, show_default=True, help="Strength against the sum of losses.")
@click.option("--tolerance", type=float, default=1e-6, show_default=True, help="Stop at this max |gradient|.")
@click.option("--max-steps", type=int, default=100, show_default=True, help="Newton steps at most.")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
@device_option
@reading_options
def refit(folder: Path, train_file: str, target: Path, **values: Any) -> None:
    """Solve TAGGER's head exactly on its frozen features of TRAIN; save the result as OUT.

    The head is convex, so there is one optimum; influence is exact theory only there.
    """
    options = read_options(values)
    refitting = RefitOptions(values["l2"], values["tolerance"], values["max_steps"])
    check_replaceable(target, overwrite=values["overwrite"], marker=MARKER)
    tagger = load_tagger(folder).to(pick_device(values["device"]))
    corpus = _read_for(tagger, train_file, options)
    with counting("encoding") as progress:
        refit_tagger(tagger, corpus.sentences, refitting, encoding=progress, progress=refit_line)
    tagger.record["data"] = {"train": str(train_file), "fingerprint": corpus.fingerprint}
    save_tagger(tagger, target, overwrite=values["overwrite"])
    out.print(f"saved {target}", soft_wrap=True)


@click.command()
@click.argument("folder", metavar="TAGGER", type=click.Path(path_type=Path))
@click.argument("file", metavar="FILE")
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--unlabelled", is_flag=True, help="FILE has no labels. [default: found out]")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
@click.option("--constrained/--free", default=True, show_default=True, help="Allow only well-formed labels.")
@device_option
@reading_options
def predict(folder: Path, file: str, target: Path, **values: Any) -> None:
    """Label FILE; OUT is FILE with a column (or a key `predicted`) more."""
    options = read_options(values, labelled=not values["unlabelled"])
    if target.is_file() and not values["overwrite"]:
        raise OptionError(f"{target}: exists already; choose another file or pass --overwrite")
    tagger = load_tagger(folder).to(pick_device(values["device"]))
    corpus = read_to_label(file, options)
    tagger.encoder.check_corpus(corpus)
    with counting("predicting") as progress:
        predicted = tagger.predict(corpus.sentences, constrained=values["constrained"], progress=progress)
    write_predictions(corpus, predicted, target, scheme=tagger.labels.scheme)
    out.print(f"wrote {target}: {len(predicted):,} sentences", soft_wrap=True)


@click.command()
@click.argument("folder", metavar="TAGGER", type=click.Path(path_type=Path))
@click.argument("file", metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--constrained/--free", default=True, show_default=True, help="Allow only well-formed labels.")
@device_option
@reading_options
def evaluate(folder: Path, file: str, as_json: bool, **values: Any) -> None:
    """Compare TAGGER's predictions with the labels of FILE: segment and token F1."""
    options = read_options(values)
    tagger = load_tagger(folder).to(pick_device(values["device"]))
    card = _evaluate(tagger, _read_for(tagger, file, options), constrained=values["constrained"])
    if as_json:
        click.echo(json.dumps(card.to_json(), indent=1))
    else:
        _show_scores(card, file)


def read_to_label(path: str, options: ReadOptions) -> Corpus:
    """A corpus with its labels where it has any: they say in which scheme predictions are written."""
    try:
        return read_corpus(path, options)
    except NoLabelsError:
        return read_corpus(path, replace(options, labelled=False))


def _read_for(tagger: Tagger, path: str, options: ReadOptions) -> Corpus:
    """A corpus whose labels the tagger knows."""
    corpus = read_corpus(path, options)
    tagger.check_corpus(corpus)
    return corpus


def _evaluate(tagger: Tagger, corpus: Corpus, *, constrained: bool) -> Scorecard:
    with counting("predicting") as progress:
        predicted = tagger.predict(corpus.sentences, constrained=constrained, progress=progress)
    return score_labels([s.labels for s in corpus.sentences], predicted, tagger.labels.scheme)


def _show_scores(card: Scorecard, title: str) -> None:
    out.print(scorecard_table(card, title))
    out.print(f"accuracy {100 * card.accuracy:.2f}", highlight=False)
