"""The recipe that a tagger was trained by, to train one like it again from the start."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Self

import torch

from tagtrace._checks import EncoderError, OptionError, TaggerError
from tagtrace.data.labels import LabelSet
from tagtrace.tagger.convex.refit import RefitOptions
from tagtrace.tagger.encoders import Encoder, Lexical, LexicalOptions, Transformer
from tagtrace.tagger.foreign.huggingface import CHECKPOINT
from tagtrace.tagger.head import HeadOptions
from tagtrace.tagger.tagger import Tagger, Unit, new_tagger
from tagtrace.tagger.training import TrainOptions

EncoderMaker = Callable[[int], Encoder]
"""Makes an untrained encoder from a seed. Those of ``encoder_maker`` can be sent to other processes."""


@dataclass(frozen=True)
class Recipe:
    """Everything that a tagger is trained by, apart from its data."""

    options: TrainOptions
    encoder: EncoderMaker
    labels: LabelSet
    head: HeadOptions
    unit: Unit
    settings: tuple[str, dict[str, object]]
    """The kind of encoder, and its settings."""
    stop_after: int | None = None
    """The epoch that was kept, if dev data chose it; None: the last."""
    refit: RefitOptions | None = None
    """How the head was refitted after training, if it was."""

    @classmethod
    def of(cls, tagger: Tagger, encoder: EncoderMaker | None = None) -> Self:
        """The recipe of a trained tagger; ``encoder`` replaces the recorded one."""
        options, make = recorded_recipe(tagger), encoder or encoder_maker(tagger)
        made = tagger.encoder if encoder is None else encoder(options.seed)
        record, settings = tagger.record, (made.kind, made.settings())
        best = record["training"]["history"].get("best_epoch") if options.keep == "best" else None
        refit = RefitOptions(**record["refit"]["options"]) if "refit" in record else None
        return cls(options, make, tagger.labels, tagger.head.options, tagger.unit, settings, best, refit)

    def untrained(self, seed: int) -> Tagger:
        """A tagger with new weights."""
        return new_tagger(self.encoder(seed), self.labels, self.head, self.unit, seed)

    def to_json(self) -> dict[str, object]:
        """Everything that a training by this recipe depends on, apart from its data and its seed."""
        return {
            "recipe": {k: v for k, v in self.options.to_json().items() if k not in ("checkpoint_seconds", "seed")},
            "labels": self.labels.to_json(),
            "head": self.head.to_json(),
            "unit": self.unit,
            "encoder": list(self.settings),
            "stop_after": self.stop_after,
            "refit": None if self.refit is None else self.refit.to_json(),
        }


def recorded_recipe(tagger: Tagger) -> TrainOptions:
    """The options that the tagger was trained with."""
    if not tagger.encoder.trainable:
        raise OptionError(f"a {tagger.encoder.kind} encoder cannot be trained; retrain only the head")
    if CHECKPOINT in tagger.record:
        raise TaggerError("a Hugging Face checkpoint does not record how it was trained; retrain only the head")
    try:
        return TrainOptions(**tagger.record["training"]["options"])
    except (KeyError, TypeError):
        raise TaggerError("the tagger does not record how it was trained; retrain only the head") from None


def encoder_maker(tagger: Tagger) -> EncoderMaker:
    """Makes encoders like the tagger's before it was trained."""
    old = tagger.encoder
    if isinstance(old, Lexical):
        return partial(_lexical, old.options)
    if isinstance(old, Transformer):
        return partial(_transformer, old.name, old.max_pieces, old.overlap)
    raise OptionError(f"cannot make an untrained {old.kind} encoder; give one as the encoder")


def _lexical(options: LexicalOptions, seed: int) -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Lexical(options)


def _transformer(name: str, max_pieces: int, overlap: int, seed: int) -> Encoder:  # noqa: ARG001
    return deepcopy(_pretrained(name, max_pieces, overlap))


@lru_cache(maxsize=1)
def _pretrained(name: str, max_pieces: int, overlap: int) -> Transformer:
    """Read once for all seeds."""
    try:
        return Transformer(name, max_pieces, overlap)
    except EncoderError as error:
        raise EncoderError(
            f"the encoder that the tagger was trained from cannot be loaded ({error}); give it as the encoder "
            "transformer:NAME_OR_DIR"
        ) from error
