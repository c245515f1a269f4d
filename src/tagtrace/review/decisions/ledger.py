"""The state that follows from all decisions, updated row by row.

A decision is in force unless it was undone. An undo refers to the decision that it undoes, a redo to the undo.
A *place* is a finding (its rank) or, if there is no finding, a segment. Its current decision is the last one in force:

    accept, relabel -> accepted    reject -> rejected    skip -> skipped    reopen, or none -> open
    relabel with the given labels -> rejected

A decision on a whole sentence that chooses labels also counts for every place in it that was decided earlier or not at
all; a later decision on such a place takes its tokens out of it again.

**Conflict**: the current decision of a place and the last decision of another reviewer choose different labels for a
token (rejecting chooses the given labels), and the later reviewer had not seen the earlier decision: the ``base`` of
the later decision is older, or None.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tagtrace.data.schemes import normalise
from tagtrace.review.decisions.database import Decision
from tagtrace.review.training_data import SegmentKey, TrainingData, shares_token

STATUS = {"accept": "accepted", "relabel": "accepted", "reject": "rejected", "skip": "skipped", "reopen": "open"}
"""The status that follows from each action that decides."""
STATUSES: tuple[str, ...] = ("open", "accepted", "rejected", "skipped")

TURNS = ("undo", "redo")
"""The actions that take back a row, or bring it back."""

Place = int | SegmentKey


@dataclass
class Stacks:
    """The batches that one reviewer can undo and redo, the next one last."""

    done: list[list[int]] = field(default_factory=list[list[int]])
    """Ids of the decisions in each batch."""
    undone: list[list[int]] = field(default_factory=list[list[int]])
    """Ids of the rows that undid each batch."""


@dataclass(frozen=True, slots=True)
class _Said:
    """The label that a decision chooses for a token."""

    row: Decision
    place: Place
    label: str


class Ledger:
    """All decisions, and the status of every place that follows from them."""

    last: int

    def __init__(self, data: TrainingData) -> None:
        self.data = data
        self.rows: dict[int, Decision] = {}
        self.unreadable: dict[int, str] = {}
        """Why a row is not about this data, or undoes nothing, by its id; such rows count for nothing."""
        self.last = 0
        """The id of the last row, which is the version of the state."""
        self._undone: set[int] = set()
        self._by_place: dict[Place, list[Decision]] = {}
        self._status: dict[Place, str] = {}  # only of places with decisions
        self._own: dict[int, dict[Place, Decision | None]] = {}
        """By sentence, its decided places in order, each with the last decision in force on it alone."""
        self._stacks: dict[str, Stacks] = {}
        self._batch = ("", "", "")
        self._conflicts: dict[int, frozenset[Place]] = {}
        self._stale: set[int] = set()  # sentences whose conflicts have to be computed again

    def add(self, rows: Iterable[Decision]) -> None:
        """Update the state with new rows, in the order of their ids."""
        touched, renewed = dict[Place, int](), set[int]()  # places with their sentences, and sentences as a whole
        for row in rows:
            self.last = row.id
            if problem := self._problem(row):
                self.unreadable[row.id] = problem
                continue
            self.rows[row.id] = row
            self._stack(row)
            about = self._about(row)
            number, place = about.sentence_number, self.place_of(about)
            self._stale.add(number)
            touched[place] = number
            if place == self.whole(number):
                renewed.add(number)
            if row.action == "undo":
                self._undone.add(about.id)
            elif row.action == "redo":
                self._undone.discard(about.id)
            else:
                self._by_place.setdefault(place, []).append(row)
        for place, number in touched.items():
            if place in self._by_place:
                self._own.setdefault(number, {})[place] = self._last_in_force(place)
        for number in renewed:
            ranks = (one.rank for one in self.data.by_sentence_number.get(number, ()))
            touched.update(dict.fromkeys([*ranks, *self._own.get(number, ())], number))
        for place in touched:
            row = self.current(place)
            self._status[place] = "open" if row is None else status_of(row)

    def _problem(self, row: Decision) -> str:
        """Why a row cannot be used; empty if it can."""
        number, size = row.sentence_number, row.stop - row.start
        if not 0 <= number < len(self.data.sentences):
            return f"there is no training sentence {number}"
        if not 0 <= row.start < row.stop <= len(self.data.sentences[number]):
            return f"{row.start}:{row.stop} is not a segment of training sentence {number}"
        if row.action in TURNS:
            return self._problem_of_turn(row)
        if len(row.given) != size or (row.labels is not None and len(row.labels) != size):
            return f"expected {size} labels"
        if row.action not in (*STATUS, "note"):
            return f"unknown action {row.action[:20]!r}"
        return "it chooses no labels" if STATUS.get(row.action) == "accepted" and row.labels is None else ""

    def _problem_of_turn(self, row: Decision) -> str:
        target, stacks = self.rows.get(row.undoes or 0), self.stacks(row.reviewer)
        stack = stacks.done if row.action == "undo" else stacks.undone
        is_there = bool(stack) or _batch_of(row) == self._batch
        is_right = target is not None and (target.action == "undo" if row.action == "redo" else target.undoes is None)
        return "" if is_there and is_right else f"there is nothing that it can {row.action}"

    def _about(self, row: Decision) -> Decision:
        """The decision that an undo or a redo is about, whatever tokens it names itself; any other row as it is."""
        while row.action in TURNS:
            row = self.rows[row.undoes or 0]
        return row

    def _stack(self, row: Decision) -> None:
        stacks = self.stacks(row.reviewer)
        is_first, self._batch = _batch_of(row) != self._batch, _batch_of(row)
        if row.action == "undo":
            if is_first:
                stacks.done.pop()
                stacks.undone.append([])
            stacks.undone[-1].append(row.id)
        elif row.action == "redo":
            if is_first:
                stacks.undone.pop()
                stacks.done.append([])
            stacks.done[-1].append(self._about(row).id)
        else:
            if is_first:
                stacks.undone.clear()
                stacks.done.append([])
            stacks.done[-1].append(row.id)

    def stacks(self, reviewer: str) -> Stacks:
        """What a reviewer can undo and redo."""
        return self._stacks.setdefault(reviewer, Stacks())

    def place_of(self, row: Decision) -> Place:
        """The finding that a row is about, or its segment. A rank of another audit, or of other tokens, is ignored."""
        segment = (row.sentence_number, row.start, row.stop)
        rank = row.rank if row.audit == self.data.audit else None
        one = None if rank is None else self.data.by_rank.get(rank)
        if one is not None and shares_token(one, segment):
            return one.rank
        return self.data.rank_at.get(segment, segment)

    def is_undone(self, row: Decision) -> bool:
        return row.id in self._undone

    def in_force(self, place: Place) -> Iterator[Decision]:
        """The decisions and notes on a place that were not undone, the last one first."""
        return (row for row in reversed(self._by_place.get(place, ())) if row.id not in self._undone)

    def current(self, place: Place) -> Decision | None:
        """The current decision on a place, or the part of a later one on its sentence; None if there is none."""
        segment = self._segment_of(place)
        own = self._own.get(segment[0], {}).get(place)
        return self._of_sentence(place, segment, own) or own

    def _last_in_force(self, place: Place) -> Decision | None:
        return next((row for row in self.in_force(place) if row.action in STATUS), None)

    def whole(self, sentence_number: int) -> Place:
        """The place of decisions on a whole sentence."""
        segment = (sentence_number, 0, len(self.data.sentences[sentence_number]))
        return self.data.rank_at.get(segment, segment)

    def _of_sentence(self, place: Place, segment: SegmentKey, own: Decision | None) -> Decision | None:
        """What a decision on the whole sentence says about a place in it, if it is later than the place's own one."""
        number, start, stop = segment
        whole = self.whole(number)
        row = None if place == whole else self._own.get(number, {}).get(whole)
        if row is None or row.labels is None or (own is not None and own.id > row.id):
            return None
        rank = place if isinstance(place, int) else None
        inside = slice(start, stop)
        return replace(
            row, rank=rank, start=start, stop=stop, given=row.given[inside], labels=row.labels[inside], note=""
        )

    def _segment_of(self, place: Place) -> SegmentKey:
        if not isinstance(place, int):
            return place
        one = self.data.by_rank[place]
        return one.sentence_number, one.start, one.stop

    def status(self, place: Place) -> str:
        return self._status.get(place, "open")

    def note(self, place: Place) -> str:
        """The last note on a place; an empty note removes earlier ones."""
        return next((row.note for row in self.in_force(place) if row.note or row.action == "note"), "")

    def base(self, segment: SegmentKey) -> int | None:
        """The id of the last decision in force that shares a token with a segment."""
        number, start, stop = segment
        found = [row.id for _, row in self._current_in(number) if row.start < stop and start < row.stop]
        return max(found, default=None)

    def _current_in(self, sentence_number: int) -> Iterator[tuple[Place, Decision]]:
        for place, row in self._own.get(sentence_number, {}).items():
            if row is not None:
                yield place, row

    def progress(self, ranks: Iterable[int]) -> dict[str, int]:
        """The number of findings with each status."""
        counts = Counter(map(self.status, ranks))
        return {status: counts[status] for status in STATUSES}

    def num_others(self) -> int:
        """The number of decided places that are not findings."""
        return sum(not isinstance(place, int) and status != "open" for place, status in self._status.items())

    def wanted(self, sentence_number: int, besides: Container[Place] = ()) -> dict[int, tuple[str, Decision]]:
        """The decided label of each token of a sentence, with its decision. If decisions overlap, the last one counts.

        Decisions on the places ``besides`` are ignored. A decision on the whole sentence leaves tokens whose labels it
        only confirms to the earlier decision.
        """
        current = (one for one in self._current_in(sentence_number) if one[0] not in besides)
        whole, found = self.whole(sentence_number), dict[int, tuple[str, Decision]]()
        of_sentence = set[int]()
        for place, row in sorted(current, key=lambda one: one[1].id):
            inside = range(row.start, row.stop)
            if STATUS[row.action] == "accepted":
                new = dict(zip(inside, row.labels or (), strict=False))
                if place == whole:
                    new = {t: label for t, label in new.items() if t not in found or found[t][0] != label}
                    of_sentence |= new.keys()
                else:
                    of_sentence -= new.keys()
                found.update({t: (label, row) for t, label in new.items()})
            else:
                for t in of_sentence.intersection(inside):
                    of_sentence.remove(t)
                    del found[t]
        return found

    def decided_labels(self, sentence_number: int) -> dict[int, str]:
        """The labels that are known to be right, by token: chosen ones, and given ones where a change was rejected."""
        given = self.data.sentences[sentence_number].labels
        rejected = (row for _, row in self._current_in(sentence_number) if row.action == "reject")
        known = {t: given[t] for row in rejected for t in range(row.start, row.stop)}
        return known | {t: label for t, (label, _) in self.wanted(sentence_number).items()}

    def labels_now(self, sentence_number: int) -> tuple[str, ...]:
        """The labels of a sentence as an export would write them: the given ones with what was decided."""
        labels = list(self.data.sentences[sentence_number].labels)
        for t, (label, _) in self.wanted(sentence_number).items():
            labels[t] = label
        return normalise(labels, self.data.labels.scheme)

    def num_decisions(self) -> int:
        """The number of decisions in force, notes not counted."""
        return sum(row.action in STATUS and row.id not in self._undone for row in self.rows.values())

    def decided_sentences(self) -> list[int]:
        """The numbers of the sentences with decisions."""
        return sorted(self._own)

    def conflicts(self) -> dict[int, frozenset[Place]]:
        """The places in conflict, by sentence number."""
        for number in self._stale:
            self._conflicts[number] = frozenset(self._find_conflicts(number))
        self._stale.clear()
        return self._conflicts

    def has_conflict(self, place: Place, sentence_number: int) -> bool:
        return place in self.conflicts().get(sentence_number, ())

    def num_conflicts(self) -> int:
        return sum(map(len, self.conflicts().values()))

    def _find_conflicts(self, sentence_number: int) -> Iterator[Place]:
        current = {row.id for _, row in self._current_in(sentence_number)}
        lasts = [(row, place) for place in self._own.get(sentence_number, ()) for row in self._lasts(place)]
        said: dict[int, list[_Said]] = {}
        for row, place in sorted(lasts, key=lambda one: one[0].id):
            for t, label in enumerate(outcome(row) or (), start=row.start):
                said.setdefault(t, []).append(_Said(row, place, label))
        for of_token in said.values():
            yield from _conflicts(of_token, current)

    def _lasts(self, place: Place) -> list[Decision]:
        """The last decision of each reviewer on a place."""
        found: dict[str, Decision] = {}
        for row in self.in_force(place):
            if row.action in STATUS:
                found.setdefault(row.reviewer, row)
        return list(found.values())


def _batch_of(row: Decision) -> tuple[str, str, str]:
    return row.batch, row.reviewer, row.action if row.action in TURNS else ""


def status_of(row: Decision) -> str:
    """The status that a decision gives to its place; choosing the given labels counts as rejecting."""
    return "rejected" if row.labels is not None and row.labels == row.given else STATUS[row.action]


def outcome(row: Decision) -> tuple[str, ...] | None:
    """The labels that a decision chooses for its tokens; None if it chooses none."""
    if STATUS[row.action] == "accepted":
        return row.labels
    return row.given if row.action == "reject" else None


def _seen(row: Decision) -> int:
    """The id of the last decision that the reviewer of a row had seen: one that was there before it, or 0."""
    return row.base if row.base is not None and row.base < row.id else 0


def _conflicts(said: Sequence[_Said], current: Container[int]) -> Iterator[Place]:
    """The places in conflict about one token, from all that was said about it in the order of time.

    Each current decision is compared with those of the others that chose the same label together: they are in conflict
    with it from the first that it had not seen to the last before it. From the last to the first of the current ones,
    only what is before all that is known to be in conflict is new, so that the time is linear in ``said``.
    """
    groups: dict[tuple[str, str], list[_Said]] = {}
    for one in said:
        groups.setdefault((one.row.reviewer, one.label), []).append(one)
    ids = {key: [one.row.id for one in group] for key, group in groups.items()}
    known = {key: len(group) for key, group in groups.items()}
    for one in reversed(said):
        for key in groups if one.row.id in current else ():
            if one.row.reviewer == key[0] or one.label == key[1]:
                continue
            first, end = bisect_right(ids[key], _seen(one.row)), bisect_left(ids[key], one.row.id)
            if first < end:
                yield one.place
                yield from (other.place for other in groups[key][first : min(end, known[key])])
                known[key] = min(known[key], first)
