"""Segment F1 (a segment counts only if type and both boundaries are right) and token F1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from tagtrace.data.schemes import segments


@dataclass(frozen=True)
class Score:
    """Precision, recall and F1 of ``num_correct`` out of what was predicted and what is gold."""

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
class Scorecard:
    """How predictions compare with gold labels."""

    segments: Score
    """All types together (micro average)."""
    by_type: dict[str, Score]
    tokens: Score
    """Tokens with a label other than O, type compared, B- or I- not."""
    accuracy: float
    """Share of tokens whose whole label is right, O included."""

    def to_json(self) -> dict[str, object]:
        return {
            "segment": self.segments.to_json(),
            "by_type": {name: score.to_json() for name, score in self.by_type.items()},
            "token": self.tokens.to_json(),
            "accuracy": self.accuracy,
        }


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
    by_type = {t: Score(correct[t], found[t], wanted[t]) for t in sorted(wanted | found)}
    overall = Score(correct.total(), found.total(), wanted.total())
    return Scorecard(overall, by_type, *_score_tokens(gold, predicted, scheme))


def _score_tokens(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str
) -> tuple[Score, float]:
    pairs = Counter(pair for g, p in zip(gold, predicted, strict=True) for pair in zip(g, p, strict=True))
    types: Counter[tuple[str, str]] = Counter()
    for (g, p), count in pairs.items():
        types[_type(g, scheme), _type(p, scheme)] += count
    tokens = Score(
        num_correct=sum(count for (g, p), count in types.items() if g == p != "O"),
        num_predicted=sum(count for (_, p), count in types.items() if p != "O"),
        num_gold=sum(count for (g, _), count in types.items() if g != "O"),
    )
    num_right = sum(count for (g, p), count in pairs.items() if g == p)
    return tokens, num_right / max(pairs.total(), 1)


def _type(label: str, scheme: str) -> str:
    return label.split("-", 1)[1] if scheme == "iob2" and label != "O" else label
