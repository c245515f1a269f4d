"""The recipe that a tagger was trained by, to train it again from the start, or a little further."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import torch

from tagtrace._checks import EncoderError, OptionError, TaggerError
from tagtrace.data.sentence import Sentence
from tagtrace.tagger import Encoder, Lexical, Step, Tagger, TrainOptions, Transformer, new_tagger, train_tagger
from tagtrace.tagger.tagger import Unit

EPOCHS = 3
MIN_STEPS = 30
RATE = 0.7
"""Factor of the encoder's learning rate; the head keeps its own. All three were chosen on WNUT 2017 and NCBI."""


def recorded_recipe(tagger: Tagger) -> TrainOptions:
    """The options that the tagger was trained with."""
    if not tagger.encoder.trainable:
        raise OptionError(f"a {tagger.encoder.kind} encoder cannot be trained; retrain only the head")
    try:
        return TrainOptions(**tagger.record["training"]["options"])
    except (KeyError, TypeError):
        raise TaggerError("the tagger does not record how it was trained; retrain only the head") from None


def untrained_encoder(tagger: Tagger, seed: int) -> Encoder:
    """An encoder like the tagger's before it was trained."""
    old = tagger.encoder
    if isinstance(old, Lexical):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return Lexical(old.options)
    if isinstance(old, Transformer):
        try:
            return Transformer(old.name, old.max_pieces, old.overlap)
        except EncoderError as error:
            raise EncoderError(
                f"the encoder that the tagger was trained from cannot be loaded ({error}); give it as the encoder "
                "transformer:NAME_OR_DIR"
            ) from error
    raise OptionError(f"cannot make an untrained {old.kind} encoder; give one as the encoder")


def untrained_tagger(tagger: Tagger, encoder: Encoder, seed: int) -> Tagger:
    """A tagger like another one, with new weights."""
    fresh = new_tagger(encoder, tagger.labels, tagger.head.options, cast(Unit, tagger.unit), seed)
    return fresh.to(tagger.device)


def train_further(
    tagger: Tagger,
    trusted: Sequence[Sentence],
    recipe: TrainOptions,
    progress: Callable[[Step], None] | None = None,
) -> None:
    """Train a tagger on trusted sentences only, for ``EPOCHS`` epochs and at least ``MIN_STEPS`` steps."""
    trusted = [sentence for sentence in trusted if len(sentence)]
    num_batches = math.ceil(len(tagger.labelled(trusted, "trusted")) / recipe.batch_size)
    rate = recipe.learning_rate or tagger.encoder.learning_rate
    further = replace(
        recipe, epochs=max(EPOCHS, math.ceil(MIN_STEPS / num_batches)), learning_rate=RATE * rate,
        head_learning_rate=recipe.head_learning_rate or rate, schedule="linear", keep="last",
    )  # fmt: skip
    train_tagger(tagger, trusted, (), further, progress=progress)
