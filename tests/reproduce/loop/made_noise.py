"""Invented documents with true labels, for tests of simulated noise and reviewers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tagtrace.data import Segment, Sentence, segments
from tagtrace.data.invented import generate


@cache
def true_sentences(num_documents: int = 120) -> tuple[Sentence, ...]:
    return generate(1, num_documents).train_true


@cache
def one_type() -> tuple[Sentence, ...]:
    """The same documents with a single type, outside documents."""
    return tuple(
        Sentence(one.tokens, tuple(label if label == "O" else f"{label[:2]}X" for label in one.labels), one.id)
        for one in true_sentences()
    )


def found(sentences: Sequence[Sentence]) -> set[tuple[int, Segment]]:
    """All segments with the numbers of their sentences."""
    return {(number, one) for number, s in enumerate(sentences) for one in segments(s.labels, "iob2")}
