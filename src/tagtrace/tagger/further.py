"""Training a tagger a little further, on trusted sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from tagtrace._checks import DataError, OptionError
from tagtrace.data.corpus import Corpus
from tagtrace.data.labels import HIDDEN
from tagtrace.data.sentence import Sentence
from tagtrace.tagger.tagger import Tagger
from tagtrace.tagger.training import Step, TrainOptions, partly_labelled, train_tagger

EPOCHS = 3
MIN_STEPS = 30
RATE = 0.7
"""Factor of the encoder's learning rate; the head keeps its own. All three were chosen on WNUT 2017 and NCBI."""


Trusted = Corpus | Sequence[Sentence]
"""Sentences whose labels are known to be right, or HIDDEN."""


def sentences_of(trusted: Trusted | None) -> list[Sentence]:
    """The trusted sentences, those of a corpus if one is given."""
    if isinstance(trusted, Corpus):
        return list(trusted.sentences)
    found = list(trusted or ())
    if not all(isinstance(one, Sentence) for one in found):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OptionError("trusted: expected sentences; give read_corpus(path), or decided_sentences(project, corpus)")
    return found


def check_held_out(trusted: Sequence[Sentence], held_out: Corpus | None, what: str) -> None:
    """Raise if most sentences of the ``what`` data are among the trusted ones: results on it would say nothing."""
    if held_out is None or not trusted:
        return
    known = {one.tokens for one in trusted}  # documents are named after their file, which may be a copy
    asked = [one for one in held_out.sentences if len(one)]
    num_known = sum(one.tokens in known for one in asked)
    if 2 * num_known > len(asked):
        raise OptionError(
            f"{held_out.path}: {num_known:,} of the {len(asked):,} sentences of the {what} data are also trusted; give "
            "held-out data"
        )


def check_trusted(tagger: Tagger, trusted: Sequence[Sentence]) -> None:
    """Raise if the tagger cannot be trained further on these sentences."""
    if not trusted:
        return
    if not tagger.encoder.trainable:
        raise OptionError(
            f"a {tagger.encoder.kind} encoder cannot be trained further on trusted sentences; leave them out, or use "
            "another encoder"
        )
    trusted = [sentence for sentence in trusted if len(sentence)]
    partly_labelled(tagger, trusted, "trusted")
    if tagger.head.options.constrained:
        for sentence in trusted:
            _check_well_formed(tagger, sentence)


def _check_well_formed(tagger: Tagger, sentence: Sentence) -> None:
    """Raise if known labels that follow each other are ruled out by the head's constraints."""
    ids = [None if label == HIDDEN else tagger.labels.index(label) for label in sentence.labels]
    wrong = [0] if ids[0] is not None and bool(tagger.head.forbidden_start[ids[0]]) else []
    wrong += [
        t for t, (a, b) in enumerate(pairwise(ids), 1)
        if a is not None and b is not None and bool(tagger.head.forbidden_transitions[a, b])
    ]  # fmt: skip
    if wrong:
        raise DataError(
            f"{sentence.id}: the trusted label {sentence.labels[wrong[0]]} of token {wrong[0]} cannot stand there, and "
            "the tagger rules out ill-formed labels; write its segment with B- first"
        )


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
