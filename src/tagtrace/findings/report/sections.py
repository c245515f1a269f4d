"""The sections of an audit's report, each a function from data to markup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Protocol

import numpy as np

from tagtrace._markup import (
    Child,
    Html,
    arrow,
    counted,
    definitions,
    element,
    number_cell,
    percent,
    row_head,
    table,
)
from tagtrace.data.schemes import spelled
from tagtrace.findings.finding import Finding
from tagtrace.findings.ranking.truth import Measured
from tagtrace.findings.report.charts import Bins, histogram, recall_curves, short

MAX_FINDINGS = 500
"""Maximum number of findings in the page; the files next to it have all."""
MAX_NAMED = 24
"""Maximum number of surface forms, of documents and of findings that are listed for a pattern."""
MAX_TYPES = 12
"""Maximum number of types in the table of label pairs; rarer types are put together."""

_OTHER = "others"


class Fit(Protocol):
    """How well a head fits the trusted data."""

    @property
    def loss(self) -> float: ...
    @property
    def num_wrong(self) -> int: ...


class PatternEffect(Protocol):
    """The effect of fixing all findings of a pattern: before, after as predicted, and after retraining, if done."""

    @property
    def before(self) -> Fit: ...
    @property
    def predicted(self) -> Fit: ...
    @property
    def verified(self) -> Fit | None: ...
    @property
    def loss_interval(self) -> tuple[float, float] | None: ...
    @property
    def wrong_interval(self) -> tuple[float, float] | None: ...
    @property
    def verdict(self) -> str: ...


class ReportedPattern(Protocol):
    """One systematic mistake: its forms with their counts, and the ranks of its findings."""

    @property
    def number(self) -> int: ...
    @property
    def description(self) -> str: ...
    @property
    def change(self) -> str: ...
    @property
    def forms(self) -> Sequence[tuple[str, int]]: ...
    @property
    def documents(self) -> Sequence[str]: ...
    @property
    def findings(self) -> Sequence[int]: ...
    @property
    def confidence(self) -> float: ...
    @property
    def effect(self) -> PatternEffect | None: ...


def summary(facts: Mapping[str, str | int | float]) -> Html:
    """The facts of the summary, in boxes."""
    return definitions(
        {name: fact if isinstance(fact, str) else short(fact) for name, fact in facts.items()}, "summary"
    )


# Patterns


def patterns(found: Sequence[ReportedPattern], all_findings: Sequence[Finding]) -> Child:
    """The patterns, each in an element that can be opened; the first is open."""
    if not found:
        return element("p", "No systematic pattern was found.")
    texts = {one.rank: one.text for one in all_findings[:MAX_FINDINGS]}
    return [_pattern(one, texts, is_open=place == 0) for place, one in enumerate(found)]


def _pattern(one: ReportedPattern, texts: Mapping[int, str], *, is_open: bool) -> Html:
    facts = [
        arrow(one.change),
        f" · {counted(len(one.findings), 'finding')} · confidence {percent(one.confidence)}",
    ]
    forms = [
        element("li", form, element("span", f" ({count:,})", class_="soft"), dir="auto") for form, count in one.forms
    ]
    documents = [element("li", name, dir="auto") for name in one.documents]
    links = [
        element("li", element("a", f"#{rank} ", texts[rank], href=f"#finding-{rank}"), dir="auto")
        for rank in one.findings
        if rank in texts
    ]
    only = element("a", "Show only these in the list", href="#findings", data_only_pattern=one.number)
    body = [
        _effect(one.number, one.effect) if one.effect is not None else None,
        _first_few("Forms", forms, len(forms)),
        _first_few("Documents", documents, len(documents)),
        _first_few("Findings", links, len(one.findings)),
        element("p", only) if links else None,
    ]
    title = element("h3", f"{one.number}. {one.description}")
    return element(
        "details",
        element("summary", title, element("p", facts, class_="soft")),
        element("div", body),
        class_="pattern",
        id=f"pattern-{one.number}",
        open=is_open,
    )


def _effect(number: int, effect: PatternEffect) -> Html:
    """Loss and wrong tokens of the trusted data as it is, fixed as predicted, and fixed and retrained."""
    fits = (effect.before, effect.predicted, effect.verified)
    losses = [number_cell(fit.loss if fit else None) for fit in fits]
    wrong = [number_cell(fit.num_wrong if fit else None) for fit in fits]
    cells = [
        [row_head("Mean loss of a sentence"), losses, _interval(effect.loss_interval)],
        [row_head("Tokens predicted wrongly"), wrong, _interval(effect.wrong_interval)],
    ]
    heads = (
        "Trusted data (each half judges what was learned from the other)",
        "as it is",
        "fixed, as predicted",
        "fixed and retrained",
        "change (95 % interval)",
    )
    return table(f"Effect of fixing pattern {number}: {effect.verdict}", heads, cells)


def _interval(interval: tuple[float, float] | None) -> Html:
    return element("td", "not known" if interval is None else f"{interval[0]:+.4g} to {interval[1]:+.4g}")


def _first_few(heading: str, items: Sequence[Html], num_all: int) -> Child:
    if not num_all:
        return None
    num_more = num_all - len(items[:MAX_NAMED])
    more = element("li", f"and {num_more:,} more" if items else f"{num_more:,}", class_="soft") if num_more else None
    return [element("h4", heading), element("ul", items[:MAX_NAMED], more, class_="links")]


# Charts and tables


def pairs(all_findings: Sequence[Finding]) -> Child:
    """A table of findings by given and proposed type, with links to the findings."""
    if not all_findings:
        return element("p", "No findings.")
    counts = Counter((spelled(one.given), spelled(one.proposed)) for one in all_findings)
    given, proposed = (_commonest(counts, side) for side in (0, 1))
    folded = Counter[tuple[str, str]]()
    for (row, column), count in counts.items():
        folded[row if row in given else _OTHER, column if column in proposed else _OTHER] += count
    first = {one.change: one.rank for one in reversed(all_findings[:MAX_FINDINGS])}
    most = max(folded.values())
    rows = [
        [
            row_head(row),
            [_pair(folded[row, column], most, row, column, first) for column in proposed],
            number_cell(sum(folded[row, column] for column in proposed)),
        ]
        for row in given
    ]
    caption = f"{counted(len(all_findings), 'finding')} by given type and proposed type (darker: more findings)"
    return element("div", table(caption, ("given ↓ proposed →", *proposed, "all"), rows, "matrix"), class_="wide")


def _commonest(counts: Counter[tuple[str, str]], side: int) -> list[str]:
    """The most frequent types on one side, in alphabetical order, then ``O``, then the name for all others."""
    totals = Counter[str]()
    for pair, count in counts.items():
        totals[pair[side]] += count
    kept = sorted(sorted(totals), key=lambda name: -totals[name])[:MAX_TYPES]
    return [*sorted(kept, key=lambda name: (name == "O", name)), *([_OTHER] if len(totals) > len(kept) else [])]


def _pair(count: int, most: int, given: str, proposed: str, first: Mapping[str, int]) -> Html:
    """A cell of the table; ``first`` has the first finding of each change that is in the list."""
    if not count:
        return element("td", "0", class_="soft")
    change = f"{given} -> {proposed}"
    shade = f"shade-{ceil(4 * count / most)}"
    if change not in first:
        return element("td", f"{count:,}", class_=shade)
    label = f"{counted(count, 'finding')}, given {given}, proposed {proposed}"
    href = f"#finding-{first[change]}"
    return element("td", element("a", f"{count:,}", href=href, data_only_change=change, aria_label=label), class_=shade)


def scores(suspicion: np.ndarray, threshold: float | None) -> Child:
    """The distribution of the scores of all tokens (N,)."""
    num_finite = int(np.isfinite(suspicion).sum())
    if not num_finite:
        return element("p", "No scores.")
    bins = Bins.of(suspicion)
    low, middle, high = (short(float(value)) for value in np.quantile(suspicion[np.isfinite(suspicion)], (0, 0.5, 1)))
    text = f"{counted(num_finite, 'token')}: the least suspicious has {low}, the median {middle}, the most {high}."
    if threshold is not None:
        text += f" {counted(int((suspicion >= threshold).sum()), 'token')} at or above {short(threshold)}."
    if num_finite < len(suspicion):
        text += f" {counted(len(suspicion) - num_finite, 'token')} with an infinite score not shown."
    rows = [
        [row_head(f"{short(low)} to {short(high)}"), element("td", f"{count:,}")]
        for low, high, count in zip(bins.edges, bins.edges[1:], bins.counts, strict=False)
        if count
    ]
    return [
        element("p", text),
        histogram(bins, threshold, "Suspicion of all tokens", text, "scores-chart"),
        element(
            "details",
            element("summary", "The same as a table"),
            table("Tokens by suspicion", ("suspicion", "tokens"), rows),
        ),
    ]


def recall(measured: Sequence[Measured]) -> Child:
    """How many of the labels that are known to be wrong each scorer finds."""
    one = measured[0]
    text = f"{one.num_wrong:,} of {counted(one.num_tokens, 'label')} are known to be wrong."
    if not one.num_wrong:
        return element("p", text)
    counts = list(one.recall)
    rows = [
        [
            row_head(each.name),
            element("td", f"{each.average_precision:.3f}"),
            [element("td", percent(each.recall[count])) for count in counts],
        ]
        for each in measured
    ]
    heads = ("Scorer", "average precision", *(f"found in the first {count:,}" for count in counts))
    curves = [(each.name, each.curve) for each in measured]
    drawn = "Share of the wrong labels that are among the first tokens, for each scorer; the numbers are in the table."
    return [
        element("p", text),
        recall_curves(curves, one.num_tokens, "Wrong labels found", drawn, "recall-chart"),
        element("div", table("Wrong labels found by each scorer", heads, rows), class_="wide"),
    ]
