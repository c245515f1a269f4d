"""``tagtrace index``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tagtrace._checks import MOST_SEEDS, OptionError, TagtraceError
from tagtrace._folders import check_replaceable
from tagtrace._markup import counted
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
from tagtrace.cli.show import counting, counting_several, note, refit_line, show
from tagtrace.data import Corpus
from tagtrace.index import Index, IndexOptions, build_index, estimate_size, open_index
from tagtrace.index.head_change import head_change
from tagtrace.index.manifest import MARKER, PRODUCT
from tagtrace.index.options import DTYPES, megabytes
from tagtrace.influence.options import check_at_least
from tagtrace.influence.whole.stored import FOLDER as WHOLE
from tagtrace.influence.whole.stored import build_whole, has_whole, whole_size
from tagtrace.tagger import Tagger, load_tagger, pick_device
from tagtrace.tagger.recipe import Recipe
from tagtrace.tagger.training import Step


@click.command(cls=Command)
@click.argument("tagger_folder", metavar="TAGGER", type=Input())
@click.argument("train_file", metavar="TRAIN", type=Input())
@click.argument("folder", metavar="OUT", type=OutputFolder())
@click.option("--dtype", type=click.Choice(list(DTYPES)), default="float16", show_default=True,
              help="Number format in which features are stored.")  # fmt: skip
@refit_options
@click.option(
    "--no-refit",
    is_flag=True,
    help="Keep the head of TAGGER as it is. Influence is then approximate, and what-if, flip and verify are not "
    "possible.",
)
@click.option("--shard-tokens", type=int, default=65_536, show_default=True,
              help="Number of tokens that are encoded at a time and stored in one file.")  # fmt: skip
@click.option(
    "--seeds",
    type=click.IntRange(0, MOST_SEEDS),
    default=3,
    show_default=True,
    help="Number of taggers that are trained for a quarter of their epochs, for the score whole, which goes through "
    "the encoder too. 0: none. Not for encoders that are not trained.",
)
@overwrite_option
@click.option(
    "--restart",
    is_flag=True,
    help="Start again instead of resuming an interrupted run (its files are in OUT.building).",
)
@pooling_option
@device_option
@reading_options
def index(tagger_folder: Path, train_file: Path, folder: Path, **values: Any) -> None:
    """Build the index of the training data TRAIN and save it as the folder OUT. The commands that explain need it.

    TAGGER is the folder of a saved tagger or of a Hugging Face token classifier, which is taken as it is, or of a spaCy
    pipeline, whose ner gets a new head. The index stores the features that it computes for every training token. Its
    head is first refitted to its exact optimum on these features, because the theory of influence holds exactly only
    there. Then a few taggers are trained for a short time, so that explanations can go through the encoder (--seeds);
    the index can be used without them. An interrupted run resumes when the same command is run again.
    """
    reading = read_options(values)
    options = IndexOptions(
        values["dtype"], not values["no_refit"], values["l2"], values["tolerance"],
        values["max_steps"], values["shard_tokens"],
    )  # fmt: skip
    check_at_least(0, seeds=values["seeds"])
    is_asked_again = not values["overwrite"] and values["seeds"] > 0 and (folder / MARKER).is_file()
    if not is_asked_again:
        check_replaceable(folder, overwrite=values["overwrite"], product=PRODUCT)
    tagger = load_tagger(tagger_folder, pooling=values["pooling"]).to(pick_device(values["device"]))
    corpus = read_training_data(train_file, reading)
    if is_asked_again:
        add_whole(_same_index(folder, tagger, corpus, options, values["seeds"]), tagger, values["seeds"])
        return
    dim, num_labels = tagger.encoder.dim, len(tagger.labels)
    size = megabytes(estimate_size(corpus.num_tokens, dim, num_labels, options.dtype))
    show(f"{corpus.num_tokens:,} tokens x ({dim} features + {num_labels} errors): about {size}")
    with counting("encoding") as progress:
        built = build_index(
            tagger, corpus, folder, options, progress, refit_progress=refit_line, overwrite=values["overwrite"],
            restart=values["restart"],
        )  # fmt: skip
    note_refit(built, tagger)
    show(f"wrote {built}")
    if values["seeds"] and tagger.encoder.trainable:
        add_whole(built, tagger, values["seeds"])


def note_refit(built: Index, tagger: Tagger) -> None:
    """Say what the refit of the head changed, or that there was none."""
    if not built.manifest.fit.refit:
        note("warning: the head was not refitted, so influence on this index is approximate")
        return
    change = head_change(built, tagger)
    if change.num_changed or change.is_new:
        note(str(change))


def _same_index(folder: Path, tagger: Tagger, corpus: Corpus, options: IndexOptions, num_seeds: int) -> Index:
    """The finished index in a folder, if this command would make the same and has seeds to add; raises otherwise."""
    found = open_index(folder, verify=True)
    try:
        found.check_tagger(tagger)
        found.check_corpus(corpus)
        Recipe.of(tagger)
        is_same = found.manifest.options == options
    except TagtraceError:
        is_same = False
    if not is_same or has_whole(found, num_seeds):
        check_replaceable(folder, overwrite=False, product=PRODUCT)
    show(f"{folder}: the index is complete")
    return found.built_with(tagger)


def add_whole(built: Index, tagger: Tagger, num_seeds: int) -> None:
    """Train the taggers that scores through the encoder need, and say what they take."""
    try:
        Recipe.of(tagger)
    except TagtraceError as error:
        note(f"no scores through the encoder: {error}")
        return
    size = megabytes(whole_size(tagger, built.num_sentences, num_seeds))
    show(f"training {counted(num_seeds, 'tagger')} for a quarter of their epochs, for the score whole: about {size}")
    with counting_several() as update:

        def training(seed: int, step: Step) -> None:
            update(f"training, seed {seed}", step.step, step.num_steps)

        try:
            build_whole(
                built, num_seeds, tagger=tagger, device=tagger.device, training=training,
                progress=lambda done, total: update("gradients", done, total),
            )  # fmt: skip
        except OptionError as error:
            note(f"no scores through the encoder: {error}")
            return
    show(f"wrote {built.folder / WHOLE}")
