"""Making decisions: they are checked against the data and saved before they are confirmed."""

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
from tagtrace.review.decisions.ledger import STATUS, TURNS, Ledger
from tagtrace.review.training_data import SegmentKey, TrainingData, shares_token

ACTIONS = (*STATUS, "note")
MAX_TOGETHER = 20_000
"""Maximum number of decisions that are made together."""
MAX_TOKENS = 1_000_000
"""Maximum number of tokens of decisions that are made together: the largest document."""


class KeyUsedError(TagtraceError):
    """A key was used again for a different decision."""


class NotFoundError(TagtraceError):
    """The requested finding, sentence, pattern, job or file does not exist."""


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """A decision that a client wants to make; the fields are those of ``Decision``.

    Relabelling a whole sentence without giving labels confirms the labels that it has now.
    """

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
    """The decisions of a project. All methods can be called from any thread; other processes can make decisions too."""

    data: TrainingData
    store: Store

    def __init__(self, data: TrainingData, store: Store) -> None:
        self.data, self.store = data, store
        self._ledger = Ledger(data)
        self._lock = threading.RLock()
        fingerprint = content_fingerprint(data.corpus)
        if store.setting("data", fingerprint) != fingerprint:
            raise DataError(
                f"{store.path}: the decisions were made on other data than {data.corpus.path}; restore that data, or "
                "create a new project and import the log that was exported from this one"
            )

    @contextmanager
    def reading(self) -> Iterator[Ledger]:
        """The current state, which does not change inside the block."""
        with self._lock:
            self._ledger.add(self.store.after(self._ledger.last))
            yield self._ledger

    @property
    def unreadable(self) -> dict[int, str]:
        """Why a row of the database cannot be used, by its id."""
        with self.reading() as ledger:
            return dict(sorted({**self.store.unreadable, **ledger.unreadable}.items()))

    @contextmanager
    def _writing(self) -> Iterator[Ledger]:
        """The current state with the decisions of all processes; nobody else writes inside the block."""
        with self._lock:
            with self.store.writing(), self.reading() as ledger:
                last = ledger.last
                yield ledger
                rows = self.store.added(last)
            ledger.add(rows)  # rows are only counted once they are saved

    def decide(self, reviewer: str, requests: Sequence[DecisionRequest]) -> list[Decision]:
        """Save decisions together, all or none. For a key that was saved before, the saved decision is returned.

        The labels must be well formed once all decisions are made; the order of the decisions does not matter.
        """
        batch, time, kept = uuid.uuid4().hex, _now(), list[Decision]()
        if (size := sum(max(one.stop - one.start, 0) for one in requests)) > MAX_TOKENS:
            raise OptionError(f"decisions on {size:,} tokens, at most {MAX_TOKENS:,} together; make them in parts")
        with self._writing() as ledger:
            for request in requests:
                row = self._row(ledger, request, reviewer, batch, time)
                before = self.store.with_key(row.key)
                if before is not None and _content(before) != _content(row):
                    raise KeyUsedError(f"the key {row.key[:40]!r} was used for another decision; use a new key")
                kept.append(before or replace(row, id=self.store.add(row)))
            check_labels(ledger, [row for row in kept if row.batch == batch])
        return kept

    def undo(self, reviewer: str, key: str | None = None) -> list[Decision]:
        """Undo the reviewer's last decision and those made together with it; returns the rows that were added."""
        return self._turn(reviewer, "undo", key)

    def redo(self, reviewer: str, key: str | None = None) -> list[Decision]:
        """Redo what the reviewer undid last, unless they have decided since; returns the rows that were added."""
        return self._turn(reviewer, "redo", key)

    def _turn(self, reviewer: str, action: str, key: str | None) -> list[Decision]:
        batch, time = uuid.uuid4().hex, _now()
        key, kept = f"{action}:{key or batch}", list[Decision]()
        nothing = f"nothing for {reviewer} to {key}"  # the name of a note: repeated, the request must do nothing again
        with self._writing() as ledger:
            if self.store.has_setting(nothing):
                return kept
            before = self.store.with_key(f"{key}:0")
            if before is not None and (before.action, before.reviewer) != (action, reviewer):
                raise KeyUsedError(f"the key {key[:40]!r} was used for something else; use a new key")
            if before is not None:
                return [row for row in ledger.rows.values() if row.batch == before.batch]
            stacks = ledger.stacks(reviewer)
            stack = stacks.done if action == "undo" else stacks.undone
            if not stack:
                self.store.setting(nothing, "")
            for number, target in enumerate(stack[-1] if stack else ()):
                about = ledger.rows[target]
                row = replace(
                    about, time=time, reviewer=reviewer, batch=batch, action=action, given=(), labels=None, note="",
                    base=None, key=f"{key}:{number}", undoes=target, id=0,
                )  # fmt: skip
                kept.append(replace(row, id=self.store.add(row)))
        return kept

    def _row(self, ledger: Ledger, request: DecisionRequest, reviewer: str, batch: str, time: str) -> Decision:
        """The row for a request; raises an error if the segment, the finding or the action does not exist."""
        data = self.data
        if request.action not in ACTIONS:
            raise OptionError(f"unknown action {request.action!r}; expected one of {', '.join(ACTIONS)}")
        if request.key is not None and request.key.partition(":")[0] in TURNS:  # those of undo and redo
            raise OptionError(f"the key of a decision cannot begin with {request.key[:5]}; use another key")
        finding = data.by_rank.get(request.rank) if request.rank is not None else None
        if request.rank is not None and (finding is None or finding.sentence_number != request.sentence_number):
            raise NotFoundError(
                f"there is no finding {request.rank} in training sentence {request.sentence_number}; reload the page"
            )
        segment = check_segment(data, (request.sentence_number, request.start, request.stop))
        if finding is not None and not shares_token(finding, segment):
            raise OptionError(f"finding {request.rank} has no token of {request.start}:{request.stop}; reload the page")
        sentence = data.sentences[request.sentence_number]
        is_all = (request.start, request.stop) == (0, len(sentence))
        is_whole = is_all and request.action == "relabel" and request.labels is None
        row = Decision(
            time=time,
            reviewer=reviewer,
            batch=batch,
            action=request.action,
            rank=request.rank if request.rank is not None else data.rank_at.get(segment),
            audit=data.audit,
            sentence_number=request.sentence_number,
            sentence=sentence.id,
            start=request.start,
            stop=request.stop,
            given=sentence.labels[request.start : request.stop],
            labels=_labels(request, finding) if not is_whole else self._confirmed(ledger, request),
            note=request.note,
            base=request.base,
            key=request.key or uuid.uuid4().hex,
        )
        if request.action == "note" and not request.note and not ledger.note(ledger.place_of(row)):
            raise OptionError("the note is empty; write a text")  # an empty note only removes an existing one
        return row

    def _confirmed(self, ledger: Ledger, request: DecisionRequest) -> tuple[str, ...]:
        """The labels that a whole sentence has now; those of the saved decision if it is sent again."""
        before = None if request.key is None else self.store.with_key(request.key)
        if before is not None and before.labels is not None:
            return before.labels
        return ledger.labels_now(request.sentence_number)


def _labels(request: DecisionRequest, finding: Finding | None) -> tuple[str, ...] | None:
    """The labels that a request chooses; None if its action does not choose any."""
    if STATUS.get(request.action) != "accepted":
        return None
    labels = None if request.labels is None else tuple(request.labels)
    if request.action == "accept" and finding is not None:
        if labels is None:
            labels = finding.proposed
        if (request.start, request.stop, labels) != (finding.start, finding.stop, finding.proposed):
            raise OptionError(
                f"finding {request.rank} can only be accepted with its proposed labels; relabel it to choose others"
            )
    if labels is None:
        raise OptionError(
            f"{request.action} needs labels; give one for each of the tokens {request.start}:{request.stop}"
        )
    return labels


def check_segment(data: TrainingData, segment: SegmentKey) -> SegmentKey:
    """Return the segment, or raise an error if the data does not have it."""
    sentence_number, start, stop = segment
    if not 0 <= sentence_number < len(data.sentences):
        raise NotFoundError(
            f"there is no training sentence {sentence_number}; numbers are 0 to {len(data.sentences) - 1}"
        )
    if not 0 <= start < stop <= len(data.sentences[sentence_number]):
        sentence = data.sentences[sentence_number]
        raise OptionError(f"{start}:{stop} is not a segment of {sentence.id}, which has {len(sentence)} tokens")
    return segment


def check_labels(ledger: Ledger, rows: Sequence[Decision]) -> None:
    """Raise an error if labels are unknown, not one per token, or continue a segment that does not exist.

    The labels are checked as they are after all ``rows``. It is not an error if a row cuts off the beginning of a
    segment: the rest becomes a segment of its own, as in ``findings.fix``.
    """
    by_sentence_number: dict[int, list[Decision]] = {}
    for row in rows:
        if row.labels is not None:
            if len(row.labels) != row.stop - row.start:
                wrong = f"{len(row.labels)} labels for {row.stop - row.start} tokens; give one label per token"
                raise OptionError(f"{_where(row)}: {wrong}")
            ledger.data.labels.encode(row.labels)
        by_sentence_number.setdefault(row.sentence_number, []).append(row)
    for number, some in by_sentence_number.items():
        if any(row.labels is not None for row in some):
            _check_sentence(ledger, number, some)


def _check_sentence(ledger: Ledger, sentence_number: int, rows: Sequence[Decision]) -> None:
    """``check_labels`` for the rows of one sentence."""
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
            raise OptionError(
                f"{_where(row)}: the data has no number for the label {min(nameless)!r}; choose another label"
            )


def _where(row: Decision) -> str:
    return f"{row.sentence} {row.start}:{row.stop}"


def _content(row: Decision) -> tuple[object, ...]:
    """The values in which rows of the same decision agree."""
    return row.reviewer, row.action, row.rank, row.sentence_number, row.start, row.stop, row.labels, row.note


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
