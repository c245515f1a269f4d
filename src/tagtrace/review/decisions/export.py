"""Export the data with the decided labels, in its own format, with a log of the changes; import such a log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path

from tagtrace._checks import DataError, TagtraceError
from tagtrace._documents import parse_document, real_path
from tagtrace._files import check_not_input, check_outputs
from tagtrace._folders import Product, check_own, files_replaced_together
from tagtrace._visible import visible_message
from tagtrace.data import Corpus, write_corpus
from tagtrace.data.source_folder import DataFolder, SourceFolder
from tagtrace.findings.fix import Change, default_log, replay, write_changes
from tagtrace.review.decisions.decide import MAX_TOGETHER, DecisionRequest, Decisions
from tagtrace.review.decisions.ledger import Ledger
from tagtrace.review.training_data import SegmentKey, TrainingData, shares_token

LOG = "changes.jsonl"
NUM_REASONS = 10
"""Maximum number of reasons for skipped changes that an import reports."""
PART = 200
"""Number of sentences that are looked at in one go while others wait."""


@dataclass(frozen=True)
class Exported:
    """The files of an export."""

    data: Path
    log: Path
    num_changed: int
    """Number of labels in the data that were changed."""
    num_conflicts: int


def export_paths(corpus: Corpus, folder: Path) -> tuple[Path, Path]:
    """Where an export writes the data and the log, whose name is longer if the data has it already."""
    data = folder / (real_path(corpus.path) if corpus.path.is_dir() else corpus.path).name
    return data, default_log(data) if data.name.casefold() == LOG else folder / LOG


def export(decisions: Decisions, folder: Path) -> Exported:
    """Write the data with the decided labels, and the log of changes, to ``folder``. All other bytes stay the same.

    Both (data may be a folder) are replaced at once; other files in the folder stay. A folder that is a link, or that
    has files but no log of an export, is refused.

    If decisions overlap, the last one counts. If a decision cuts off the beginning of a segment, the rest becomes a
    segment of its own.
    """
    with decisions.reading() as ledger:
        changes, num_conflicts = list(decided_changes(ledger)), ledger.num_conflicts()
    corpus = decisions.data.corpus
    fixed = replay(corpus, changes)
    data, log = export_paths(corpus, folder)
    product = _check_places(corpus, data, log)
    check_own(folder, (LOG, log.name))
    with files_replaced_together(folder, product) as aside:
        num_changed = write_corpus(fixed.corpus, aside / data.name)
        write_changes(fixed.changes, aside / log.name, source=corpus.path)
    return Exported(data, log, num_changed, num_conflicts)


def _check_places(corpus: Corpus, data: Path, log: Path) -> Product:
    """The files that an export replaces; raises if it may not."""
    inputs = {"the data to correct": corpus.path}
    if not corpus.path.is_dir():
        check_outputs({"the exported data": data, "the log": log}, inputs, overwrite=True)
        return Product(log.name, (escape(data.name), escape(log.name)))
    check_outputs({"the log": log}, inputs, overwrite=True, folders={"the exported data": data})
    check_not_input("the exported data", data, inputs)
    return DataFolder.of([log.name, *(f"{data.name}/{name}" for name in SourceFolder(corpus.path).names)], log.name)


def decided_changes(ledger: Ledger) -> Iterator[Change]:
    """The decisions as changes that do not overlap; the rank of a change is 0 if it does not come from a finding."""
    for number in ledger.decided_sentences():
        sentence, whole = ledger.data.sentences[number], ledger.whole(number)
        wanted = {
            t: (label, row)
            for t, (label, row) in ledger.wanted(number).items()
            if label != sentence.labels[t] or ledger.place_of(row) != whole  # a checked sentence is not one big change
        }
        for start, stop in _runs({t: row.id for t, (_, row) in wanted.items()}):
            yield Change(
                rank=wanted[start][1].rank or 0,
                sentence=sentence.id,
                line=sentence.lines[start] if sentence.lines else 0,
                start=start,
                stop=stop,
                tokens=sentence.tokens[start:stop],
                given=sentence.labels[start:stop],
                new=tuple(wanted[t][0] for t in range(start, stop)),
            )


def _runs(owners: Mapping[int, int]) -> list[tuple[int, int]]:
    """The segments of neighbouring tokens that have the same owner, as (start, stop).

    >>> _runs({3: 1, 4: 1, 5: 2, 7: 2})
    [(3, 5), (5, 6), (7, 8)]
    """
    found: list[tuple[int, int]] = []
    for t in sorted(owners):
        if found and found[-1][1] == t and owners[t - 1] == owners[t]:
            found[-1] = (found[-1][0], t + 1)
        else:
            found.append((t, t + 1))
    return found


@dataclass
class Imported:
    """The number of changes that an import made and skipped, and the first reasons for skipping."""

    num_imported: int = 0
    num_skipped: int = 0
    reasons: list[str] = field(default_factory=list[str])

    def skip(self, reason: str) -> None:
        self.num_skipped += 1
        if len(self.reasons) < NUM_REASONS:
            self.reasons.append(visible_message(reason))


def import_log(decisions: Decisions, reviewer: str, text: str) -> Imported:
    """Make the changes of a log as decisions, together; changes that are already decided are skipped."""
    found, requests = Imported(), list[DecisionRequest]()
    changes = list(_read(text))
    places = _SentenceFinder(decisions.data, changes)
    placed = [(number, change, places.find(change)) for number, change in changes]
    wanted = _wanted_labels(decisions, {place[0] for _, _, place in placed if not isinstance(place, str)})
    for number, change, place in placed:
        if isinstance(place, str):
            found.skip(f"line {number}: {place}")
        elif tuple(map(wanted[place[0]].get, range(*place[1:]))) == change.new:
            found.skip(f"line {number}: already decided")
        else:
            requests.append(_request(decisions.data, change, place))
    if requests:
        found.num_imported = len(decisions.decide(reviewer, requests))
    return found


def _wanted_labels(decisions: Decisions, numbers: Iterable[int]) -> dict[int, dict[int, str]]:
    """The decided labels of sentences, by token."""
    found, rest = dict[int, dict[int, str]](), sorted(numbers)
    for first in range(0, len(rest), PART):
        with decisions.reading() as ledger:
            for number in rest[first : first + PART]:
                found[number] = {t: label for t, (label, _) in ledger.wanted(number).items()}
    return found


def _request(data: TrainingData, change: Change, segment: SegmentKey) -> DecisionRequest:
    """The change as a decision on the finding of its rank, if that is in the same tokens, or on its segment."""
    own = data.by_rank.get(change.rank)
    own = own if own is not None and shares_token(own, segment) else None
    rank = data.rank_at.get(segment) if own is None else own.rank
    is_accepted = own is not None and (own.start, own.stop, own.proposed) == (*segment[1:], change.new)
    return DecisionRequest("accept" if is_accepted else "relabel", *segment, rank, change.new)


def _read(text: str) -> Iterator[tuple[int, Change]]:
    num_read = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        if (num_read := num_read + 1) > MAX_TOGETHER:
            raise DataError(f"the log has more than {MAX_TOGETHER:,} changes; import it in parts")
        try:
            yield number, parse_document(line, Change)
        except TagtraceError:
            raise DataError(
                f"line {number} of the log is not a change; give a log that a review exported or a fix wrote"
            ) from None


class _SentenceFinder:
    """Finds the sentences of changes by id or, if the data has none of the ids (a renamed copy), by line and tokens."""

    def __init__(self, data: TrainingData, changes: list[tuple[int, Change]]) -> None:
        self.data, self.known = data, frozenset(data.labels.labels)
        self.by_line: dict[int, tuple[int, int]] = {}
        if not any(change.sentence in data.number_of for _, change in changes):
            for number, sentence in enumerate(data.sentences):
                for place, line in enumerate(sentence.lines):
                    self.by_line.setdefault(line, (number, place))

    def find(self, change: Change) -> SegmentKey | str:
        """The tokens that a change is about; if the data is different there, or has no such labels, the reason."""
        number, shift = self.data.number_of.get(change.sentence), 0
        if number is None:
            number, place = self.by_line.get(change.line, (None, 0))
            if number is None:
                return f"no sentence has the id {change.sentence!r}"
            lines = self.data.sentences[number].lines
            is_whole_line = lines[0] == lines[-1]  # in JSON lines, one line is a whole sentence
            shift = 0 if is_whole_line else place - change.start
        sentence, inside = self.data.sentences[number], slice(change.start + shift, change.stop + shift)
        if inside.start < 0 or sentence.tokens[inside] != change.tokens:
            return f"{change}: the data has different tokens there"
        if sentence.labels[inside] != change.given:
            return f"{change}: the data has different labels there"
        if unknown := set(change.new) - self.known:
            return f"the tagger has no label {min(unknown)!r}"
        return number, inside.start, inside.stop
