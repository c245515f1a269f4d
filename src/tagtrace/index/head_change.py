"""What the head of an index changed in the predictions for its training data."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from itertools import chain, islice

from tagtrace.index.index import Index
from tagtrace.tagger.encoders import Pipeline
from tagtrace.tagger.head import Head
from tagtrace.tagger.metrics import score_labels
from tagtrace.tagger.tagger import Tagger


@dataclass(frozen=True)
class HeadChange:
    """Predictions of the tagger (before) and those with the head of the index (after), on the stored features."""

    num_tokens: int
    num_changed: int
    """How many tokens have another label after the refit."""
    f1_before: float
    """Segment F1 against the labels of the training data."""
    f1_after: float
    is_new: bool = False
    """Whether the head took the place of spaCy's own ``ner``."""

    def __str__(self) -> str:
        counts = f"for {self.num_changed:,} of {self.num_tokens:,} training tokens: segment F1 there"
        before, after = (f"{100 * f1:.2f}" for f1 in (self.f1_before, self.f1_after))
        if self.is_new:
            return (
                "spaCy's own ner has no scores of labels, so the index has a new CRF head, fitted on spaCy's vectors; "
                f"it differs from spaCy's own predictions {counts} is {before} by spaCy and {after} by this head"
            )
        return f"the refit of the head changes the predictions {counts} was {before} and is {after}"


def head_change(index: Index, tagger: Tagger) -> HeadChange:
    """Compare ``tagger``, which the index was built with, with the head of the index.

    A tagger whose head is new is a spaCy pipeline, which makes predictions of its own.
    """
    after = _predictions(index, index.head)
    if isinstance(tagger.encoder, Pipeline) and not tagger.is_fitted:
        before = tagger.encoder.own_labels([index.sentence(number) for number in range(index.num_sentences)])
    else:
        before = _predictions(index, deepcopy(tagger.head).cpu())
    labels = iter(index.labels.decode(index.label_ids.tolist()))
    gold = [tuple(islice(labels, length)) for length in index.lengths.tolist()]
    f1 = [score_labels(gold, found, index.labels.scheme).segments.f1 for found in (before, after)]
    pairs = zip(chain.from_iterable(before), chain.from_iterable(after), strict=True)
    return HeadChange(index.num_tokens, sum(one != other for one, other in pairs), *f1, is_new=not tagger.is_fitted)


def _predictions(index: Index, head: Head) -> list[tuple[str, ...]]:
    """The well-formed labels that a head predicts for each sentence, from the stored features."""
    paths = [path for shard in index.shards for path in head.decode(shard.features, shard.lengths)]
    return [index.labels.decode(path) for path in paths]
