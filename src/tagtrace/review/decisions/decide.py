"""Deciding: requests are checked against the data, kept, and only then answered."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tagtrace._checks import DataError, OptionError, TagtraceError
from tagtrace.data import denormalise, violations
from tagtrace.findings.finding import Finding
from tagtrace.index.fingerprints import content_fingerprint
from tagtrace.review.decisions.database import Decision, Store
from tagtrace.review.decisions.ledger import STATUS, Ledger
from tagtrace.review.training_data import SegmentKey, TrainingData

ACTIONS = (*STATUS, "note")


class KeyUsedError(TagtraceError):
    """A key came again with something else."""


class NotFoundError(TagtraceError):
    """What was asked for does not exist."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A decision as a client asks for it."""

    action: str
    sentence_number: int
    start: int
    stop: int
    rank: int | None = None
    labels: Sequence[str] | None = None
    note: str = ""
    base: int | None = None
    key: str | None = None


class Decisions:
    """The decisions of a project. All methods may be called from any thread, and other processes may decide too."""

    def __init__(self, data: TrainingData, store: Store) -> None:
        self.data, self.store = data, store
        self._ledger = Ledger(data)
        self._lock = threading.RLock()
        fingerprint = content_fingerprint(data.corpus)
        if store.setting("data", fingerprint) != fingerprint:
            raise DataError(
                f"{store.path}: its decisions are about other data than {data.corpus.path}; put that back, or make "
                "a new project and import the log that was exported here"
            )

    @contextmanager
    def reading(self) -> Iterator[Ledger]:
        """The state as it is now, which stays so inside the block."""
        with self._lock:
            self._ledger.add(self.store.after(self._ledger.last))
            yield self._ledger

    @contextmanager
    def _writing(self) -> Iterator[Ledger]:
        """The state with everything that any process decided; nobody else writes inside the block."""
        with self._lock:
            with self.store.writing(), self.reading() as ledger:
                last = ledger.last
                yield ledger
            assert ledger.last == last  # rows are counted when they are kept
            ledger.add(self.store.after(last))

    def decide(self, reviewer: str, wishes: Sequence[Wish]) -> list[Decision]:
        """Keep decisions together, all or none; those whose key is known are the ones that were kept before.

        Their labels must make sense once all of them are made, in whatever order they come.
        """
        batch, time, kept = uuid.uuid4().hex, _now(), list[Decision]()
        with self._writing() as ledger:
            for wish in wishes:
                row = self._row(ledger, wish, reviewer, batch, time)
                before = self.store.with_key(row.key)
                if before is not None and _content(before) != _content(row):
                    raise KeyUsedError(f"key {row.key[:40]!r} was used for another decision; make a new key")
                kept.append(before or replace(row, id=self.store.add(row)))
            check_labels(ledger, [row for row in kept if row.batch == batch])
        return kept

    def undo(self, reviewer: str, key: str | None = None) -> list[Decision]:
        """Undo the reviewer's last decision, or all that were made together; returns the rows that say so."""
        return self._turn(reviewer, "undo", key)

    def redo(self, reviewer: str, key: str | None = None) -> list[Decision]:
        """Take the reviewer's last undo back, unless they have decided something since."""
        return self._turn(reviewer, "redo", key)

    def _turn(self, reviewer: str, action: str, key: str | None) -> list[Decision]:
        batch, time = uuid.uuid4().hex, _now()
        key, kept = f"{action}:{key or batch}", list[Decision]()
        with self._writing() as ledger:
            before = self.store.with_key(f"{key}:0")
            if before is not None:
                return [row for row in ledger.rows.values() if row.batch == before.batch]
            stacks = ledger.stacks(reviewer)
            stack = stacks.done if action == "undo" else stacks.undone
            for number, target in enumerate(stack[-1] if stack else ()):
                about = ledger.rows[target]
                row = replace(
                    about, time=time, reviewer=reviewer, batch=batch, action=action, note="", base=None,
                    key=f"{key}:{number}", undoes=target, id=0,
                )  # fmt: skip
                kept.append(replace(row, id=self.store.add(row)))
        return kept

    def _row(self, ledger: Ledger, wish: Wish, reviewer: str, batch: str, time: str) -> Decision:
        """The row for a wish; raises where there is no such place, or no such thing to do there."""
        data = self.data
        if wish.action not in ACTIONS:
            raise OptionError(f"action {wish.action!r}: expected one of {', '.join(ACTIONS)}")
        finding = data.by_rank.get(wish.rank) if wish.rank is not None else None
        if wish.rank is not None and (finding is None or finding.sentence_number != wish.sentence_number):
            raise NotFoundError(
                f"there is no finding {wish.rank} in sentence number {wish.sentence_number}; reload the page"
            )
        segment = check_segment(data, (wish.sentence_number, wish.start, wish.stop))
        sentence = data.sentences[wish.sentence_number]
        row = Decision(
            time, reviewer, batch, wish.action,
            wish.rank if wish.rank is not None else data.rank_at.get(segment),
            data.audit, wish.sentence_number, sentence.id, wish.start, wish.stop, sentence.labels[wish.start :
            wish.stop], _labels(wish, finding), wish.note, wish.base, wish.key or uuid.uuid4().hex,
        )  # fmt: skip
        if wish.action == "note" and not wish.note and not ledger.note(ledger.place_of(row)):
            raise OptionError("a note needs a text")  # none takes away the one there is
        return row


def _labels(wish: Wish, finding: Finding | None) -> tuple[str, ...] | None:
    """The labels that a wish is for; None where it is for none."""
    if STATUS.get(wish.action) != "accepted":
        return None
    labels = None if wish.labels is None else tuple(wish.labels)
    if wish.action == "accept" and finding is not None:
        if labels is None:
            labels = finding.proposed
        if (wish.start, wish.stop, labels) != (finding.start, finding.stop, finding.proposed):
            raise OptionError(f"accepting finding {wish.rank} means its proposed labels; relabel to choose others")
    if labels is None:
        raise OptionError(f"{wish.action} needs labels for tokens {wish.start}:{wish.stop}")
    return labels


def check_segment(data: TrainingData, segment: SegmentKey) -> SegmentKey:
    """The same segment; raises where the data has none there."""
    sentence_number, start, stop = segment
    if not 0 <= sentence_number < len(data.sentences):
        raise NotFoundError(
            f"there is no training sentence number {sentence_number}; there are {len(data.sentences):,}"
        )
    if not 0 <= start < stop <= len(data.sentences[sentence_number]):
        sentence = data.sentences[sentence_number]
        raise OptionError(f"{start}:{stop} is no segment of {sentence.id}, which has {len(sentence)} tokens")
    return segment


def check_labels(ledger: Ledger, rows: Sequence[Decision]) -> None:
    """Raise where labels are unknown, too many or too few, or continue a segment that is not there after all ``rows``.

    What they leave of a segment after them is no reason: it goes on as one of its own (``findings.fixing``).
    """
    by_sentence_number: dict[int, list[Decision]] = {}
    for row in rows:
        if row.labels is not None:
            if len(row.labels) != row.stop - row.start:
                wrong = f"{len(row.labels)} labels for {row.stop - row.start} tokens; give one for each"
                raise OptionError(f"{_where(row)}: {wrong}")
            ledger.data.labels.encode(row.labels)
        by_sentence_number.setdefault(row.sentence_number, []).append(row)
    for number, some in by_sentence_number.items():
        if any(row.labels is not None for row in some):
            _check_sentence(ledger, number, some)


def _check_sentence(ledger: Ledger, sentence_number: int, rows: Sequence[Decision]) -> None:
    """The part of ``check_labels`` about one sentence."""
    data, sentence = ledger.data, ledger.data.sentences[sentence_number]
    whole = list(sentence.labels)
    renewed = {ledger.place_of(row) for row in rows if row.action in STATUS}
    for t, (label, _) in ledger.wanted(sentence_number, besides=renewed).items():
        whole[t] = label
    for row in rows:
        whole[row.start : row.stop] = row.labels or whole[row.start : row.stop]
    problems = dict(violations(whole, data.labels.scheme))
    names = data.corpus.options.labels
    nameless = set(denormalise(whole, data.corpus.scheme)) - set(names) if names is not None and not problems else ()
    for row in rows:
        for t in range(row.start, row.stop if row.labels is not None else row.start):
            if t in problems:
                raise OptionError(f"{_where(row)}: {problems[t]} (token {t}, {sentence.tokens[t]!r})")
        if nameless:
            raise OptionError(f"{_where(row)}: the data has no number for the label {min(nameless)!r}; choose another")


def _where(row: Decision) -> str:
    return f"{row.sentence} {row.start}:{row.stop}"


def _content(row: Decision) -> tuple[object, ...]:
    """What makes two rows the same decision."""
    return row.reviewer, row.action, row.rank, row.sentence_number, row.start, row.stop, row.labels, row.note


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
