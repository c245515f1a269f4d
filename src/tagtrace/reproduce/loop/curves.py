"""Curves: what is left to fix, and how good a tagger becomes, after so many decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from tagtrace.data import LabelSet, Sentence
from tagtrace.findings.finding import Finding
from tagtrace.findings.gains.retrained import predict_rows
from tagtrace.index import Index
from tagtrace.reproduce.loop.places import Place
from tagtrace.reproduce.loop.reviewers import Reviewer, ReviewerDecision
from tagtrace.reproduce.shared.taggers import RECIPE
from tagtrace.tagger import (
    RefitOptions,
    Rows,
    Tagger,
    TrainOptions,
    build_encoder,
    new_tagger,
    refit_head,
    score_labels,
    train_tagger,
)
from tagtrace.tagger.further import train_further

HeldOutF1 = Callable[[Sequence[Sentence]], float]
"""Trains on sentences and gives segment F1 on test data."""
ThenTrustedF1 = Callable[..., float]
"""The same, with a short training on trusted sentences at the end, if there are any."""


@dataclass(frozen=True)
class ReviewState:
    """The training data after some decisions."""

    num_decisions: int
    num_read: int
    """Number of tokens that were decided on, each counted once."""
    num_wrong: int
    """Number of tokens with a wrong label."""
    sentences: tuple[Sentence, ...]


class SimulatedReview:
    """Training data that changes with the decisions of a simulated reviewer; ``state`` says how far it has come."""

    sentences: list[Sentence]
    reviewer: Reviewer
    num_decisions: int

    def __init__(self, sentences: Sequence[Sentence], reviewer: Reviewer) -> None:
        self.sentences, self.reviewer = list(sentences), reviewer
        self.num_decisions, self._decided = 0, set[tuple[int, int]]()

    def look(self, place: Place | Finding) -> ReviewerDecision | None:
        """Let the reviewer decide on a place, and change the labels; None if all of it has been decided before."""
        number = place.sentence_number
        if self._decided.issuperset((number, t) for t in range(place.start, place.stop)):
            return None
        sentence = self.sentences[number]
        decision = self.reviewer.decide(place, sentence.labels)
        self.sentences[number] = sentence.with_labels(decision.applied(sentence.labels))
        self._decided.update((number, t) for t in range(decision.start, decision.stop))
        self.num_decisions += 1
        return decision

    def state(self) -> ReviewState:
        pairs = zip(self.sentences, self.reviewer.true, strict=True)
        num_wrong = sum(a != b for given, true in pairs for a, b in zip(given.labels, true.labels, strict=True))
        return ReviewState(self.num_decisions, len(self._decided), num_wrong, tuple(self.sentences))


def follow(
    sentences: Sequence[Sentence], places: Iterable[Place | Finding], reviewer: Reviewer, counts: Sequence[int]
) -> list[ReviewState]:
    """The state after each of these numbers of decisions, or after all places if there are fewer.

    ``places`` are taken one at a time, so that they may depend on earlier decisions.
    """
    review, states, left = SimulatedReview(sentences, reviewer), list[ReviewState](), iter(places)
    for count in sorted(counts):
        while review.num_decisions < count and (place := next(left, None)) is not None:
            review.look(place)
        states.append(review.state())
    return states


def f1_curve(states: Sequence[ReviewState], held_out_f1: HeldOutF1) -> list[tuple[int, float]]:
    """(number of decisions, F1 on test data) for each state."""
    return [(one.num_decisions, held_out_f1(one.sentences)) for one in states]


def head_f1(index: Index, tagger: Tagger, test: Sequence[Sentence]) -> HeldOutF1:
    """Trains the head only, exactly, on the features of an index with other labels; the sentences are the index's."""
    stored, test_rows = index.rows.joined(), tagger.rows(test)
    saved = index.manifest.options
    options = RefitOptions(index.manifest.l2, saved.tolerance, saved.max_steps)

    def trained_on(sentences: Sequence[Sentence]) -> float:
        labels = torch.tensor([label for one in sentences for label in index.labels.encode(one.labels)])  # (N,)
        head = refit_head(index.head, Rows(stored.features, labels, stored.lengths), options).head
        return _f1(test, predict_rows(tagger, head, test_rows, test))

    return trained_on


def whole_f1(
    encoder: str, labels: LabelSet, test: Sequence[Sentence], recipe: TrainOptions = RECIPE, seed: int = 0
) -> ThenTrustedF1:
    """Trains an encoder, made from its specification, and a head on it."""

    def trained_on(sentences: Sequence[Sentence], trusted: Sequence[Sentence] = ()) -> float:
        tagger = new_tagger(build_encoder(encoder, sentences, seed), labels, seed=seed)
        train_tagger(tagger, sentences, (), replace(recipe, seed=seed))
        if trusted:
            train_further(tagger, trusted, recipe)
        return _f1(test, tagger.predict(test))

    return trained_on


def _f1(test: Sequence[Sentence], predicted: Sequence[Sequence[str]]) -> float:
    return score_labels([one.labels for one in test], predicted, "iob2").segments.f1
