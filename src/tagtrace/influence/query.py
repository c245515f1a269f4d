"""A query: the prediction to explain, and the gradient of its conditional loss."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError, check_type
from tagtrace.data.corpus import Corpus
from tagtrace.data.schemes import differences
from tagtrace.data.sentence import Sentence
from tagtrace.influence.options import check_at_least
from tagtrace.influence.scoring.factors import Factors
from tagtrace.tagger import crf
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import Rows
from tagtrace.tagger.scores import Scores
from tagtrace.tagger.tagger import Tagger


@dataclass(frozen=True, eq=False)
class Query:
    """Tokens ``start:stop`` of a sentence with features (T, D) and labels (T,): gold, predicted or chosen by the user.

    The labels outside the segment are the condition of the conditional loss.
    """

    features: Tensor
    labels: Tensor
    start: int
    stop: int
    sentence: Sentence | None = None
    """The text, for display."""
    predicted: tuple[str, ...] = ()
    """The predicted labels of the whole sentence, for display."""

    def __post_init__(self) -> None:
        if len(self.features) != len(self.labels):
            raise OptionError(
                f"a query needs features and labels of the same tokens; got {len(self.features)} and {len(self.labels)}"
            )
        if not 0 <= self.start < self.stop <= len(self.labels):
            raise OptionError(
                f"{self.start}:{self.stop} is not a segment of a sentence of {len(self.labels)} tokens; "
                "segments are start:stop as in a Python slice"
            )

    @property
    def segment(self) -> Tensor:
        """The segment as a tensor (1, 3), for ``crf``."""
        return torch.tensor([[0, self.start, self.stop]])

    @property
    def explained(self) -> list[int]:
        """The numbers of the labels in the segment."""
        return self.labels[self.start : self.stop].tolist()

    def with_labels(self, labels: Tensor) -> Query:
        """The same segment with other labels in it, (stop - start,)."""
        changed = self.labels.clone()
        changed[self.start : self.stop] = labels
        return replace(self, labels=changed)

    def loss(self, head: Head) -> Tensor:
        """CL = -log p(labels in the segment | labels outside, x) under ``head``; differentiable."""
        features = self.features.to(head.weight)
        scores: Scores = head(features, torch.tensor([len(self.labels)]))
        return crf.conditional_loss(scores, self.labels.unsqueeze(0), self.segment)[0]

    @torch.no_grad()
    def probabilities(self, head: Head) -> Tensor:
        """p(y_t | labels outside the segment, x) for its tokens, (stop - start, C)."""
        scores: Scores = head(self.features.to(head.weight), torch.tensor([len(self.labels)]))
        return crf.node_marginals(crf.segment_scores(scores, self.labels.unsqueeze(0), self.segment))[0].cpu()

    def gradient(self, head: Head) -> Tensor:
        """dCL/dtheta, (P,), in float64; its direction is exact even if p(labels) rounds to 1 (``factors``)."""
        features, labels = self.features.to(head.weight.device).double(), self.labels.to(head.weight.device).long()
        rows = Rows(features, labels, torch.tensor([len(labels)]))
        return Factors.of(head, rows, self.segment).dense()[0]

    def describe(self) -> list[str]:
        """The segment in its sentence, with the predicted and the gold labels."""
        if self.sentence is None:
            return []
        inside = slice(self.start, self.stop)
        line = f"{self.sentence.id}  tokens {self.start}:{self.stop}   predicted: {' '.join(self.predicted[inside])}"
        gold = f"   gold: {' '.join(self.sentence.labels[inside])}" if self.sentence.is_labelled else ""
        return [self.sentence.in_context(self.start, self.stop), line + gold]

    def to_json(self) -> dict[str, object]:
        """The segment as data: its place, its tokens, and its predicted and gold labels."""
        sentence, inside = self.sentence, slice(self.start, self.stop)
        return {
            "sentence": sentence.id if sentence else None,
            "start": self.start,
            "stop": self.stop,
            "tokens": list(sentence.tokens[inside]) if sentence else None,
            "predicted": list(self.predicted[inside]),
            "gold": list(sentence.labels[inside]) if sentence and sentence.is_labelled else None,
        }


@torch.no_grad()
def make_query(
    tagger: Tagger,
    sentence: Sentence,
    start: int,
    stop: int,
    target: str = "predicted",
    *,
    features: Tensor | None = None,
) -> Query:
    """The query for tokens ``start:stop`` of a sentence.

    ``target`` says which labels of the segment are explained: the ``predicted`` ones, the ``gold`` ones, or those named
    here: a type (``ORG``), a label, or one label for each token, separated by commas. ``tagger`` should come from
    ``Index.tagger``, so that predictions are those of the index's head. If the features (T, D) of the sentence are
    known, ``features`` saves encoding it.
    """
    check_type("sentence", sentence, Sentence, "give a sentence of a corpus; make_queries takes an id")
    if not 0 <= start < stop <= len(sentence):
        raise OptionError(
            f"{start}:{stop} is not a segment of {sentence.id or 'the sentence'}, which has {len(sentence)} tokens; "
            "segments are start:stop as in a Python slice"
        )
    if target == "gold":
        if not sentence.is_labelled:
            raise DataError(f"{sentence.id or 'the sentence'} has no gold labels to explain; name a label instead")
        tagger.labels.check([sentence])
    if features is None:
        features = tagger.features(sentence)
    if features.shape != (len(sentence), tagger.head.dim):
        shape, expected = tuple(features.shape), (len(sentence), tagger.head.dim)
        raise OptionError(f"features have the shape {shape}; this sentence and tagger need {expected}")
    features = features.double().cpu()
    predicted = tagger.labels.decode(tagger.head.decode(features, torch.tensor([len(sentence)]))[0])
    ids = tagger.labels.encode(sentence.labels if target == "gold" else predicted)
    if target not in ("gold", "predicted"):
        try:
            ids[start:stop] = tagger.labels.parse(target, stop - start)
        except OptionError as error:
            raise OptionError(f"target {target!r}: {error}") from None
    query = Query(features, torch.tensor(ids), start, stop, sentence, predicted)
    if not bool(query.loss(tagger.head).isfinite()):
        asked = " ".join(tagger.labels.decode(ids[start:stop]))
        raise OptionError(f"target {target!r}: the tagger's constraints forbid {asked} there; explain a whole segment")
    return query


def make_queries(
    tagger: Tagger,
    corpus: Corpus,
    sentence: str | None = None,
    segment: tuple[int, int] | None = None,
    target: str = "predicted",
    most: int | None = None,
) -> list[Query]:
    """The query for a ``segment`` of the ``sentence`` with an id, or queries for mispredictions.

    Without a segment, the mispredictions of that sentence or, without a sentence, of the whole corpus; at most ``most``
    of them. ``target`` is as for ``make_query``.
    """
    if most is not None:
        check_at_least(1, most=most)
    check_type("corpus", corpus, Corpus, "give read_corpus(path)")
    tagger.encoder.check_corpus(corpus)
    joined = tagger.joined(corpus.sentences)
    if sentence is not None:
        joined = [_with_id(joined, sentence, corpus)]
    elif segment is not None:
        raise OptionError("a segment needs the id of its sentence")
    if segment is not None:
        return [make_query(tagger, joined[0], *segment, target)]
    labelled = [one for one in joined if len(one) and one.is_labelled]
    if not labelled:
        raise DataError(
            f"{corpus.path}: has no labels, so mispredictions cannot be found; name a sentence and a segment of it"
        )
    found = (
        make_query(tagger, one, start, stop, target)
        for one, predicted in zip(labelled, tagger.predict(labelled), strict=True)
        for start, stop in differences(one.labels, predicted, tagger.labels.scheme)
    )
    return list(islice(found, None if most is None else min(most, sys.maxsize)))


def _with_id(sentences: Sequence[Sentence], id_: str, corpus: Corpus) -> Sentence:
    found = [one for one in sentences if one.id == id_]
    if len(found) > 1:
        raise DataError(f"{corpus.path}: several sentences have the id {id_!r}; make the ids unique")
    if not found:
        ids = [repr(one.id) for one in sentences]
        some = ", ".join(ids) if len(ids) < 4 else f"{ids[0]}, {ids[1]} ... {ids[-1]}"
        raise DataError(f"{corpus.path}: no sentence has the id {id_!r}; its ids are {some}")
    return found[0]
