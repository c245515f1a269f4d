"""Changes: the findings of one change (``LOC -> ORG``), split by the conditions that explain them best.

Two kinds of chance could make findings meet a condition more often than others do, and a condition must be significant
against both (``chance``):

- *false alarms*: findings are anywhere among the segments of the given type, so the pool is the change's opportunities;
- *random errors*: wrong labels are anywhere among the segments that really are of the proposed type, so the pool is the
  findings and the segments labelled with that type about which there is no finding. Otherwise persons labelled LOC by
  accident would be a pattern of the words before persons. Where most of the pool is findings, the mistake is the rule
  and not chance; where only boundaries change, both pools are the same: there is no second test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tagtrace.data.schemes import spelled
from tagtrace.findings.finding import Finding
from tagtrace.findings.patterns.chance import (
    MIN_DOCUMENTS,
    MIN_FINDINGS,
    Chance,
    ChancePool,
    are_significant,
    num_distinct,
)
from tagtrace.findings.patterns.conditions import (
    KINDS,
    Codes,
    Condition,
    ConditionKind,
    NumberedText,
    Opportunities,
    Types,
)
from tagtrace.findings.patterns.g_squared import g_squared

MIN_SCORE = 6.63
"""The 99th percentile of chi^2 with one degree of freedom: a lower score is not a pattern, however rare by chance."""
MAX_RATE = 0.5
"""A mistake that is made more often than this is the rule, not chance."""


@dataclass(frozen=True)
class FindingGroup:
    """Findings that are a pattern if the list is long enough."""

    text: NumberedText
    findings: Sequence[Finding]
    condition: Condition | None
    score: float
    num_segments: int
    num_opportunities: int
    is_first: bool
    """Whether it is the first group of its change; the counts of later groups leave out earlier ones."""


@dataclass(frozen=True)
class _Candidate:
    """A condition that enough findings meet."""

    kind: ConditionKind
    code: int
    g_2: float


def find_groups(text: NumberedText, findings: Sequence[Finding], most: int) -> list[FindingGroup]:
    """The groups of each change, at most ``most`` with a condition."""
    changes = _changes(text, findings)
    chances = {change.number: change.chances for change in changes}  # before anything is explained
    found: list[FindingGroup] = []
    for change in changes:
        others = [pair for number, pair in chances.items() if number != change.number]
        found += change.groups(others, most)
    return found


def meeting(text: NumberedText, findings: Sequence[Finding], condition: Condition) -> list[Finding]:
    """The findings that meet a condition."""
    found: list[Finding] = []
    for types, some in _by_types(text, findings).items():
        there = text.opportunities(types, some)
        codes = finding_codes(text, some, there)[condition.kind]
        strings = there.strings[condition.kind]
        found += [one for one, code in zip(some, codes.tolist(), strict=True) if strings[code] == condition.value]
    return found


def finding_codes(text: NumberedText, findings: Sequence[Finding], opportunities: Opportunities) -> Codes:
    """The conditions that f findings meet: those of the first segment in each, for ``after`` of the last, (f,)."""
    rows = np.array([text.rows(finding) for finding in findings])  # (f, 2)
    first = np.searchsorted(opportunities.stops, rows[:, 0], side="right")  # (f,)
    last = np.searchsorted(opportunities.starts, rows[:, 1], side="left") - 1  # (f,)
    return {kind: codes[last if kind == "after" else first] for kind, codes in opportunities.codes.items()}


def _by_types(text: NumberedText, findings: Sequence[Finding]) -> dict[Types, list[Finding]]:
    """The findings by given types, in the order of their ranks."""
    found: dict[Types, list[Finding]] = {}
    for finding in sorted(findings, key=lambda finding: finding.rank):
        found.setdefault(text.given_types(finding), []).append(finding)
    return found


def _changes(text: NumberedText, findings: Sequence[Finding]) -> list[_Change]:
    """The findings by change, in the order of their ranks."""
    is_doubted = _covered(text, findings)
    changes: list[_Change] = []
    for types, some in _by_types(text, findings).items():
        opportunities = text.opportunities(types, some)
        for change in dict.fromkeys(finding.change for finding in some):
            own = [one for one in some if one.change == change]
            if len(own) >= MIN_FINDINGS:
                changes.append(_Change(text, own, opportunities, is_doubted, len(changes)))
    return changes


def _covered(text: NumberedText, findings: Sequence[Finding]) -> np.ndarray:
    """Whether there is a finding about each token, (N,)."""
    found = np.zeros(len(text.words), dtype=bool)
    for start, stop in map(text.rows, findings):
        found[start:stop] = True
    return found


class _Change:
    """The findings of one change and its opportunities, without those that are already in a group."""

    def __init__(
        self,
        text: NumberedText,
        findings: Sequence[Finding],
        opportunities: Opportunities,
        is_doubted: np.ndarray,
        number: int,
    ) -> None:
        self.text, self.findings, self.opportunities, self.number = text, findings, opportunities, number
        firsts = [text.rows(finding)[0] for finding in findings]
        self.segment = np.searchsorted(opportunities.stops, firsts, side="right")  # the first in a finding, (f,)
        self.codes = finding_codes(text, findings, opportunities)
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
        self._is_doubted = is_doubted
        self._removed: list[tuple[ConditionKind, int]] = []
        self.chances = self._false_alarms(), self._random_errors()

    def groups(self, others: Sequence[tuple[Chance, Chance | None]], most: int) -> list[FindingGroup]:
        """The best significant condition, repeated ``most`` times or until there is none; then the rest together.

        ``others`` are the chances of the other changes.
        """
        found: list[FindingGroup] = []
        while len(found) < most and (best := self._best(others)) is not None:
            score, kind, code = best
            condition = Condition(kind, self.opportunities.strings[kind][code])
            inside = self.is_left & (self.codes[kind] == code)
            found.append(self._group(inside, condition, score, int(self.num_open[kind][code]), not found))
            self._remove(inside, kind, code)
        if int(self.is_left.sum()) >= MIN_FINDINGS:
            found.append(self._group(self.is_left, None, 0.0, int(self.is_open.sum()), not found))
        return found

    def _group(
        self, inside: np.ndarray, condition: Condition | None, score: float, num_open: int, is_first: bool
    ) -> FindingGroup:
        findings = [self.findings[place] for place in np.flatnonzero(inside).tolist()]
        return FindingGroup(
            self.text, findings, condition, score, len(np.unique(self.segment[inside])), num_open, is_first
        )

    def _best(self, others: Sequence[tuple[Chance, Chance | None]]) -> tuple[float, ConditionKind, int] | None:
        """The significant condition with the highest score among what is left."""
        best: tuple[float, ConditionKind, int] | None = None
        for one in sorted(self._candidates(), key=lambda one: -one.g_2):
            if one.g_2 <= (best[0] if best else MIN_SCORE):  # phi is at least 1
                break
            if not self._is_significant(one, others):
                continue
            score = one.g_2 / self._dispersion(one.kind, one.code)
            if score > (best[0] if best else MIN_SCORE):
                best = (score, one.kind, one.code)
        return best

    def _candidates(self) -> Iterator[_Candidate]:
        """Every condition that enough of the remaining findings meet."""
        confidence, total = self.confidence[self.is_left], float(self.is_open.sum())
        for kind in KINDS:
            codes, place = np.unique(self.codes[kind][self.is_left], return_inverse=True)
            is_enough = np.bincount(place) >= MIN_FINDINGS
            if kind == "opening":
                is_enough &= num_distinct(place, self.document[self.is_left]) >= MIN_DOCUMENTS
            n = self.num_open[kind][codes].astype(float)
            k = np.minimum(np.bincount(place, weights=confidence), n)
            scores = g_squared(k, n, np.clip(confidence.sum() - k, 0.0, total - n), total - n)
            for score, code in zip(scores[is_enough].tolist(), codes[is_enough].tolist(), strict=True):
                yield _Candidate(kind, code, score)

    def _is_significant(self, one: _Candidate, others: Sequence[tuple[Chance, Chance | None]]) -> bool:
        """Whether a condition is significant against both kinds of chance."""
        tests: list[tuple[float, list[Chance]]] = []
        for place, chance in enumerate(self.chances):
            if chance is not None:
                excess = chance.excess(one.kind, one.code)
                tests.append((excess, [chance, *(other for pair in others if (other := pair[place]))]))
        return are_significant(tests)

    def _false_alarms(self) -> Chance:
        """The chance of false alarms among what is left."""
        codes: Codes = {kind: some.copy() for kind, some in self.opportunities.codes.items()}
        codes["after"][self.segment] = self.codes["after"]
        mass = np.bincount(self.segment[self.is_left], self.confidence[self.is_left], len(self.is_open))
        left: Codes = {kind: some[self.is_open] for kind, some in codes.items()}
        pool = ChancePool(left, self.owner[self.is_open], np.minimum(mass, 1.0)[self.is_open])
        return Chance(pool, (self.number, 0))

    def _random_errors(self) -> Chance | None:
        """The chance of random errors among what is left; None where there is no second test."""
        if self._proposed_types == self.text.given_types(self.findings[0]):
            return None
        codes, owner = self._labelled_so
        is_kept = np.ones(len(owner), dtype=bool)
        for kind, code in self._removed:
            is_kept &= codes[kind] != code
        codes, owner = {kind: values[is_kept] for kind, values in codes.items()}, owner[is_kept]
        num_left = int(self.is_left.sum())
        if num_left > MAX_RATE * (num_left + len(owner)):
            return None
        some: Codes = {kind: np.concatenate([self.codes[kind][self.is_left], codes[kind]]) for kind in KINDS}
        mass = np.concatenate([self.confidence[self.is_left], np.zeros(len(owner))])
        return Chance(ChancePool(some, np.concatenate([self.document[self.is_left], owner]), mass), (self.number, 1))

    @property
    def _proposed_types(self) -> Types:
        return tuple(sorted({*spelled(self.findings[0].proposed).split("+")} - {"O"}))

    @cached_property
    def _labelled_so(self) -> tuple[Codes, np.ndarray]:
        """The conditions and documents of segments with the proposed types about which there is no finding."""
        there = self.text.opportunities(self._proposed_types, [])
        before = np.concatenate([[0], np.cumsum(self._is_doubted)])
        is_kept = before[there.stops] == before[there.starts]
        numbers = {string: number for number, string in enumerate(self.opportunities.strings["form"])}
        renumbered = np.array([numbers.get(string, -1) for string in there.strings["form"]], dtype=int)
        codes: Codes = {kind: there.codes[kind][is_kept] for kind in KINDS}
        codes["form"] = renumbered[codes["form"]]
        owner = self.text.document[self.text.sentence_number[there.starts[is_kept]]]
        return codes, owner

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
        self._removed.append((kind, code))
        if self.is_left.any():
            self.chances = self._false_alarms(), self._random_errors()
