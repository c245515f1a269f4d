"""Compare: predictions of one or several runs before and after a change, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tagtrace._markup import counted
from tagtrace._table import Table, Tabular
from tagtrace.data.schemes import segments
from tagtrace.data.sentence import Sentence
from tagtrace.findings.gains.bootstrap import Difference, Floats, paired_bootstraps
from tagtrace.tagger import Scorecard, score_labels

FEW_UNITS = 20
"""With fewer units, a note says that the interval is not reliable."""

Predicted = Sequence[Sequence[str]]
"""The labels of every sentence."""
Counted = tuple[Literal["type", "segments", "tokens"], str]
"""What is counted: segments of a type, all segments, or tokens."""
SEGMENTS: Counted = ("segments", "")
TOKENS: Counted = ("tokens", "")


@dataclass(frozen=True)
class Gain(Tabular):
    """Scores on held-out data before and after, one scorecard for each run, and their differences with intervals."""

    before: tuple[Scorecard, ...]
    after: tuple[Scorecard, ...]
    f1: Difference
    """F1 of segments of all types, the mean over runs."""
    by_type: dict[str, Difference]
    """F1 of the segments of each type."""
    accuracy: Difference
    """Accuracy of tokens, including O."""
    unit: Literal["document", "sentence"]
    """What is resampled: ``document``, or ``sentence`` if the data has no documents, or only one."""
    num_units: int
    retrained: str = "head"
    """What was retrained: ``head``, or ``everything``."""
    num_changed: int = 0
    """Labels that differ between the data before and after."""
    num_trusted: int = 0
    """Trusted sentences that training ended with after the change."""

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        one, labels = self.f1, counted(self.num_changed, "changed label")
        if self.num_trusted:
            labels += f" and a short training on {counted(self.num_trusted, 'trusted sentence')}"
        interval = f"95 % interval {100 * one.low:+.2f} to {100 * one.high:+.2f}, over {self._units()}"
        if one.low > 0:
            return f"better: {labels} raise segment F1 by {100 * one.difference:.2f} points ({interval})"
        if one.high < 0:
            return f"worse: {labels} lower segment F1 by {-100 * one.difference:.2f} points ({interval})"
        return f"no clear difference: {labels} move segment F1 by {100 * one.difference:+.2f} points ({interval})"

    def _units(self) -> str:
        return counted(self.num_units, self.unit)

    def describe(self) -> list[str | Table]:
        runs = "" if len(self.before) == 1 else f", mean of {len(self.before)} seeds"
        numbers = ("before", "after", "difference", "95 % interval")
        rows = tuple((name, *_cells(one)) for name, one in self._named().items())
        found: list[str | Table] = [Table(f"held-out data{runs}", ("segment F1", *numbers), rows, numbers)]
        if self.num_units < FEW_UNITS:
            found.append(f"note: with {self._units()} the interval says little; give more held-out data")
        return [*found, self.verdict]

    def to_records(self) -> list[dict[str, Any]]:
        """One record for each type, then all segments and token accuracy."""
        return [{"type": name, **one.to_json()} for name, one in self._named().items()]

    def _named(self) -> dict[str, Difference]:
        return {**self.by_type, "all segments": self.f1, "token accuracy": self.accuracy}

    def to_json(self) -> dict[str, Any]:
        return {
            "f1": self.f1.to_json(),
            "by_type": {name: one.to_json() for name, one in self.by_type.items()},
            "accuracy": self.accuracy.to_json(),
            "unit": self.unit,
            "num_units": self.num_units,
            "retrained": self.retrained,
            "num_changed": self.num_changed,
            "num_trusted": self.num_trusted,
            "verdict": self.verdict,
            "before": [card.to_json() for card in self.before],
            "after": [card.to_json() for card in self.after],
        }


def compare(
    sentences: Sequence[Sentence],
    before: Sequence[Predicted],
    after: Sequence[Predicted],
    scheme: str,
    samples: int = 1000,
    seed: int = 0,
) -> Gain:
    """Compare predictions for labelled sentences, of one or several runs before and as many after."""
    units = _units(sentences)
    gold = [sentence.labels for sentence in sentences]
    counts = [[_counts(units, gold, labels, scheme) for labels in runs] for runs in (before, after)]
    names = sorted({name for runs in counts for run in runs for name in run})
    zeros = np.zeros((len(set(units)), 3))
    stacked = [{name: np.stack([run.get(name, zeros) for run in runs]) for name in names} for runs in counts]
    found = paired_bootstraps(stacked[0], stacked[1], samples, seed)
    cards = [tuple(score_labels(gold, labels, scheme) for labels in runs) for runs in (before, after)]
    unit = "sentence" if len(zeros) == len(sentences) else "document"
    by_type = {name: one for (kind, name), one in found.items() if kind == "type"}
    return Gain(cards[0], cards[1], found[SEGMENTS], by_type, found[TOKENS], unit, len(zeros))


def _cells(one: Difference) -> list[str]:
    interval = f"{100 * one.low:+.2f} to {100 * one.high:+.2f}"
    return [f"{100 * one.before:.2f}", f"{100 * one.after:.2f}", f"{100 * one.difference:+.2f}", interval]


def _units(sentences: Sequence[Sentence]) -> list[int]:
    """The unit of each sentence: its document, or itself if there are no documents, or only one."""
    names = {sentence.document for sentence in sentences}
    numbers: dict[str | int, int] = {}
    keys = [sentence.document or number if len(names) > 1 else number for number, sentence in enumerate(sentences)]
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _counts(units: Sequence[int], gold: Predicted, predicted: Predicted, scheme: str) -> dict[Counted, Floats]:
    """(true positives, predicted, gold) of each unit, (U, 3), for each type, all types and tokens."""
    size = (max(units, default=-1) + 1, 3)
    found: dict[Counted, Floats] = {SEGMENTS: np.zeros(size), TOKENS: np.zeros(size)}
    for unit, wanted, labels in zip(units, gold, predicted, strict=True):
        right, guessed = set(segments(wanted, scheme)), set(segments(labels, scheme))
        for column, some in enumerate((right & guessed, guessed, right)):
            for segment in some:
                found.setdefault(("type", segment.type), np.zeros(size))[unit, column] += 1
            found[SEGMENTS][unit, column] += len(some)
        hits = sum(a == b for a, b in zip(wanted, labels, strict=True))
        found[TOKENS][unit] += (hits, len(wanted), len(wanted))
    return found
