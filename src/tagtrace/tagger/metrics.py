"""Segment F1 (a segment is correct only if its type and both boundaries are) and token F1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tagtrace._table import Table, Tabular
from tagtrace.data.schemes import label_type, segments


@dataclass(frozen=True)
class F1Score:
    """Precision, recall and F1 from counts of correct, predicted and gold items."""

    num_correct: int
    num_predicted: int
    num_gold: int

    @property
    def precision(self) -> float:
        return self.num_correct / self.num_predicted if self.num_predicted else 0.0

    @property
    def recall(self) -> float:
        return self.num_correct / self.num_gold if self.num_gold else 0.0

    @property
    def f1(self) -> float:
        total = self.num_predicted + self.num_gold
        return 2 * self.num_correct / total if total else 0.0

    def to_json(self) -> dict[str, float]:
        return {**asdict(self), "precision": self.precision, "recall": self.recall, "f1": self.f1}


@dataclass(frozen=True)
class Scorecard(Tabular):
    """How predictions compare with gold labels."""

    segments: F1Score
    """All types together (micro average)."""
    by_type: dict[str, F1Score]
    tokens: F1Score
    """Tokens with a label other than O; only types are compared, not B- and I-."""
    accuracy: float
    """Share of tokens whose full label is correct, O included."""

    def to_json(self) -> dict[str, object]:
        return {
            "segment": self.segments.to_json(),
            "by_type": {name: score.to_json() for name, score in self.by_type.items()},
            "token": self.tokens.to_json(),
            "accuracy": self.accuracy,
        }

    def describe(self) -> list[str | Table]:
        return [self.table(), f"accuracy {100 * self.accuracy:.2f}"]

    def table(self, title: str = "") -> Table:
        """Precision, recall and F1 by type and overall, in percent."""
        numbers = ("precision", "recall", "F1", "gold", "predicted")
        rows = tuple((name, *_percentages(score)) for name, score in self._named().items())
        return Table(title, ("type", *numbers), rows, numbers)

    def to_records(self) -> list[dict[str, Any]]:
        """One record per type, then all segments and tokens."""
        return [{"type": name, **score.to_json()} for name, score in self._named().items()]

    def _named(self) -> dict[str, F1Score]:
        return {**self.by_type, "all segments": self.segments, "tokens": self.tokens}


def _percentages(score: F1Score) -> list[str]:
    shares = (score.precision, score.recall, score.f1)
    return [f"{100 * share:.2f}" for share in shares] + [f"{score.num_gold:,}", f"{score.num_predicted:,}"]


def score_labels(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str) -> Scorecard:
    """Compare label sequences of one normalised scheme, sentence by sentence."""
    correct: Counter[str] = Counter()
    wanted: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for gold_labels, predicted_labels in zip(gold, predicted, strict=True):
        gold_segments = set(segments(gold_labels, scheme))
        predicted_segments = set(segments(predicted_labels, scheme))
        wanted.update(segment.type for segment in gold_segments)
        found.update(segment.type for segment in predicted_segments)
        correct.update(segment.type for segment in gold_segments & predicted_segments)
    by_type = {t: F1Score(correct[t], found[t], wanted[t]) for t in sorted(wanted | found)}
    overall = F1Score(correct.total(), found.total(), wanted.total())
    return Scorecard(overall, by_type, *_score_tokens(gold, predicted, scheme))


def _score_tokens(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str
) -> tuple[F1Score, float]:
    pairs = Counter(pair for g, p in zip(gold, predicted, strict=True) for pair in zip(g, p, strict=True))
    types: Counter[tuple[str, str]] = Counter()
    for (g, p), count in pairs.items():
        types[label_type(g, scheme), label_type(p, scheme)] += count
    tokens = F1Score(
        num_correct=sum(count for (g, p), count in types.items() if g == p != "O"),
        num_predicted=sum(count for (_, p), count in types.items() if p != "O"),
        num_gold=sum(count for (g, _), count in types.items() if g != "O"),
    )
    num_right = sum(count for (g, p), count in pairs.items() if g == p)
    return tokens, num_right / max(pairs.total(), 1)
