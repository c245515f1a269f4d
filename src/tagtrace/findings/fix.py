"""Fix: apply chosen findings to a copy of the data, with a log from which the changes can be repeated.

Every change is checked against the data (tokens and labels must be those of the finding), then all changes are made
together. If a segment loses its first token, the rest becomes a segment of its own, as a reader of the file would take
it: B-ORG I-ORG with B-LOC proposed for the first token becomes B-LOC B-ORG. Such a repair is part of the change that
made it necessary, also in the log.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from tagtrace._checks import DataError, OptionError, at, check_numbers, check_type
from tagtrace._documents import Document, read_documents
from tagtrace._files import file_moved_when_whole
from tagtrace._pairs import finish_pairs, pair_moved_when_whole
from tagtrace._table import Table, Tabular
from tagtrace.data.corpus import Corpus
from tagtrace.data.rewrite import check_copy, write_corpus
from tagtrace.data.schemes import LabelError, normalise, spelled
from tagtrace.data.sentence import Sentence
from tagtrace.findings.finding import LIKELY, Finding

NUM_SHOWN = 12
"""Maximum number of kinds of change that are shown."""


@dataclass(frozen=True, slots=True)
class Change(Document):
    """New labels for tokens ``start:stop`` of a sentence (or document)."""

    rank: int
    """Rank of the finding."""
    sentence: str
    """Id of the sentence, or name of the document if the tagger reads whole documents."""
    line: int
    """Line of the first token in the data file, from 1."""
    start: int
    stop: int
    tokens: tuple[str, ...]
    given: tuple[str, ...]
    """The labels in the data, normalised."""
    new: tuple[str, ...]
    repaired: int = 0
    """Number of new labels that the finding did not propose: they keep the labels well formed."""

    def __post_init__(self) -> None:
        lengths = {len(self.tokens), len(self.given), len(self.new)}
        if lengths != {self.stop - self.start} or not 0 <= self.start < self.stop:
            raise DataError(f"{self}: needs a token, a given and a new label for each position; audit again")
        check_numbers(rank=self.rank, line=self.line, stop=self.stop, repaired=self.repaired)

    def __str__(self) -> str:
        return f"finding {self.rank} ({self.sentence} {self.start}:{self.stop})"

    @classmethod
    def of(cls, one: Finding) -> Change:
        """The change that a finding proposes."""
        return cls(one.rank, one.sentence, one.line, one.start, one.stop, one.tokens, one.given, one.proposed)

    def to_line(self) -> str:
        """One line of the log."""
        return json.dumps(asdict(self), ensure_ascii=False)


@dataclass(frozen=True)
class Fixed(Tabular):
    """The data with its new labels, and the changes by rank of their findings."""

    corpus: Corpus
    changes: tuple[Change, ...]
    num_asked: int = 0
    """Number of changes that were asked for, including those that propose the given labels."""
    num_unlikely: int = 0
    """Number of findings whose proposed labels are not likelier than not."""

    def save(self, path: str | Path, log: str | Path | None = None, *, overwrite: bool = False) -> int:
        """Write the data to ``path`` in its own format, and the changes to ``log``; returns how many labels changed.

        By default the log is ``path`` with ``.changes.jsonl`` added. Both appear together. Neither may be the original
        data, and existing files are only replaced with ``overwrite``. A copy of a folder is a folder.
        """
        path = Path(path)
        log = default_log(path) if log is None else Path(log)
        finish_pairs((path, log))
        check_copy(self.corpus, path, {"the log": log}, overwrite=overwrite)
        with pair_moved_when_whole(path, log, source=self.corpus.path) as (aside, log_aside):
            num_labels = write_corpus(self.corpus, aside)
            write_changes(self.changes, log_aside, source=self.corpus.path)
        return num_labels

    def describe(self) -> list[str | Table]:
        kinds = Counter((spelled(change.given), spelled(change.new)) for change in self.changes)
        rows = [(given, new, f"{count:,}") for (given, new), count in kinds.most_common(NUM_SHOWN)]
        if len(kinds) > NUM_SHOWN:
            rows.append(("others", "", f"{sum(count for _, count in kinds.most_common()[NUM_SHOWN:]):,}"))
        found: list[str | Table] = []
        if rows:
            found.append(Table("changes", ("given", "new", "count"), tuple(rows), ("count",)))
        if self.num_unlikely:
            found.append(
                f"note: {self.num_unlikely:,} of the proposals have a confidence of at most {LIKELY}; set a minimum "
                "confidence to leave them out"
            )
        if self.num_asked > len(self.changes):
            num_same = self.num_asked - len(self.changes)
            found.append(f"note: {num_same:,} of the proposals are the labels that are already in the data")
        repaired = [change for change in self.changes if change.repaired]
        if repaired:
            found.append(
                f"note: {len(repaired):,} of the changes also replaced a B- or I- that was not proposed, to keep "
                f"segments well formed (the first: rank {repaired[0].rank}, line {repaired[0].line})"
            )
        return found

    def to_records(self) -> list[dict[str, Any]]:
        """One record for each change."""
        return [asdict(change) for change in self.changes]


def default_log(path: Path) -> Path:
    """Where ``Fixed.save`` writes the log by default."""
    return path.parent / f"{path.name}.changes.jsonl"


def choose_findings(
    findings: Iterable[Finding],
    *,
    top: int | None = None,
    patterns: Collection[int] = (),
    min_confidence: float | None = None,
    ranks: Collection[int] = (),
) -> list[Finding]:
    """The findings that meet all conditions; at least one must be given.

    Conditions: among the first ``top``, part of one of the ``patterns``, a confidence of at least ``min_confidence``,
    one of the ``ranks``.
    """
    if top is None and min_confidence is None and not patterns and not ranks:
        raise OptionError("no finding is chosen; give top, patterns, min_confidence or ranks")
    found = sorted(findings, key=lambda one: one.rank)
    known = check_ranks(found)
    if top is not None and top < 1:
        raise OptionError(f"top {top}: must be at least 1")
    if min_confidence is not None and not 0 <= min_confidence <= 1:
        raise OptionError(f"min_confidence {min_confidence}: must be from 0 to 1")
    for number in sorted(set(patterns) - {one.pattern for one in found}):
        raise OptionError(f"pattern {number}: no finding belongs to it; see the findings of the audit")
    for rank in sorted(set(ranks) - set(known)):
        raise OptionError(f"rank {rank}: no finding has it; see the findings of the audit")
    chosen = [
        one
        for one in found[:top]
        if (not patterns or one.pattern in patterns)
        and (min_confidence is None or one.confidence >= min_confidence)
        and (not ranks or one.rank in ranks)
    ]
    if not chosen:
        raise OptionError("no finding meets all conditions; drop one of them")
    return chosen


def check_ranks(findings: Iterable[Finding]) -> Collection[int]:
    """The ranks of findings; raises DataError if two have the same."""
    known = Counter(one.rank for one in findings)
    for rank, times in known.items():
        if times > 1:
            raise DataError(f"{times} findings have the rank {rank}; give the findings of one audit")
    return known


def fix(corpus: Corpus, findings: Iterable[Finding]) -> Fixed:
    """Give the tokens of findings their proposed labels; ``corpus`` itself is not changed.

    Raises DataError if a finding is not about this data, or if two findings contradict each other.
    """
    check_type("corpus", corpus, Corpus, "give read_corpus(path)")
    chosen = list(findings)
    return replace(replay(corpus, map(Change.of, chosen)), num_unlikely=sum(not one.is_likely for one in chosen))


def replay(corpus: Corpus, changes: Iterable[Change]) -> Fixed:
    """Make the changes of a log again, in the same data or in a copy of it."""
    asked = sorted(changes, key=lambda change: change.rank)
    places = _Places(corpus, asked)
    wanted: dict[int, tuple[str, Change]] = {}  # by row: the label, and the change that wants it
    rows: list[tuple[int, Change]] = []
    for change in asked:
        row = places.find(change)
        places.check_labels(row, change)
        rows.append((row, change))
        for token, label in enumerate(change.new):
            other = wanted.setdefault(row + token, (label, change))
            if other[0] != label:
                raise DataError(
                    f"{change} and {other[1]} want {label} and {other[0]} for the same token; choose one of them"
                )
    labels = list(places.labels)
    for row, (label, _) in wanted.items():
        labels[row] = label
    fixed = corpus.with_sentences(_relabelled(corpus, labels, wanted))
    labels = [label for sentence in fixed.sentences for label in sentence.labels]
    made = (_made(change, row, places, labels, wanted) for row, change in rows)
    return Fixed(fixed, tuple(change for change in made if change.given != change.new), len(asked))


def write_changes(changes: Iterable[Change], path: str | Path, *, source: Path | None = None) -> None:
    """Write a log as JSON lines, one change per line; it is as private as ``source``, the data."""
    with file_moved_when_whole(path, source=source) as stream:
        stream.writelines(f"{change.to_line()}\n".encode() for change in changes)


def read_changes(path: str | Path) -> list[Change]:
    """Read what ``write_changes`` wrote; an error names the line."""
    return [change for _, change in read_documents(path, Change, remedy="give the log of a fix")]


class _Places:
    """All tokens of the data, numbered by row, and the rows where sentences and documents begin."""

    def __init__(self, corpus: Corpus, changes: Sequence[Change]) -> None:
        self.path = corpus.path
        self.sentences = corpus.sentences
        for sentence in self.sentences:
            if not sentence.is_labelled:
                raise DataError(
                    f"{at(self.path)}: sentence {sentence.id!r} has no labels; give the data that was audited"
                )
        self.tokens = [token for sentence in self.sentences for token in sentence.tokens]
        self.labels = [label for sentence in self.sentences for label in sentence.labels]
        self.lines = [line for sentence in self.sentences for line in sentence.lines or [0] * len(sentence)]
        self.ends = {row for row, _ in _starts(self.sentences)} | {len(self.tokens)}
        names = {change.sentence for change in changes}
        self.by_sentence = _named(((s.id, row, len(s)) for row, s in _starts(self.sentences)), names)
        self.by_document = _named(_documents(self.sentences), names)
        self.is_renamed = not self.by_sentence and not self.by_document
        """Whether no name matches: a CoNLL file names its sentences after itself, so a copy has other names."""

    def find(self, change: Change) -> int:
        """The row of the first token of a change; raises unless the tokens are those of the change."""
        if self.is_renamed:
            return self._find_line(change)
        found = self.by_sentence.get(change.sentence) or self.by_document.get(change.sentence)
        if found is None:
            raise self._refusal(change, f"no sentence has the id {change.sentence!r}")
        if len(found) > 1:
            raise self._refusal(change, f"{len(found)} sentences or documents have the id {change.sentence!r}")
        row, length = found[0]
        if change.stop > length:
            raise self._refusal(change, f"the sentence has {length} tokens")
        if not self._has_tokens(row + change.start, change):
            there = " ".join(self.tokens[row + change.start : row + change.stop])
            raise self._refusal(change, f"the tokens there are {there!r}, not {' '.join(change.tokens)!r}")
        return row + change.start

    @cached_property
    def _rows_of_line(self) -> dict[int, list[int]]:
        rows: dict[int, list[int]] = {}
        for row, line in enumerate(self.lines):
            rows.setdefault(line, []).append(row)
        return rows

    def _find_line(self, change: Change) -> int:
        """The same in a copy with another name, by line and tokens."""
        rows = self._rows_of_line.get(change.line, [])
        found = [row for row in rows if self._has_tokens(row, change)]
        if len(found) > 1:  # in JSON lines, one line is a whole sentence
            found = [row for row in found if row == rows[0] + change.start]
        if len(found) == 1:
            return found[0]
        reason = f"no sentence has the id {change.sentence!r}, and line {change.line} does not have its tokens"
        raise self._refusal(change, reason)

    def _has_tokens(self, row: int, change: Change) -> bool:
        return tuple(self.tokens[row : row + len(change.tokens)]) == change.tokens

    def check_labels(self, row: int, change: Change) -> None:
        """Raise unless the data has the given labels of the change."""
        there = tuple(self.labels[row : row + len(change.given)])
        if there == change.given:
            return
        fixed = "it is already fixed" if there == change.new else "the data has changed"
        raise self._refusal(change, f"the labels there are {' '.join(there)}, not {' '.join(change.given)} ({fixed})")

    def _refusal(self, change: Change, reason: str) -> DataError:
        return DataError(f"{at(self.path)}: {change}: {reason}; give the data that was audited, or audit again")


def _starts(sentences: Sequence[Sentence]) -> Iterator[tuple[int, Sentence]]:
    """Each sentence with the row of its first token."""
    row = 0
    for sentence in sentences:
        yield row, sentence
        row += len(sentence)


def _documents(sentences: Sequence[Sentence]) -> Iterator[tuple[str, int, int]]:
    """The name, first row and length of each document as ``join_documents`` makes them."""
    row = 0
    for (_, document), group in groupby(sentences, key=lambda s: (s.path, s.document)):
        length = sum(map(len, group))
        if document:
            yield document, row, length
        row += length


def _named(places: Iterable[tuple[str, int, int]], names: set[str]) -> dict[str, list[tuple[int, int]]]:
    """First row and length of the places with one of the names, by name."""
    found: dict[str, list[tuple[int, int]]] = {}
    for name, row, length in places:
        if name in names:
            found.setdefault(name, []).append((row, length))
    return found


def _relabelled(corpus: Corpus, labels: Sequence[str], wanted: Mapping[int, tuple[str, Change]]) -> Iterator[Sentence]:
    """The sentences with these labels, repaired if they are not well formed."""
    for row, sentence in _starts(corpus.sentences):
        new = tuple(labels[row : row + len(sentence)])
        if new == sentence.labels:
            yield sentence
            continue
        try:
            yield sentence.with_labels(normalise(new, corpus.normalised_scheme))
        except LabelError as error:
            _, change = wanted[row + error.index]
            raise DataError(f"{change}: the new {error}") from None


def _made(
    change: Change, row: int, places: _Places, labels: Sequence[str], wanted: Mapping[int, tuple[str, Change]]
) -> Change:
    """The change as it was made, with the repairs in it and right after it."""
    stop = row + len(change.new)
    while stop not in places.ends and stop not in wanted and labels[stop] != places.labels[stop]:
        stop += 1
    new = tuple(labels[row:stop])
    asked = (*change.new, *places.labels[row + len(change.new) : stop])
    return replace(
        change,
        line=places.lines[row] or change.line,
        stop=change.start + stop - row,
        tokens=tuple(places.tokens[row:stop]),
        given=tuple(places.labels[row:stop]),
        new=new,
        repaired=change.repaired + sum(a != b for a, b in zip(asked, new, strict=True)),
    )
