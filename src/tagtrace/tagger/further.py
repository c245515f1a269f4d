"""Training a tagger a little further, on trusted sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from tagtrace._checks import OptionError
from tagtrace.data.sentence import Sentence
from tagtrace.tagger.tagger import Tagger
from tagtrace.tagger.training import Step, TrainOptions, partly_labelled, train_tagger

EPOCHS = 3
MIN_STEPS = 30
RATE = 0.7
"""Factor of the encoder's learning rate; the head keeps its own. All three were chosen on WNUT 2017 and NCBI."""


def check_trusted(tagger: Tagger, trusted: Sequence[Sentence]) -> None:
    """Raise if the tagger cannot be trained further on these sentences."""
    if not trusted:
        return
    if not tagger.encoder.trainable:
        raise OptionError(
            f"a {tagger.encoder.kind} encoder cannot be trained further on trusted sentences; leave them out, or use "
            "another encoder"
        )
    partly_labelled(tagger, [sentence for sentence in trusted if len(sentence)], "trusted")


def train_further(
    tagger: Tagger,
    trusted: Sequence[Sentence],
    recipe: TrainOptions,
    progress: Callable[[Step], None] | None = None,
) -> None:
    """Train a tagger on trusted sentences only, for ``EPOCHS`` epochs and at least ``MIN_STEPS`` steps.

    Tokens whose labels are not known have the label HIDDEN. The tagger's record of its training before stays.
    """
    before = tagger.record.get("training")
    trusted = [sentence for sentence in trusted if len(sentence)]
    num_batches = math.ceil(len(partly_labelled(tagger, trusted, "trusted")) / recipe.batch_size)
    rate = recipe.learning_rate or tagger.encoder.learning_rate
    further = replace(
        recipe, epochs=max(EPOCHS, math.ceil(MIN_STEPS / num_batches)), learning_rate=RATE * rate,
        head_learning_rate=recipe.head_learning_rate or rate, schedule="linear", keep="last",
    )  # fmt: skip
    train_tagger(tagger, trusted, (), further, progress=progress)
    if before is not None:
        tagger.record["further"], tagger.record["training"] = {"num_sentences": len(trusted)}, before
