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
from tagtrace.index.fingerprints import content_fingerprint
from tagtrace.review.ledger import STATUS, Ledger
from tagtrace.review.store import Decision, Store
from tagtrace.review.texts import Segment, Texts

ACTIONS = (*STATUS, "note")


class KeyUsedError(TagtraceError):
    """A key came again with something else."""


class NotFoundError(TagtraceError):
    """What was asked for does not exist."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A decision as a client asks for it."""

    action: str
    chain: int
    start: int
    stop: int
    rank: int | None = None
    labels: Sequence[str] | None = None
    note: str = ""
    base: int | None = None
    key: str | None = None


class Decisions:
    """The decisions of a project. All methods may be called from any thread, and other processes may decide too."""

    def __init__(self, texts: Texts, store: Store) -> None:
        self.texts, self.store = texts, store
        self._ledger = Ledger(texts)
        self._lock = threading.RLock()
        data = content_fingerprint(texts.corpus)
        if store.setting("data", data) != data:
            raise DataError(
                f"{store.path}: its decisions are about other data than {texts.corpus.path}; put that back, or make "
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
        """Keep decisions together, all or none; those whose key is known are the ones that were kept before."""
        batch, time, kept = uuid.uuid4().hex, _now(), list[Decision]()
        with self._writing() as ledger:
            for wish in wishes:
                row = self._checked(ledger, wish, reviewer, batch, time)
                before = self.store.with_key(row.key)
                if before is not None and _content(before) != _content(row):
                    raise KeyUsedError(f"key {row.key[:40]!r} was used for another decision; make a new key")
                kept.append(before or replace(row, id=self.store.add(row)))
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
            if self.store.with_key(f"{key}:0") is not None:
                return kept
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

    def _checked(self, ledger: Ledger, wish: Wish, reviewer: str, batch: str, time: str) -> Decision:
        """The row for a wish; raises where it does not fit the data."""
        texts = self.texts
        if wish.action not in ACTIONS:
            raise OptionError(f"action {wish.action!r}: expected one of {', '.join(ACTIONS)}")
        finding = texts.by_rank.get(wish.rank) if wish.rank is not None else None
        if wish.rank is not None and (finding is None or finding.chain != wish.chain):
            raise NotFoundError(f"there is no finding {wish.rank} in sentence number {wish.chain}; reload the page")
        segment = check_segment(texts, (wish.chain, wish.start, wish.stop))
        labels = None if wish.labels is None else tuple(wish.labels)
        if wish.action == "accept" and finding is not None:
            if labels is None:
                labels = finding.proposed
            if (wish.start, wish.stop, labels) != (finding.start, finding.stop, finding.proposed):
                raise OptionError(f"accepting finding {wish.rank} means its proposed labels; relabel to choose others")
        if STATUS.get(wish.action) != "accepted":
            labels = None
        elif labels is None:
            raise OptionError(f"{wish.action} needs labels for tokens {wish.start}:{wish.stop}")
        else:
            check_labels(ledger, segment, labels)
        if wish.action == "note" and not wish.note:
            raise OptionError("a note needs a text")
        chain = texts.chains[wish.chain]
        return Decision(
            time, reviewer, batch, wish.action,
            wish.rank if wish.rank is not None else texts.rank_at.get(segment),
            texts.audit, wish.chain, chain.id, wish.start, wish.stop, chain.labels[wish.start : wish.stop],
            labels, wish.note, wish.base, wish.key or uuid.uuid4().hex,
        )  # fmt: skip


def check_segment(texts: Texts, segment: Segment) -> Segment:
    """The same segment; raises where the data has none there."""
    chain, start, stop = segment
    if not 0 <= chain < len(texts.chains):
        raise NotFoundError(f"there is no training sentence number {chain}; there are {len(texts.chains):,}")
    if not 0 <= start < stop <= len(texts.chains[chain]):
        raise OptionError(
            f"{start}:{stop} is no segment of {texts.chains[chain].id}, which has {len(texts.chains[chain])} tokens"
        )
    return segment


def check_labels(ledger: Ledger, segment: Segment, labels: tuple[str, ...]) -> None:
    """Raise where labels are unknown, too many or too few, or continue a segment that is not there.

    What they leave of a segment after them is no reason: it goes on as one of its own (``findings.fixing``).
    """
    texts, (chain, start, stop) = ledger.texts, segment
    where = f"{texts.chains[chain].id} {start}:{stop}"
    if len(labels) != stop - start:
        raise OptionError(f"{where}: {len(labels)} labels for {stop - start} tokens; give one for each")
    texts.labels.encode(labels)
    wanted = ledger.wanted(chain)
    whole = [
        labels[t - start] if start <= t < stop else wanted[t][0] if t in wanted else label
        for t, label in enumerate(texts.chains[chain].labels)
    ]
    for place, problem in violations(whole, texts.labels.scheme):
        if start <= place < stop:
            raise OptionError(f"{where}: {problem} (token {place}, {texts.chains[chain].tokens[place]!r})")
    names = texts.corpus.options.labels
    if names is not None:
        nameless = set(denormalise(whole, texts.corpus.scheme)) - set(names)
        if nameless:
            raise OptionError(f"{where}: the data has no number for the label {min(nameless)!r}; choose another")


def _content(row: Decision) -> tuple[object, ...]:
    """What makes two rows the same decision."""
    return row.reviewer, row.action, row.rank, row.chain, row.start, row.stop, row.labels, row.note


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
