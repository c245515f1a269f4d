"""An explanation: the training segments that support and oppose a prediction."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp
from typing import Any, Literal

from torch import Tensor

from tagtrace._table import Table, Tabular
from tagtrace.data.labels import LabelSet
from tagtrace.data.schemes import segments
from tagtrace.data.sentence import Sentence
from tagtrace.index import Index
from tagtrace.influence.edits.edit import Edit
from tagtrace.influence.edits.effect import Effect
from tagtrace.influence.edits.seed_effects import SeedEffects, seed_effects_to_json
from tagtrace.influence.query import Query
from tagtrace.influence.scoring.scorer import Score

Rung = Literal["screen", "refine", "verify", "retrain"]
"""How an effect is computed: to first order for all segments, by a close estimate for a few, by retraining the head
exactly, or by training the whole tagger again."""

_REMOVAL = {
    "supporters": "supporters: without these labels the explained labels would be less likely",
    "opposers": "opposers: without these labels the explained labels would be more likely",
}
_SIMILARITY = {
    "supporters": "supporters: features similar to the query's, whatever their labels",
    "opposers": "opposers: features opposite to the query's, whatever their labels",
}
_AGREEMENT = {
    "supporters": "supporters: similar features and the query's label, or opposite features and another label",
    "opposers": "opposers: similar features and another label, or opposite features and the query's label",
}
_MEANING: dict[Score, dict[str, str]] = {
    "neighbour": _SIMILARITY,
    "neighbour-dot": _SIMILARITY,
    "neighbour-label": _AGREEMENT,
}
"""The titles of both sides for scores that do not predict the effect of removing labels."""
MIN_PROBABILITY = 0.001
"""Labels less likely than this both before and after are left out of the JSON."""
_LONG = 4
"""Longer segments are shown as the types of their entities, and their effects as one probability."""
_NUM_WORDS = 16
"""Maximum number of words shown of a whole sentence."""


@dataclass(frozen=True)
class TrainingSegment:
    """A training segment and how much it supports (positive score) or opposes (negative) the query."""

    sentence_number: int
    start: int
    stop: int
    score: float
    index: Index = field(repr=False, compare=False)
    document: str | None = None
    """The name of the document, if a whole document is scored; the fields above are then its first sentence."""
    rest: tuple[tuple[int, int, int], ...] = ()
    """The other sentences of the document: (sentence_number, start, stop)."""
    refined: Effect | None = field(default=None, repr=False)
    """The estimated effect on the query of removing the segment's labels."""
    verified: Effect | None = field(default=None, repr=False)
    """The same effect by exact retraining of the head."""
    retrained: SeedEffects | None = field(default=None, repr=False)
    """The same effect on the whole tagger, trained again with several seeds."""

    @property
    def effect(self) -> Effect | None:
        """The effect on the highest rung that was computed."""
        return (self.retrained and self.retrained.mean) or self.verified or self.refined

    @property
    def rung(self) -> Rung:
        """The highest rung that was computed."""
        if self.retrained is not None:
            return "retrain"
        return "verify" if self.verified else "refine" if self.refined else "screen"

    @property
    def change(self) -> float | None:
        """The change of the query's loss without the segment's labels; None on the rung ``screen``."""
        return None if self.effect is None else self.effect.change

    @property
    def sentence(self) -> Sentence:
        """The training sentence of the segment."""
        return self.index.sentence(self.sentence_number)

    @property
    def text(self) -> str:
        """The segment in its context, or the beginning of a whole sentence or document."""
        sentence = self.sentence
        if self.document is None and self.stop - self.start < len(sentence):
            return sentence.in_context(self.start, self.stop)
        is_cut = len(sentence) > _NUM_WORDS or bool(self.rest)
        return " ".join(sentence.tokens[:_NUM_WORDS]) + " ..." * is_cut

    @property
    def labels(self) -> str:
        """The labels of the segment, or the types of the entities in a long one."""
        parts = [(self.sentence_number, self.start, self.stop), *self.rest]
        if len(parts) == 1 and self.stop - self.start <= _LONG:
            return " ".join(self.sentence.labels[self.start : self.stop])
        inside = [self.index.sentence(number).labels[start:stop] for number, start, stop in parts]
        types = {segment.type for labels in inside for segment in segments(labels, self.index.labels.scheme)}
        return ", ".join(sorted(types)) or "O"

    @property
    def place(self) -> str:
        """The id of the sentence with start:stop, or the document with its number of sentences."""
        sentence = self.sentence
        if self.document is None:
            return f"{sentence.id} {self.start}:{self.stop}"
        num_sentences = 1 + len(self.rest)
        return f"{self.document or sentence.id} ({num_sentences} sentence{'s' * (num_sentences > 1)})"

    def edits(self) -> list[Edit]:
        """The edits that remove the segment's labels: one for each sentence."""
        return [Edit(self.sentence_number, self.start, self.stop), *(Edit(*part) for part in self.rest)]

    def to_json(self) -> dict[str, Any]:
        """The segment as data; a document has its sentences instead of tokens and labels."""
        sentence = self.sentence
        found: dict[str, Any] = {
            "score": self.score,
            "rung": self.rung,
            "change": self.change,
            "refined_change": None if self.refined is None else self.refined.change,
            "verified_change": None if self.verified is None else self.verified.change,
            "retrained": None if self.retrained is None else seed_effects_to_json(self.retrained),
            "probabilities": None if self.effect is None else _probabilities(self.effect, self.index.labels),
            "document": sentence.document,
        }
        if self.document is not None:
            numbers = [self.sentence_number, *(number for number, _, _ in self.rest)]
            ids = [self.index.sentence(number).id for number in numbers]
            return {**found, "sentence_numbers": numbers, "ids": ids}
        inside = slice(self.start, self.stop)
        return {
            **found,
            "id": sentence.id,
            "sentence_number": self.sentence_number,
            "start": self.start,
            "stop": self.stop,
            "line": sentence.lines[self.start] if len(sentence.lines) else None,
            "tokens": list(sentence.tokens[inside]),
            "labels": list(sentence.labels[inside]),
        }


@dataclass(frozen=True)
class Explanation(Tabular):
    """The supporters and opposers of a query, strongest first."""

    index: Index = field(repr=False, compare=False)
    query: Query = field(repr=False)
    score: Score
    supporters: list[TrainingSegment]
    opposers: list[TrainingSegment]
    num_candidates: int = 0
    """Number of training segments that were scored."""
    notes: tuple[str, ...] = ()
    """What could not be computed, and why."""

    @property
    def explained(self) -> tuple[str, ...]:
        """The labels that are explained, one for each token of the query."""
        return self.index.labels.decode(self.query.explained)

    def sides(self) -> dict[str, list[TrainingSegment]]:
        """``supporters`` and ``opposers`` by name."""
        return {"supporters": self.supporters, "opposers": self.opposers}

    def describe(self) -> list[str | Table]:
        found: list[str | Table] = ["", *self.query.describe()]
        found.append(f"explained: {' '.join(self.explained)}, by {self.score}")
        if self.num_candidates == 0:
            found.append("no training segment passes the filters; choose another kind or fewer filters")
        for name, side in self.sides().items():
            if side:
                found.append(self._table(_MEANING.get(self.score, _REMOVAL)[name], side))
            else:
                found.append(f"no {name} among the training segments scored")
        return [*found, *self.notes]

    def _table(self, title: str, side: list[TrainingSegment]) -> Table:
        has_effect = any(one.effect is not None for one in side)
        columns = ("score", *(("change of loss",) if has_effect else ()), "labels", "training segment")
        rows = tuple(
            (
                f"{one.score:+.4g}",
                *((self._effect_cell(one),) if has_effect else ()),
                one.labels,
                (one.place, one.text),
            )
            for one in side
        )
        return Table(title, columns, rows, ("score",))

    def _effect_cell(self, one: TrainingSegment) -> tuple[str, ...]:
        """The change of loss on each rung that was computed, then probabilities."""
        named = (("refined", one.refined), ("verified", one.verified))
        lines = [f"{effect.change:+.4f} {name}" for name, effect in named if effect is not None]
        if one.retrained is not None:
            lines += retrained_lines(one.retrained)
        if one.effect is not None:
            lines += probability_lines(one.effect, self.explained, self.index.labels)
        return tuple(lines)

    def to_json(self) -> dict[str, Any]:
        """The explanation as data."""
        sides = {name: [one.to_json() for one in side] for name, side in self.sides().items()}
        about = {"explained": list(self.explained), "score": self.score, "notes": list(self.notes)}
        return {**self.query.to_json(), **about, "num_candidates": self.num_candidates, **sides}

    def to_records(self) -> list[dict[str, Any]]:
        """One flat record for each training segment.

        ``p_before`` and ``p_after`` are the probabilities of the explained labels, with the segment and without it.
        """
        return [
            {
                "side": name.removesuffix("s"),
                "score": one.score,
                "rung": one.rung,
                "change": one.change,
                "refined_change": None if one.refined is None else one.refined.change,
                "verified_change": None if one.verified is None else one.verified.change,
                "retrained_change": None if one.retrained is None else one.retrained.mean.change,
                "p_before": None if one.effect is None else exp(-one.effect.before),
                "p_after": None if one.effect is None else exp(-one.effect.after),
                "sentence": one.sentence.id,
                "sentence_number": one.sentence_number,
                "start": one.start,
                "stop": one.stop,
                "document": one.sentence.document,
                "labels": one.labels,
                "text": one.text,
            }
            for name, side in self.sides().items()
            for one in side
        ]


def retrained_lines(found: SeedEffects) -> list[str]:
    """The mean change of the loss, its interval, and in how many seeds the prediction changes."""
    lines = [f"{found.mean.change:+.4f} retrained"]
    if found.interval is not None:
        lines.append(f"({found.interval[0]:+.3f} to {found.interval[1]:+.3f})")
    return [*lines, f"changes in {found.num_flips} of {len(found.effects)} seeds"]


def probability_lines(effect: Effect, explained: tuple[str, ...], labels: LabelSet) -> list[str]:
    """The probability of each explained label before and after; for a long segment, of all of them together."""
    if not explained or len(explained) > _LONG:
        return [f"p {exp(-effect.before):.3f} -> {exp(-effect.after):.3f}"]
    tables = (effect.probabilities_before, effect.probabilities_after)
    pairs = [[float(p[token, labels.index(label)]) for p in tables] for token, label in enumerate(explained)]
    return [f"p({label}) {before:.3f} -> {after:.3f}" for label, (before, after) in zip(explained, pairs, strict=True)]


def _probabilities(effect: Effect, labels: LabelSet) -> dict[str, list[dict[str, float]]]:
    """Label probabilities of each token of the query, before and after."""

    def named(probabilities: Tensor, shown: Tensor) -> list[dict[str, float]]:
        return [
            {labels.labels[c]: float(row[c]) for c in mask.nonzero().squeeze(1).tolist()}
            for row, mask in zip(probabilities, shown, strict=True)
        ]

    before, after = effect.probabilities_before, effect.probabilities_after  # (tokens, C)
    shown = (before > MIN_PROBABILITY) | (after > MIN_PROBABILITY)
    return {"before": named(before, shown), "after": named(after, shown)}
