"""The mispredictions of held-out data, worked out in the background and filtered for the page."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError, TagtraceError
from tagtrace.data import Corpus, Sentence, differences
from tagtrace.findings.finding import spelled
from tagtrace.review.model.asking import likeliest
from tagtrace.review.model.listings import page
from tagtrace.review.training_data import context, lowered
from tagtrace.tagger import Tagger, crf
from tagtrace.tagger.rows import Rows, pad_rows

TOGETHER = 256
"""Sentences that are predicted at once."""


@dataclass(frozen=True, slots=True)
class Misprediction:
    """Tokens ``start:stop`` that are predicted otherwise than labelled."""

    sentence: Sentence
    start: int
    stop: int
    predicted: tuple[str, ...]
    """The labels of its tokens."""
    loss: float
    """-log p(gold labels of the segment | gold labels around it, x)"""
    pair: str
    """``ORG:LOC``: the types that are right, and those predicted."""

    searched: str
    """The sentence in lower case."""

    def to_json(self) -> dict[str, Any]:
        inside = slice(self.start, self.stop)
        return {
            "sentence": self.sentence.id,
            "document": self.sentence.document,
            "sentence_number": None,
            "start": self.start,
            "stop": self.stop,
            **context(self.sentence, self.start, self.stop),
            "gold": list(self.sentence.labels[inside]),
            "predicted": list(self.predicted),
            "loss": self.loss if math.isfinite(self.loss) else None,
            "pair": self.pair,
        }


class Held:
    """Held-out sentences, what is predicted for them, and where that is wrong."""

    def __init__(self, tagger: Tagger, corpus: Corpus) -> None:
        self.tagger = tagger
        if corpus.normalised_scheme != tagger.labels.scheme:
            raise DataError(f"{corpus.path}: its labels are {corpus.scheme}, not of the tagger's kind; check --scheme")
        tagger.encoder.check_corpus(corpus)
        self.sentences = tagger.labelled(corpus.sentences, "dev")
        self.number_of = {sentence.id: number for number, sentence in reversed(list(enumerate(self.sentences)))}
        self.found: list[Misprediction] = []
        self.predicted: list[tuple[str, ...]] = []
        """Of each sentence, as far as they are worked out."""
        self.problem: str | None = None
        self._ready = threading.Event()
        self.is_stopped = False
        """Set it to end ``work`` after a batch."""

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set() and self.problem is None

    @property
    def progress(self) -> tuple[int, int] | None:
        """Sentences done and in all; None when there is no more to come."""
        return None if self._ready.is_set() else (len(self.predicted), len(self.sentences))

    def work(self) -> None:
        """Predict all, batch by batch."""
        try:
            for first in range(0, len(self.sentences), TOGETHER):
                some = self.sentences[first : first + TOGETHER]
                rows = self.tagger.rows(some)
                predicted = likeliest(self.tagger.head, self.tagger.labels, rows.features, rows.lengths)
                self.found.extend(self._compare(some, rows, predicted))
                self.predicted.extend(predicted)
                if self.is_stopped:
                    return
        except TagtraceError as error:
            self.problem = str(error)
        finally:
            self._ready.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Until all is predicted; whether it is."""
        return self._ready.wait(seconds)

    def _compare(
        self, sentences: Sequence[Sentence], rows: Rows, predicted: Sequence[tuple[str, ...]]
    ) -> Iterator[Misprediction]:
        scheme = self.tagger.labels.scheme
        wrong = [
            (number, start, stop)
            for number, (sentence, labels) in enumerate(zip(sentences, predicted, strict=True))
            for start, stop in differences(sentence.labels, labels, scheme)
        ]
        for (number, start, stop), loss in zip(wrong, self._losses(rows, wrong), strict=True):
            labels = predicted[number][start:stop]
            pair = f"{spelled(sentences[number].labels[start:stop])}:{spelled(labels)}"
            yield Misprediction(sentences[number], start, stop, labels, loss, pair, lowered(sentences[number]))

    @torch.no_grad()
    def _losses(self, rows: Rows, wrong: Sequence[tuple[int, int, int]]) -> list[float]:
        """Conditional losses of segments under their gold labels."""
        if not wrong:
            return []
        head = self.tagger.head
        scores = head(rows.features.to(head.weight), rows.lengths)
        labels: Tensor = pad_rows(rows.labels, rows.lengths)  # (B, T)
        return crf.conditional_loss(scores, labels, torch.tensor(wrong)).tolist()


def list_errors(
    held: Held,
    pair: str = "",
    text: str = "",
    document: str = "",
    min_loss: float = -math.inf,
    sort: str = "loss",
    offset: int = 0,
    limit: int = 50,
) -> dict[str, Any]:
    """The mispredictions that pass every filter, the most surprising first or in the order of the data."""
    if sort not in ("loss", "place"):
        raise OptionError(f"sort {sort!r}: expected loss or place")
    found = held.found if held.is_ready else []
    if text:
        found = [one for one in found if text.lower() in one.searched]
    if document:
        found = [one for one in found if document.lower() in one.sentence.document.lower()]
    found = [one for one in found if one.loss >= min_loss]
    pairs = Counter(one.pair for one in found).most_common()
    if pair:
        found = [one for one in found if one.pair == pair]
    if sort == "loss":
        found = sorted(found, key=lambda one: -one.loss)
    return {
        "total": len(found),
        "items": [one.to_json() for one in page(found, offset, limit)],
        "pairs": [list(each) for each in pairs],
        "preparing": held.progress,
    }
