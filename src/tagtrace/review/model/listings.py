"""Findings, patterns, occurrences and the history as the page shows them, with their decisions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from tagtrace._checks import OptionError
from tagtrace.findings.finding import Finding
from tagtrace.review.decisions.database import Decision
from tagtrace.review.decisions.decide import NotFoundError, check_segment
from tagtrace.review.decisions.ledger import STATUSES, Ledger, Place, status_of
from tagtrace.review.model.teaching import Lesson
from tagtrace.review.training_data import SegmentKey, TrainingData, context

MAX_ITEMS = 1000
"""Maximum number of items in one response."""
SORTS = ("rank", "taught")
"""Orders of findings."""
_FIELDS = tuple(each.name for each in fields(Finding))
_PAST = (
    "id", "time", "reviewer", "action", "rank", "sentence_number", "sentence", "start", "stop", "given", "labels",
    "note",
)  # fmt: skip


def page(items: Sequence[Any], offset: int, limit: int) -> Sequence[Any]:
    """The items of one page of a list."""
    if offset < 0 or not 0 <= limit <= MAX_ITEMS:
        raise OptionError(
            f"offset {offset}, limit {limit}: expected an offset of 0 or more and a limit of 0 to {MAX_ITEMS:,}"
        )
    return items[offset : offset + limit]


def list_findings(
    ledger: Ledger,
    pattern: int | None = None,
    change: str = "",
    status: str = "all",
    text: str = "",
    document: str = "",
    offset: int = 0,
    limit: int = 50,
    rank: int | None = None,
    lesson: Lesson | None = None,
    sort: str = "rank",
) -> dict[str, Any]:
    """One page of the findings that match all filters, by rank or (``taught``) in the order of a lesson, if any.

    If ``rank`` is given, it is the page that contains this rank, or would contain it if the finding matched.
    """
    if sort not in SORTS:
        raise OptionError(f"unknown order {sort!r}; expected {', '.join(SORTS)}")
    if status not in ("all", "conflict", *STATUSES):
        raise OptionError(f"unknown status {status!r}; expected all, conflict, {', '.join(STATUSES)}")
    order = lesson if sort == "taught" else None
    found = sorted(ledger.data.findings, key=lambda one: _place(order, one.rank))
    if pattern is not None:
        found = [one for one in found if one.pattern == pattern]
    if change.strip():
        found = [one for one in found if _is_change(one.change, change)]
    if text:
        found = [one for one in found if text.lower() in ledger.data.searched[one.rank]]
    if document:
        found = [one for one in found if document.lower() in one.document.lower()]
    if status == "conflict":
        found = [one for one in found if ledger.has_conflict(one.rank, one.sentence_number)]
    elif status != "all":
        found = [one for one in found if ledger.status(one.rank) == status]
    place = None
    if rank is not None:
        place = bisect_left(found, _place(order, rank), key=lambda one: _place(order, one.rank))
        offset = place - place % max(limit, 1)
    items = [finding_json(ledger, one, lesson) for one in page(found, offset, limit)]
    taught = 0 if order is None else order.version
    return {"total": len(found), "offset": offset, "place": place, "taught": taught, "items": items}


def _place(order: Lesson | None, rank: int) -> int:
    """Where a finding is in an order; by rank if there is none."""
    return rank if order is None else order.places.get(rank, len(order.places))


def _is_change(change: str, asked: str) -> bool:
    """Whether a change matches a filter: ``LOC -> ORG``, ``loc→org``, or ``ORG`` for either side of the arrow."""
    sides, wanted = _sides(change), _sides(asked)
    if len(wanted) > 1:
        return sides == wanted
    return any(wanted[0] in (side, *side.split("+")) for side in sides)


def _sides(change: str) -> list[str]:
    return [side.strip().casefold() for side in change.replace("\N{RIGHTWARDS ARROW}", "->").split("->")]


def finding_json(ledger: Ledger, one: Finding, lesson: Lesson | None = None) -> dict[str, Any]:
    """A finding with its current decision, and with the score and confidence of a lesson, if any."""
    if lesson is not None:
        one = lesson.findings.get(one.rank, one)
    row = ledger.current(one.rank)
    status = "open" if row is None else status_of(row)
    return {
        **{name: getattr(one, name) for name in _FIELDS},
        "change": one.change,
        "sentence_length": len(ledger.data.sentences[one.sentence_number]),
        "status": status,
        "decided": None if row is None or status == "open" else decision_json(row),
        "note": ledger.note(one.rank),
        "base": ledger.base((one.sentence_number, one.start, one.stop)),
        "conflict": ledger.has_conflict(one.rank, one.sentence_number),
    }


def one_finding(ledger: Ledger, rank: int, lesson: Lesson | None = None) -> dict[str, Any]:
    """A finding with its whole sentence."""
    one = ledger.data.by_rank.get(rank)
    if one is None:
        raise NotFoundError(f"finding {rank} does not exist; reload the page")
    sentence = ledger.data.sentences[one.sentence_number]
    whole = {"sentence_tokens": list(sentence.tokens), "sentence_labels": list(sentence.labels)}
    return {**finding_json(ledger, one, lesson), **whole}


def sentence_json(ledger: Ledger, number: int) -> dict[str, Any]:
    """A whole sentence with its given labels and those that it has now."""
    if not 0 <= number < len(ledger.data.sentences):
        raise NotFoundError(f"there is no training sentence {number}; reload the page")
    sentence = ledger.data.sentences[number]
    return {
        "sentence_number": number,
        "sentence": sentence.id,
        "document": sentence.document,
        "tokens": list(sentence.tokens),
        "given": list(sentence.labels),
        "labels": list(ledger.labels_now(number)),
        "is_checked": len(ledger.decided_labels(number)) == len(sentence),
        "base": ledger.base((number, 0, len(sentence))),
    }


def list_questions(ledger: Ledger, lesson: Lesson | None, count: int) -> dict[str, Any]:
    """The next questions of a lesson that nobody has decided on since."""
    items = list[dict[str, Any]]()
    for question, p in [] if lesson is None else zip(lesson.questions, lesson.chances, strict=True):
        if len(items) == count:
            break
        sentence = sentence_json(ledger, question.sentence_number)
        one = question.finding
        if sentence["is_checked"] or (one is not None and ledger.status(one.rank) != "open"):
            continue
        finding = None if one is None else finding_json(ledger, one)
        items.append({"reason": question.reason, "p": p, "finding": finding, "sentence": sentence})
    return {"version": 0 if lesson is None else lesson.version, "items": items}


def decision_json(row: Decision) -> dict[str, Any]:
    return {
        "id": row.id,
        "action": row.action,
        "status": status_of(row),
        "labels": None if row.labels is None else list(row.labels),
        "start": row.start,
        "stop": row.stop,
        "reviewer": row.reviewer,
        "time": row.time,
        "note": row.note,
    }


def place_json(ledger: Ledger, segment: SegmentKey, rank: int | None = None) -> dict[str, Any]:
    """A training segment in its context, with the current decision on it or, if ``rank`` is given, on that finding."""
    number, start, stop = segment
    sentence = ledger.data.sentences[number]
    if rank is None:
        rank = ledger.data.rank_at.get(segment)
    place: Place = segment if rank is None else rank
    row = ledger.current(place)
    return {
        "sentence_number": number,
        "sentence": sentence.id,
        "document": sentence.document,
        "start": start,
        "stop": stop,
        **context(sentence, start, stop),
        "labels": list(sentence.labels[start:stop]),
        "rank": rank,
        "base": ledger.base(segment),
        "decision": None if row is None or status_of(row) == "open" else decision_json(row),
    }


def occurrences(
    ledger: Ledger, segment: SegmentKey, finding: Finding | None = None, offset: int = 0, limit: int = MAX_ITEMS
) -> dict[str, Any]:
    """Other segments with the same tokens and labels; findings with the same change as ``finding`` come first."""
    data = ledger.data

    def rank_at(one: SegmentKey) -> int | None:
        if finding is None:
            return None
        shift = one[1] - segment[1]
        return data.rank_at.get((one[0], finding.start + shift, finding.stop + shift))

    def is_alike(rank: int | None) -> bool:
        other = None if rank is None else data.by_rank[rank]
        return other is not None and finding is not None and _proposal(other) == _proposal(finding)

    found = [(one, rank_at(one)) for one in data.occurrences(check_segment(data, segment))]
    found.sort(key=lambda one: not is_alike(one[1]))  # stable, and independent of decisions
    items = [{**place_json(ledger, one, rank), "is_alike": is_alike(rank)} for one, rank in page(found, offset, limit)]
    num_alike = sum(is_alike(rank) and ledger.status(rank) == "open" for _, rank in found if rank is not None)
    return {"total": len(found), "alike": num_alike, "items": items}


def _proposal(finding: Finding) -> tuple[tuple[str, ...], ...]:
    return tuple(finding.tokens), tuple(finding.given), tuple(finding.proposed)


def list_patterns(ledger: Ledger) -> dict[str, Any]:
    """The patterns, with the progress of the review of each."""
    return {"items": list(_patterns(ledger))}


def _patterns(ledger: Ledger) -> Iterator[dict[str, Any]]:
    for one in ledger.data.patterns:
        ranks = [rank for rank in one.findings if rank in ledger.data.by_rank]
        yield {
            "number": one.number,
            "description": one.description,
            "change": one.change,
            "segments": one.num_segments,
            "documents": len(one.documents),
            "confidence": one.confidence,
            "effect": None if one.effect is None else one.effect.to_json(),
            "progress": ledger.progress(ranks),
        }


def history(ledger: Ledger, unreadable: Mapping[int, str], offset: int = 0, limit: int = 50) -> dict[str, Any]:
    """The decisions, the newest first, and the rows that cannot be read."""
    rows = [row for row in reversed(ledger.rows.values()) if row.undoes is None]
    bad = [{"id": number, "problem": problem} for number, problem in unreadable.items()]
    items = [_past(ledger, row) for row in page(rows, offset, limit)]
    return {"total": len(rows), "items": items, "unreadable": bad[:MAX_ITEMS]}


def _past(ledger: Ledger, row: Decision) -> dict[str, Any]:
    tokens = list(ledger.data.sentences[row.sentence_number].tokens[row.start : row.stop])
    return {**{name: getattr(row, name) for name in _PAST}, "tokens": tokens, "undone": ledger.is_undone(row)}


def changes(ledger: Ledger, since: int, taught: int = 0) -> dict[str, Any]:
    """The findings whose decisions changed after a version; ``taught`` is the version of the current lesson."""
    first = max(since, 0) + 1
    ids = range(first, ledger.last + 1) if ledger.last - first < len(ledger.rows) else ledger.rows
    rows = [ledger.rows[number] for number in ids if number >= first and number in ledger.rows]
    ranks = touched(ledger.data, rows)
    return {"version": ledger.last, "ranks": ranks, "conflicts": ledger.num_conflicts(), "taught": taught}


def touched(data: TrainingData, rows: Sequence[Decision]) -> list[int]:
    """The ranks of the findings that rows are about or share a token with."""
    segments = {(row.sentence_number, row.start, row.stop) for row in rows}
    found = {one.rank for segment in segments for one in data.overlapping(segment)}
    own = {row.rank for row in rows if row.rank is not None and row.audit == data.audit}
    return sorted(found | (own & data.by_rank.keys()))
