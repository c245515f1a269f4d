"""Mispredictions: the segments of labelled data that a tagger predicts differently."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace.data.corpus import Corpus
from tagtrace.data.schemes import differences, spelled
from tagtrace.data.sentence import Sentence
from tagtrace.tagger import crf
from tagtrace.tagger.rows import Rows, pad_rows
from tagtrace.tagger.tagger import Tagger

TOGETHER = 256
"""Number of sentences predicted at once."""


@dataclass(frozen=True)
class Misprediction:
    """Tokens ``start:stop`` of a sentence whose predicted segments differ from the gold ones."""

    sentence: Sentence
    start: int
    stop: int
    predicted: tuple[str, ...]
    """The predicted labels of the whole sentence."""
    loss: float
    """-log p(gold labels of the segment | gold labels around it, x)"""

    @property
    def gold_labels(self) -> tuple[str, ...]:
        return self.sentence.labels[self.start : self.stop]

    @property
    def predicted_labels(self) -> tuple[str, ...]:
        return self.predicted[self.start : self.stop]

    @property
    def pair(self) -> str:
        """The gold and the predicted types: ``ORG:LOC``."""
        return f"{spelled(self.gold_labels)}:{spelled(self.predicted_labels)}"

    @property
    def text(self) -> str:
        """The segment in brackets, with the words around it."""
        return self.sentence.in_context(self.start, self.stop)

    def __str__(self) -> str:
        gold, predicted = " ".join(self.gold_labels), " ".join(self.predicted_labels)
        return f"{self.sentence.id} {self.start}:{self.stop}  gold {gold}, predicted {predicted}: {self.text}"


def mispredictions(tagger: Tagger, data: Corpus | Sequence[Sentence]) -> list[Misprediction]:
    """Every segment of ``data`` that ``tagger`` predicts differently from its labels, in the order of the data."""
    if isinstance(data, Corpus):
        tagger.check_scheme(data)
        tagger.encoder.check_corpus(data)
    sentences = data.sentences if isinstance(data, Corpus) else data
    joined = tagger.labelled([sentence for sentence in sentences if len(sentence)], "given")
    return [found for batch in predict_batches(tagger, joined) for found in batch.mispredictions]


@dataclass(frozen=True)
class PredictedBatch:
    """The predicted labels of some sentences, and the segments where these are wrong."""

    predicted: list[tuple[str, ...]]
    mispredictions: list[Misprediction]


def predict_batches(tagger: Tagger, sentences: Sequence[Sentence]) -> Iterator[PredictedBatch]:
    """Predict labelled sentences batch by batch and compare the predictions with their labels."""
    for first in range(0, len(sentences), TOGETHER):
        some = sentences[first : first + TOGETHER]
        rows = tagger.rows(some)
        predicted = [tagger.labels.decode(path) for path in tagger.head.decode(rows.features, rows.lengths)]
        yield PredictedBatch(predicted, list(_compare(tagger, some, rows, predicted)))


def _compare(
    tagger: Tagger, sentences: Sequence[Sentence], rows: Rows, predicted: Sequence[tuple[str, ...]]
) -> Iterator[Misprediction]:
    wrong = [
        (number, start, stop)
        for number, (sentence, labels) in enumerate(zip(sentences, predicted, strict=True))
        for start, stop in differences(sentence.labels, labels, tagger.labels.scheme)
    ]
    for (number, start, stop), loss in zip(wrong, _losses(tagger, rows, wrong), strict=True):
        yield Misprediction(sentences[number], start, stop, predicted[number], loss)


@torch.no_grad()
def _losses(tagger: Tagger, rows: Rows, wrong: Sequence[tuple[int, int, int]]) -> list[float]:
    """Conditional losses of segments under their gold labels."""
    if not wrong:
        return []
    head = tagger.head
    scores = head(rows.features.to(head.weight), rows.lengths)
    labels: Tensor = pad_rows(rows.labels, rows.lengths)  # (B, T)
    return crf.conditional_loss(scores, labels, torch.tensor(wrong)).tolist()
