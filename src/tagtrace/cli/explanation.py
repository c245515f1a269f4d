"""What ``tagtrace explain`` and ``tagtrace verify`` print and write: a prediction with its supporters and opposers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

from rich.table import Table
from rich.text import Text
from torch import Tensor

from tagtrace.cli.show import out
from tagtrace.data import LabelSet, Sentence, segments
from tagtrace.index import Index
from tagtrace.influence import Effect, Ranked

MEANING = {
    "supporters": "supporters: without these labels the explained labels would be less likely",
    "opposers": "opposers: without these labels the explained labels would be more likely",
}
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


def show_case(index: Index, case: Case, sides: Sides, explained: Sequence[str] = ()) -> None:
    """Print the query and both sides with their context; ``explained`` are the labels the effects are on."""
    gold = f"   gold: {_labels(case.sentence.labels, case)}" if case.sentence.is_labelled else ""
    out.print()
    out.print(context(case.sentence, case.start, case.stop))
    where = f"{case.sentence.id}  tokens {case.start}:{case.stop}"
    out.print(f"{where}   predicted: {_labels(case.predicted, case)}{gold}", highlight=False)
    for name, ranked in sides.items():
        if ranked:
            out.print(_table(index, name, ranked, explained))
        else:
            out.print(f"no {name} among the training segments asked for", highlight=False)


def _table(index: Index, name: str, ranked: list[Ranked], explained: Sequence[str]) -> Table:
    """One side, with the place of each training segment; effects only where they were asked for."""
    has_effect = any(one.effect is not None for one in ranked)
    effect_columns = ["change of loss", "explained labels"] if has_effect else []
    columns = ["score", *effect_columns, "label", "where", "training text"]
    table = Table(*columns, title=MEANING[name], title_justify="left", expand=True)
    for one in ranked:
        sentence = index.sentence(one.chain)
        cells = [f"{one.score:+.4g}"]
        if one.effect is not None:
            change = f"{one.effect.change:+.4f} ({one.rung})"
            cells += [change, probability_lines(one.effect, explained, index.labels)]
        table.add_row(*cells, _label_cell(index, one), _where(one, sentence), _text(one, sentence))
    return table


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
    parts = [(ranked.chain, ranked.start, ranked.stop), *ranked.rest]
    if len(parts) == 1 and ranked.stop - ranked.start <= _LONG:
        return " ".join(index.sentence(ranked.chain).labels[ranked.start : ranked.stop])
    inside = [index.sentence(chain).labels[start:stop] for chain, start, stop in parts]
    types = {segment.type for labels in inside for segment in segments(labels, index.labels.scheme)}
    return ", ".join(sorted(types)) or "O"


def _where(ranked: Ranked, sentence: Sentence) -> str:
    if ranked.document is None:
        return f"{sentence.id} {ranked.start}:{ranked.stop}"
    num_chains = 1 + len(ranked.rest)
    return f"{ranked.document or sentence.id} ({num_chains} sentence{'s' * (num_chains > 1)})"


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


def case_json(index: Index, case: Case, sides: Sides, explained: Sequence[str]) -> dict[str, Any]:
    """The answer to one case as data."""
    inside = slice(case.start, case.stop)
    return {
        "sentence": case.sentence.id,
        "start": case.start,
        "stop": case.stop,
        "tokens": list(case.sentence.tokens[inside]),
        "predicted": list(case.predicted[inside]),
        "gold": list(case.sentence.labels[inside]) if case.sentence.is_labelled else None,
        "explained": list(explained),
        **{name: [_ranked_json(index, one) for one in ranked] for name, ranked in sides.items()},
    }


def _ranked_json(index: Index, ranked: Ranked) -> dict[str, Any]:
    """One training segment; of a document its chains instead of tokens and labels."""
    sentence = index.sentence(ranked.chain)
    found: dict[str, Any] = {
        "score": ranked.score,
        "rung": ranked.rung,
        "change": ranked.change,
        "probabilities": None if ranked.effect is None else _probabilities(ranked.effect, index.labels),
        "document": sentence.document,
    }
    if ranked.document is not None:
        chains = [ranked.chain, *(chain for chain, _, _ in ranked.rest)]
        return {**found, "chains": chains, "ids": [index.sentence(chain).id for chain in chains]}
    inside = slice(ranked.start, ranked.stop)
    return {
        **found,
        "id": sentence.id,
        "chain": ranked.chain,
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
