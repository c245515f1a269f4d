"""What ``tagtrace explain`` and ``tagtrace verify`` print and write: a prediction with its supporters and opposers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

from rich.table import Table
from rich.text import Text
from torch import Tensor

from tagtrace.cli.show import out
from tagtrace.data import LabelSet, Sentence, segments
from tagtrace.index import Index
from tagtrace.influence import Effect, Ranked, Score

_REMOVAL = {
    "supporters": "supporters: without these labels the explained labels would be less likely",
    "opposers": "opposers: without these labels the explained labels would be more likely",
}
_LIKENESS = {
    "supporters": "supporters: their features are like the query's, whatever their labels",
    "opposers": "opposers: their features are the opposite of the query's, whatever their labels",
}
_AGREEMENT = {
    "supporters": "supporters: features like the query's and its label, or opposite ones and another label",
    "opposers": "opposers: features like the query's and another label, or opposite ones and its label",
}
_MEANING: dict[Score, dict[str, str]] = {
    "neighbour": _LIKENESS,
    "neighbour-dot": _LIKENESS,
    "neighbour-label": _AGREEMENT,
}
"""What the sides of a score are, where they say nothing on labels that are removed."""
_BY = {"refine": "predicted", "verify": "retrained"}
"""How a change of loss was found, by its rung."""
MIN_PROBABILITY = 0.001
"""Labels less likely than this both before and after are left out of the JSON."""
_LONG = 4
"""Of segments longer than this, labels are shown by the types of entities, and effects as one probability."""


@dataclass(frozen=True)
class Case:
    """One prediction to explain."""

    sentence: Sentence
    predicted: tuple[str, ...]
    start: int
    stop: int


Sides = dict[str, list[Ranked]]
"""``supporters`` and ``opposers``."""
Retrained = Mapping[str, Sequence[Ranked | None]]
"""The same segments after retraining; None where it did not reach the optimum. Empty where nothing was retrained."""


def show_case(
    index: Index,
    case: Case,
    sides: Sides,
    explained: Sequence[str] = (),
    score: Score = "influence",
    retrained: Retrained | None = None,
) -> None:
    """Print the query and both sides with their context; ``explained`` are the labels the effects are on."""
    gold = f"   gold: {_labels(case.sentence.labels, case)}" if case.sentence.is_labelled else ""
    out.print()
    out.print(context(case.sentence, case.start, case.stop))
    where = f"{case.sentence.id}  tokens {case.start}:{case.stop}"
    out.print(f"{where}   predicted: {_labels(case.predicted, case)}{gold}", highlight=False)
    if explained:
        out.print(f"explained: {' '.join(explained)}, by {score}", highlight=False)
    for name, ranked in sides.items():
        if ranked:
            title = _MEANING.get(score, _REMOVAL)[name]
            out.print(_table(index, title, ranked, explained, (retrained or {}).get(name)))
        else:
            out.print(f"no {name} among the training segments asked for", highlight=False)


def _table(
    index: Index, title: str, ranked: list[Ranked], explained: Sequence[str], retrained: Sequence[Ranked | None] | None
) -> Table:
    """One side, the text of each training segment below its label and place; effects only where they were asked for."""
    has_effect = retrained is not None or any(one.effect is not None for one in ranked)
    table = Table(title=title, title_justify="left", expand=True)
    table.add_column("score", no_wrap=True)
    if has_effect:
        table.add_column("change of loss", no_wrap=True, overflow="fold")
    table.add_column("training segment", ratio=1)
    for number, one in enumerate(ranked):
        sentence = index.sentence(one.sentence_number)
        where = f"{_label_cell(index, one)}   {_where(one, sentence)}\n"
        after = [] if retrained is None else [retrained[number]]
        effect = [_effect_cell(index, explained, one, after)] if has_effect else []
        table.add_row(f"{one.score:+.4g}", *effect, Text(where).append_text(_text(one, sentence)))
    return table


def _effect_cell(index: Index, explained: Sequence[str], predicted: Ranked, retrained: Sequence[Ranked | None]) -> str:
    """The change of loss as predicted and, if it was, as retrained; probabilities from the last of them."""
    lines = []
    for one in (predicted, *retrained):
        if one is None:
            lines.append("not reached")
        elif one.change is not None:
            lines.append(f"{one.change:+.4f} {_BY[one.rung]}")
    effects = [one.effect for one in (*retrained, predicted) if one is not None and one.effect is not None]
    return "\n".join([*lines, *(probability_lines(effect, explained, index.labels) for effect in effects[:1])])


def probability_lines(effect: Effect, explained: Sequence[str], labels: LabelSet) -> str:
    """The probability of each explained label before and after; of a long segment, of all of them together."""
    if not explained or len(explained) > _LONG:
        return f"p {exp(-effect.before):.3f} -> {exp(-effect.after):.3f}"
    lines = []
    for token, label in enumerate(explained):
        before, after = (
            p[token, labels.index(label)] for p in (effect.probabilities_before, effect.probabilities_after)
        )
        lines.append(f"p({label}) {float(before):.3f} -> {float(after):.3f}")
    return "\n".join(lines)


def _label_cell(index: Index, ranked: Ranked) -> str:
    """The labels; of something long, the types of its entities."""
    parts = [(ranked.sentence_number, ranked.start, ranked.stop), *ranked.rest]
    if len(parts) == 1 and ranked.stop - ranked.start <= _LONG:
        return " ".join(index.sentence(ranked.sentence_number).labels[ranked.start : ranked.stop])
    inside = [index.sentence(number).labels[start:stop] for number, start, stop in parts]
    types = {segment.type for labels in inside for segment in segments(labels, index.labels.scheme)}
    return ", ".join(sorted(types)) or "O"


def place(index: Index, ranked: Ranked) -> str:
    """Where a training segment stands, for a note."""
    return _where(ranked, index.sentence(ranked.sentence_number))


def _where(ranked: Ranked, sentence: Sentence) -> str:
    if ranked.document is None:
        return f"{sentence.id} {ranked.start}:{ranked.stop}"
    num_sentences = 1 + len(ranked.rest)
    return f"{ranked.document or sentence.id} ({num_sentences} sentence{'s' * (num_sentences > 1)})"


def _text(ranked: Ranked, sentence: Sentence) -> Text:
    """The segment in its context, or how a whole sentence or document begins."""
    if ranked.document is None and ranked.stop - ranked.start < len(sentence):
        return context(sentence, ranked.start, ranked.stop)
    is_cut = len(sentence) > 16 or bool(ranked.rest)
    return Text(" ".join(sentence.tokens[:16]) + (" ..." if is_cut else ""))


def _labels(labels: tuple[str, ...], case: Case) -> str:
    return " ".join(labels[case.start : case.stop])


def context(sentence: Sentence, start: int, stop: int, around: int = 8) -> Text:
    """The segment, marked, with a few tokens around it."""
    text = Text("... " if start > around else "")
    for t in range(max(start - around, 0), min(stop + around, len(sentence))):
        is_inside = start <= t < stop
        text.append(f"[{sentence.tokens[t]}]" if is_inside else sentence.tokens[t], "bold reverse" if is_inside else "")
        text.append(" ")
    if stop + around < len(sentence):
        text.append("...")
    return text


def case_json(
    index: Index, case: Case, sides: Sides, explained: Sequence[str], retrained: Retrained | None = None
) -> dict[str, Any]:
    """The answer to one case as data."""
    inside = slice(case.start, case.stop)
    found = {
        name: zip(ranked, (retrained or {}).get(name) or [None] * len(ranked), strict=True)
        for name, ranked in sides.items()
    }
    return {
        "sentence": case.sentence.id,
        "start": case.start,
        "stop": case.stop,
        "tokens": list(case.sentence.tokens[inside]),
        "predicted": list(case.predicted[inside]),
        "gold": list(case.sentence.labels[inside]) if case.sentence.is_labelled else None,
        "explained": list(explained),
        **{name: [_ranked_json(index, *both) for both in side] for name, side in found.items()},
    }


def _ranked_json(index: Index, ranked: Ranked, retrained: Ranked | None) -> dict[str, Any]:
    """One training segment on the highest rung it reached; of a document its sentences instead of tokens and labels."""
    sentence = index.sentence(ranked.sentence_number)
    best = retrained or ranked
    changes = {one.rung: one.change for one in (ranked, best)}
    found: dict[str, Any] = {
        "score": ranked.score,
        "rung": best.rung,
        "change": best.change,
        "predicted_change": changes.get("refine"),
        "retrained_change": changes.get("verify"),
        "probabilities": None if best.effect is None else _probabilities(best.effect, index.labels),
        "document": sentence.document,
    }
    if ranked.document is not None:
        sentences = [ranked.sentence_number, *(number for number, _, _ in ranked.rest)]
        return {
            **found,
            "sentence_numbers": sentences,
            "ids": [index.sentence(number).id for number in sentences],
        }
    inside = slice(ranked.start, ranked.stop)
    return {
        **found,
        "id": sentence.id,
        "sentence_number": ranked.sentence_number,
        "start": ranked.start,
        "stop": ranked.stop,
        "line": sentence.lines[ranked.start] if len(sentence.lines) else None,
        "tokens": list(sentence.tokens[inside]),
        "labels": list(sentence.labels[inside]),
    }


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
