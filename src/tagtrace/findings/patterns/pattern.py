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
``MIN_DOCUMENTS`` documents) and the score is significant: P(chi^2 with one degree of freedom > score) times the number
of conditions that the findings meet (Bonferroni) is below ``SIGNIFICANCE``. The best condition becomes a pattern, its
findings and opportunities are removed, and this is repeated with the rest of the change. Patterns are ranked by score,
ties by kind of condition, change and value. The remaining findings of a change form one pattern without a condition and
with score 0; these come last, those with the largest sum of confidences first.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tagtrace._checks import OptionError
from tagtrace.findings.finding import Finding
from tagtrace.findings.patterns.conditions import KINDS, Condition, ConditionKind, NumberedText, Opportunities, Types
from tagtrace.findings.patterns.group_effect import GroupEffect, check_place
from tagtrace.index import Index

MIN_FINDINGS = 3
MIN_DOCUMENTS = 3
SIGNIFICANCE = 0.01
SMALL = 0.005
"""Relative changes of the loss that are smaller are reported as no difference."""
NUM_SHOWN = 5
"""Maximum number of surface forms in a description."""


@dataclass(frozen=True, slots=True)
class Pattern:
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
    """The effect of fixing all findings, if it was computed."""

    @property
    def effect_line(self) -> str:
        """The effect of fixing the pattern on the trusted data, in a few words."""
        if self.effect is None:
            return ""
        before, after = self.effect.before.loss, self.effect.after.loss
        is_small = abs(self.effect.change) < SMALL * before
        verdict = "no difference" if is_small else "helps" if self.effect.change < 0 else "hurts"
        return f"{before:.4f} -> {after:.4f} ({verdict})"

    def to_line(self) -> str:
        """One line of ``patterns.jsonl``."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Pattern:
        """Read what ``to_line`` wrote."""
        condition, effect = record["condition"], record.get("effect")
        return cls(
            **{
                **record,
                "condition": condition and Condition(**condition),
                "findings": tuple(record["findings"]),
                "forms": tuple((form, count) for form, count in record["forms"]),
                "documents": tuple(record["documents"]),
                "effect": effect and GroupEffect.from_json(effect),
            }
        )


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
    changes = _changes(text or NumberedText(index), findings)
    num_conditions = sum(change.num_conditions for change in changes)
    groups = [group for change in changes for group in change.groups(num_conditions, most)]
    patterns = [group.pattern(number) for number, group in enumerate(sorted(groups, key=_Group.order)[:most], start=1)]
    owner = {rank: pattern.number for pattern in patterns for rank in pattern.findings}
    return patterns, [replace(finding, pattern=owner.get(finding.rank)) for finding in findings]


def g_squared(k1: np.ndarray, n1: np.ndarray, k2: np.ndarray, n2: np.ndarray) -> np.ndarray:
    """G^2, or 0 if the first rate is not the higher one.

    >>> g_squared(*np.array([[5.0, 1.0], [5.0, 5.0], [1.0, 4.0], [20.0, 20.0]])).round(2)
    array([19.61,  0.  ])
    """
    found = 2.0 * (_log_likelihood(k1, n1) + _log_likelihood(k2, n2) - _log_likelihood(k1 + k2, n1 + n2))
    return np.where(k1 * n2 > k2 * n1, np.maximum(found, 0.0), 0.0)


def _log_likelihood(k: np.ndarray, n: np.ndarray) -> np.ndarray:
    """The maximum log likelihood of k in n."""
    return _x_log_ratio(k, n) + _x_log_ratio(n - k, n)


def _x_log_ratio(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    """x log(x / n), or 0 if x is 0."""
    is_some = (x > 0) & (n > 0)
    return np.where(is_some, x * np.log(np.where(is_some, x, 1.0) / np.where(is_some, n, 1.0)), 0.0)


def is_significant(score: float, num_conditions: int) -> bool:
    """Whether a score is significant among this number of conditions."""
    return math.erfc(math.sqrt(score / 2.0)) * num_conditions < SIGNIFICANCE


def _changes(text: NumberedText, findings: Sequence[Finding]) -> list[_Change]:
    """The findings by change, in the order of their ranks."""
    given: dict[Types, list[Finding]] = {}
    for finding in sorted(findings, key=lambda finding: finding.rank):
        given.setdefault(text.given_types(finding), []).append(finding)
    changes: list[_Change] = []
    for types, some in given.items():
        opportunities = text.opportunities(types, some)
        for change in dict.fromkeys(finding.change for finding in some):
            changes.append(_Change(text, [one for one in some if one.change == change], opportunities))
    return changes


@dataclass(frozen=True)
class _Group:
    """Findings that are a pattern if the list is long enough."""

    text: NumberedText
    findings: Sequence[Finding]
    condition: Condition | None
    score: float
    num_segments: int
    num_opportunities: int
    is_first: bool
    """Whether it is the first group of its change; the counts of later groups leave out earlier ones."""

    def order(self) -> tuple[bool, float, int, str, str]:
        """The key by which patterns are sorted."""
        if self.condition is None:
            return True, -sum(finding.confidence for finding in self.findings), 0, self.findings[0].change, ""
        kind = KINDS.index(self.condition.kind)
        return False, -self.score, kind, self.findings[0].change, self.condition.value

    def pattern(self, number: int) -> Pattern:
        forms = Counter(finding.text for finding in self.findings)
        ordered = tuple(sorted(forms.items(), key=lambda item: (-item[1], item[0])))
        documents = tuple(dict.fromkeys(finding.document or finding.sentence for finding in self.findings))
        return Pattern(
            number,
            self.findings[0].change,
            self.condition,
            self.num_segments,
            self.num_opportunities,
            tuple(finding.rank for finding in self.findings),
            ordered,
            documents,
            sum(finding.confidence for finding in self.findings) / len(self.findings),
            self.score,
            self._describe([form for form, _ in ordered], len(documents)),
        )

    def _describe(self, forms: Sequence[str], num_documents: int) -> str:
        given, proposed = self.findings[0].change.split(" -> ")
        noun = "tokens" if self.text.index.labels.scheme == "plain" else "segments"
        of = f" of {self.num_opportunities:,}" if given != "O" and "+" not in given else ""
        other = "" if self.is_first else " other"
        where = f" {self.condition.describe(self.text.has_documents)}" if self.condition else ""
        meant = "probably have other boundaries" if given == proposed else f"are probably {proposed}"
        shown = ", ".join([*forms[:NUM_SHOWN], "..."] if len(forms) > NUM_SHOWN else forms)
        place = ("document" if self.text.has_documents else "sentence") + ("" if num_documents == 1 else "s")
        what = f"{self.num_segments:,}{of}{other} {'unlabelled' if given == 'O' else given} {noun}{where} {meant}"
        return f"{what}: {shown} ({num_documents:,} {place})"


class _Change:
    """The findings of one change and its opportunities, without those that are already in a group."""

    def __init__(self, text: NumberedText, findings: Sequence[Finding], opportunities: Opportunities) -> None:
        self.text, self.findings, self.opportunities = text, findings, opportunities
        rows = np.array([text.rows(finding) for finding in findings])  # (f, 2)
        self.segment = np.searchsorted(opportunities.stops, rows[:, 0], side="right")  # the first in a finding, (f,)
        last = np.searchsorted(opportunities.starts, rows[:, 1], side="left") - 1  # (f,)
        self.codes: dict[ConditionKind, np.ndarray] = {
            kind: codes[last if kind == "after" else self.segment] for kind, codes in opportunities.codes.items()
        }
        self.confidence = np.array([finding.confidence for finding in findings])
        self.document = text.document[[finding.sentence_number for finding in findings]]  # (f,)
        self.owner = text.document[text.sentence_number[opportunities.starts]]  # the document of each opportunity, (n,)
        self.num_documents = int(text.document.max()) + 1
        self.is_left = np.ones(len(findings), dtype=bool)
        self.is_open = np.ones(len(opportunities.starts), dtype=bool)
        self.num_open = {
            kind: np.bincount(codes, minlength=len(opportunities.strings[kind]))
            for kind, codes in opportunities.codes.items()
        }

    @property
    def num_conditions(self) -> int:
        """Number of different conditions that the findings meet."""
        return sum(len(np.unique(codes)) for codes in self.codes.values())

    def groups(self, num_conditions: int, most: int) -> list[_Group]:
        """The best condition, repeated ``most`` times or until none is significant; then the rest together."""
        found: list[_Group] = []
        while len(found) < most:
            score, kind, code = self._best()
            if not is_significant(score, num_conditions):
                break
            condition = Condition(kind, self.opportunities.strings[kind][code])
            inside = self.is_left & (self.codes[kind] == code)
            found.append(self._group(inside, condition, score, int(self.num_open[kind][code]), not found))
            self._remove(inside, kind, code)
        if int(self.is_left.sum()) >= MIN_FINDINGS:
            found.append(self._group(self.is_left, None, 0.0, int(self.is_open.sum()), not found))
        return found

    def _group(
        self, inside: np.ndarray, condition: Condition | None, score: float, num_open: int, is_first: bool
    ) -> _Group:
        findings = [self.findings[place] for place in np.flatnonzero(inside).tolist()]
        return _Group(self.text, findings, condition, score, len(np.unique(self.segment[inside])), num_open, is_first)

    def _best(self) -> tuple[float, ConditionKind, int]:
        """The condition with the highest score among what is left; the score is 0 if none has enough findings."""
        best: tuple[float, ConditionKind, int] = (0.0, KINDS[0], 0)
        for g_2, kind, code in sorted(self._candidates(), key=lambda one: -one[0]):
            if g_2 <= best[0]:  # phi is at least 1
                break
            score = g_2 / self._dispersion(kind, code)
            if score > best[0]:
                best = (score, kind, code)
        return best

    def _candidates(self) -> Iterator[tuple[float, ConditionKind, int]]:
        """G^2 of every condition that enough of the remaining findings meet."""
        confidence, total = self.confidence[self.is_left], float(self.is_open.sum())
        for kind in KINDS:
            codes, place = np.unique(self.codes[kind][self.is_left], return_inverse=True)
            is_enough = np.bincount(place) >= MIN_FINDINGS
            if kind == "opening":
                is_enough &= _num_distinct(place, self.document[self.is_left]) >= MIN_DOCUMENTS
            n = self.num_open[kind][codes].astype(float)
            k = np.minimum(np.bincount(place, weights=confidence), n)
            scores = g_squared(k, n, np.clip(confidence.sum() - k, 0.0, total - n), total - n)
            for score, code in zip(scores[is_enough].tolist(), codes[is_enough].tolist(), strict=True):
                yield score, kind, code

    def _dispersion(self, kind: ConditionKind, code: int) -> float:
        """phi, the overdispersion between documents."""
        chi_squared, num_documents = 0.0, 0
        for is_inside in (True, False):
            segments = self.is_open & ((self.opportunities.codes[kind] == code) == is_inside)
            findings = self.is_left & ((self.codes[kind] == code) == is_inside)
            n = np.bincount(self.owner[segments], minlength=self.num_documents).astype(float)
            k = np.bincount(self.document[findings], self.confidence[findings], self.num_documents)
            n, k = n[n > 0], np.minimum(k, n)[n > 0]
            rate = k.sum() / max(n.sum(), 1.0)
            if 0 < rate < 1:
                chi_squared += float(((k - n * rate) ** 2 / (n * rate * (1 - rate))).sum())
            num_documents += len(n)
        return max(1.0, chi_squared / max(num_documents - 2, 1))

    def _remove(self, inside: np.ndarray, kind: ConditionKind, code: int) -> None:
        self.is_left &= ~inside
        gone = self.is_open & (self.opportunities.codes[kind] == code)
        self.is_open &= ~gone
        for each, codes in self.opportunities.codes.items():
            self.num_open[each] -= np.bincount(codes[gone], minlength=len(self.num_open[each]))


def _num_distinct(place: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Number of different ``values`` (f,) at each ``place`` (f,)."""
    pairs = np.unique(np.stack([place, values], 1), axis=0)
    return np.bincount(pairs[:, 0])
