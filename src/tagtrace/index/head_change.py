"""What the refit of the head changed in the predictions for the training data of an index."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from itertools import chain, islice

from tagtrace.index.index import Index
from tagtrace.tagger.head import Head
from tagtrace.tagger.metrics import score_labels
from tagtrace.tagger.tagger import Tagger


@dataclass(frozen=True)
class HeadChange:
    """Predictions with the head of the tagger (before) and with that of the index (after), on the stored features."""

    num_tokens: int
    num_changed: int
    """How many tokens have another label after the refit."""
    f1_before: float
    """Segment F1 against the labels of the training data."""
    f1_after: float

    def __str__(self) -> str:
        return (
            f"the refit of the head changes the predictions for {self.num_changed:,} of {self.num_tokens:,} training "
            f"tokens: segment F1 there was {100 * self.f1_before:.2f} and is {100 * self.f1_after:.2f}"
        )


def head_change(index: Index, tagger: Tagger) -> HeadChange:
    """Compare the head of ``tagger``, which the index was built with, with the head of the index."""
    before, after = (_predictions(index, head) for head in (deepcopy(tagger.head).cpu(), index.head))
    labels = iter(index.labels.decode(index.label_ids.tolist()))
    gold = [tuple(islice(labels, length)) for length in index.lengths.tolist()]
    f1 = [score_labels(gold, found, index.labels.scheme).segments.f1 for found in (before, after)]
    pairs = zip(chain.from_iterable(before), chain.from_iterable(after), strict=True)
    return HeadChange(index.num_tokens, sum(one != other for one, other in pairs), *f1)


def _predictions(index: Index, head: Head) -> list[tuple[str, ...]]:
    """The well-formed labels that a head predicts for each sentence, from the stored features."""
    paths = [path for shard in index.shards for path in head.decode(shard.features, shard.lengths)]
    return [index.labels.decode(path) for path in paths]
