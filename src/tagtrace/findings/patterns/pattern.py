"""Patterns: findings that are one systematic mistake, each with a description that a person can check.

Subgroup discovery. Findings are grouped by change (``LOC -> ORG``), and each change is compared with its opportunities
(``conditions``): training segments of the given type or, for ``O -> X``, tokens labelled O. A condition - how the
document begins, the segment's text, the token before, the token after - splits the n opportunities of a change in two:

    k1 of n1 that meet it are probably wrong,   k2 of n2 that do not,   k = the sum of the findings' confidences

    G^2 = 2 [l(k1, n1) + l(k2, n2) - l(k1 + k2, n1 + n2)],   l(k, n) = k log(k/n) + (n - k) log(1 - k/n)

if k1/n1 > k2/n2, else 0: twice the log likelihood ratio of two rates against one. Scattered errors, however many, have
the same rate everywhere and score close to zero; the score of a mistake that is made under one condition grows with its
size and with how much of it the condition explains. Errors cluster in documents, so segments are not independent draws:
the score is G^2 divided by the overdispersion between documents d (sentences, if the data does not name documents),

    phi = max(1, X^2 / (number of documents - 2)),   X^2 = sum_d (k_d - n_d p)^2 / (n_d p (1 - p)),

p the rate on the document's side of the condition (a document may have segments on both). So a few documents full of
errors are not a pattern of how these documents begin.

A condition is a pattern if at least ``MIN_FINDINGS`` findings meet it (for a document's beginning, in at least
``MIN_DOCUMENTS`` documents) and it is significant by permutations of findings between and within documents, against
false alarms and against random errors (``changes``, ``chance``). The best condition becomes a pattern, its findings and
opportunities are removed, and this is repeated with the rest of the change. Patterns are ranked by score, ties by kind
of condition, change and value. The remaining findings of a change form one pattern without a condition and with score
0; these come last, those with the largest sum of confidences first.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from tagtrace._checks import OptionError, check_numbers
from tagtrace._documents import Document
from tagtrace._table import Described, Table, fact_table
from tagtrace.findings.finding import Finding
from tagtrace.findings.patterns.changes import FindingGroup, find_groups
from tagtrace.findings.patterns.conditions import KINDS, Condition, NumberedText
from tagtrace.findings.patterns.group_effect import GroupEffect, check_place
from tagtrace.index import Index

NUM_SHOWN = 5
"""Maximum number of surface forms in a description."""


@dataclass(frozen=True, slots=True)
class Pattern(Document, Described):
    """Findings that are probably one systematic mistake."""

    number: int
    """From 1, the most systematic first; ``Finding.pattern`` refers to it."""
    change: str
    """``LOC -> ORG``"""
    condition: Condition | None
    """What distinguishes them from other segments with the same given labels; None if nothing does."""
    num_segments: int
    """Number of training segments (for ``O -> X``, of places) that the findings are about."""
    opportunities: int
    """Number of training segments of the given type (for ``O -> X``, of tokens labelled O) that meet the condition."""
    findings: tuple[int, ...]
    """The ranks of its findings, ascending."""
    forms: tuple[tuple[str, int], ...]
    """The findings' texts and how often each occurs, the most frequent first."""
    documents: tuple[str, ...]
    """Names of their documents (ids of sentences without one), in the order of the findings."""
    confidence: float
    """Mean confidence of the findings."""
    score: float
    """G^2 / phi; 0 without a condition."""
    description: str
    """One line that a person can check."""
    effect: GroupEffect | None = None
    """The effect of fixing it on trusted data that its proposals were not learned from, if it was computed."""

    def __post_init__(self) -> None:
        check_numbers(number=self.number, num_segments=self.num_segments, opportunities=self.opportunities)
        for rank in self.findings:
            check_numbers(findings=rank)

    @property
    def effect_line(self) -> str:
        """The effect of fixing the pattern on the trusted data, in a few words."""
        if self.effect is None:
            return ""
        interval = self.effect.loss_interval
        change = "" if interval is None else f", change {interval[0]:+.4f} to {interval[1]:+.4f}"
        return f"{self.effect.before.loss:.4f} -> {self.effect.after.loss:.4f}{change} ({self.effect.verdict})"

    def describe(self) -> list[str | Table]:
        forms = [f"{form} ({count:,})" for form, count in self.forms[:NUM_SHOWN]]
        facts = {
            "change": self.change,
            "segments": f"{self.num_segments:,}",
            "opportunities": f"{self.opportunities:,}",
            "texts": ", ".join([*forms, "..."] if len(self.forms) > NUM_SHOWN else forms),
            "documents": f"{len(self.documents):,}",
            "mean confidence": f"{self.confidence:.2f}",
            "score": f"{self.score:.4g}",
            "trusted loss if fixed": self.effect_line or "not computed",
        }
        return [self.description, fact_table(f"pattern {self.number}", facts)]

    def to_line(self) -> str:
        """One line of ``patterns.jsonl``."""
        effect = None if self.effect is None else self.effect.to_json()
        return json.dumps({**asdict(self), "effect": effect}, ensure_ascii=False)


def find_patterns(
    index: Index, findings: Sequence[Finding], most: int = 20, text: NumberedText | None = None
) -> tuple[list[Pattern], list[Finding]]:
    """At most ``most`` patterns among ``findings``, and the findings with the number of their pattern (or None).

    ``text`` is the text of the index, if it is already numbered.
    """
    if most < 1:
        raise OptionError(f"most {most}: must be at least 1")
    if not findings:
        return [], []
    for finding in findings:
        check_place(index, finding)
    groups = sorted(find_groups(text or NumberedText(index), findings, most), key=_order)
    patterns = [_pattern(group, number) for number, group in enumerate(groups[:most], start=1)]
    owner = {rank: pattern.number for pattern in patterns for rank in pattern.findings}
    return patterns, [replace(finding, pattern=owner.get(finding.rank)) for finding in findings]


def _order(group: FindingGroup) -> tuple[bool, float, int, str, str]:
    """The key by which patterns are sorted."""
    change = group.findings[0].change
    if group.condition is None:
        return True, -sum(finding.confidence for finding in group.findings), 0, change, ""
    return False, -group.score, KINDS.index(group.condition.kind), change, group.condition.value


def _pattern(group: FindingGroup, number: int) -> Pattern:
    forms = Counter(finding.text for finding in group.findings)
    ordered = tuple(sorted(forms.items(), key=lambda item: (-item[1], item[0])))
    documents = tuple(dict.fromkeys(finding.document or finding.sentence for finding in group.findings))
    return Pattern(
        number,
        group.findings[0].change,
        group.condition,
        group.num_segments,
        group.num_opportunities,
        tuple(finding.rank for finding in group.findings),
        ordered,
        documents,
        sum(finding.confidence for finding in group.findings) / len(group.findings),
        group.score,
        _describe(group, [form for form, _ in ordered], len(documents)),
    )


def _describe(group: FindingGroup, forms: Sequence[str], num_documents: int) -> str:
    given, proposed = group.findings[0].change.split(" -> ")
    has_documents = group.text.has_documents
    noun = "tokens" if group.text.index.labels.scheme == "plain" else "segments"
    of = f" of {group.num_opportunities:,}" if given != "O" and "+" not in given else ""
    other = "" if group.is_first else " other"
    where = f" {group.condition.describe(has_documents)}" if group.condition else ""
    meant = "probably have other boundaries" if given == proposed else f"are probably {proposed}"
    shown = ", ".join([*forms[:NUM_SHOWN], "..."] if len(forms) > NUM_SHOWN else forms)
    place = ("document" if has_documents else "sentence") + ("" if num_documents == 1 else "s")
    what = f"{group.num_segments:,}{of}{other} {'unlabelled' if given == 'O' else given} {noun}{where} {meant}"
    return f"{what}: {shown} ({num_documents:,} {place})"
