"""The recipe that a tagger was trained by, to train one like it again from the start."""

from __future__ import annotations

from typing import cast

import torch

from tagtrace._checks import EncoderError, OptionError, TaggerError
from tagtrace.tagger.encoders import Encoder, Lexical, Transformer
from tagtrace.tagger.tagger import Tagger, Unit, new_tagger
from tagtrace.tagger.training import TrainOptions


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
