"""Open a project: load everything that the page needs."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from tagtrace._checks import DataError, NoLabelsError, TagtraceError, check_type
from tagtrace._documents import real_path
from tagtrace.data import Corpus, Sentence, join_documents, read_corpus
from tagtrace.findings import Audit, Change, Decided, Finding, Taught, finding_features, teach
from tagtrace.findings.teaching.teach import first_tokens
from tagtrace.index import Index, open_index
from tagtrace.index.fingerprints import content_fingerprint
from tagtrace.review.decisions.database import Store
from tagtrace.review.decisions.decide import Decisions
from tagtrace.review.decisions.export import decided_changes
from tagtrace.review.model.jobs import Jobs
from tagtrace.review.model.mispredictions import HeldOut
from tagtrace.review.model.model import Model
from tagtrace.review.model.teaching import Known, Teaching, read_known
from tagtrace.review.project import ProjectFile, read_project_file
from tagtrace.review.training_data import TrainingData
from tagtrace.tagger import Tagger


@dataclass
class Review:
    """An open project, which the routes of the web server use."""

    name: str
    reviewer: str
    """The reviewer of requests that do not name one."""
    decisions: Decisions
    export: Path
    """The folder that exports are written to."""
    model: Model | None = None
    note: str | None = None
    """What could not be loaded, and why."""
    jobs: Jobs = field(default_factory=Jobs)
    teaching: Teaching = field(init=False)

    def __post_init__(self) -> None:
        self.teaching = Teaching(self.decisions, self.jobs, None if self.model is None else self.model.index)

    @property
    def data(self) -> TrainingData:
        return self.decisions.data

    @property
    def fingerprint(self) -> str:
        """Of the folder, the data and the findings: decisions of a page with another one do not belong here."""
        store = self.decisions.store
        parts = str(real_path(store.path)), content_fingerprint(self.data.corpus), self.data.audit
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]

    @property
    def held(self) -> HeldOut | None:
        return None if self.model is None else self.model.held

    def the_model(self) -> Model:
        if self.model is None:
            raise TagtraceError("this project has no index, so predictions cannot be explained; open it with an index")
        return self.model

    @property
    def is_busy(self) -> bool:
        """Whether a computation is running that cannot be stopped."""
        return self.jobs.is_busy or (self.model is not None and self.model.is_busy)

    def close(self) -> None:
        if self.model is not None:
            self.model.stop()
        self.jobs.close()
        self.decisions.store.close()


def open_review(
    file: ProjectFile,
    reviewer: str,
    tagger: Tagger | None = None,
    say: Callable[[str], None] = lambda _: None,
    device: str = "cpu",
) -> Review:
    """Open a project's index, data and audit, and start to predict its held-out data in the background.

    ``tagger`` is the index's own tagger, if the caller has it in memory. ``say`` is called with each step.
    """
    say("opening the index")
    index = open_index(file.index, verify=True, tagger=file.tagger)
    if tagger is not None:
        index.check_tagger(tagger)
        index.built_with(tagger)
    tagger = index.tagger()
    say("reading the data")
    data = _training_data(file, index)
    held, note = _held(file, tagger)
    data.prepare()
    file.folder.mkdir(parents=True, exist_ok=True)  # a new project gets its folder once all its parts could be opened
    decisions = _read_decisions(data, Store(file.decisions))
    model = Model(index, tagger, decisions, held, device)
    model.start()
    return Review(file.name, reviewer, decisions, file.export, model, note)


def read_decided(folder: str | Path) -> Decided:
    """The labels that were decided on in a project, for ``teach`` and ``choose_auto``.

    Accepted and relabelled tokens have their chosen labels, rejected ones their given labels; skipped ones are unknown.
    """
    with _opened(folder) as (decisions, _):
        return _read(decisions)[1].decided


def decided_sentences(folder: str | Path, corpus: Corpus) -> list[Sentence]:
    """The sentences of ``corpus`` with the labels decided on in a project; all other labels are HIDDEN.

    They are the trusted sentences of ``train`` and ``gain``. ``corpus`` is the project's training data, or a copy in
    which labels were fixed. Raises DataError if it is not.
    """
    check_type("corpus", corpus, Corpus, "give read_corpus(path)")
    with _opened(folder) as (decisions, index):
        decided, theirs = _read(decisions)[1].decided, decisions.data.sentences
    if corpus.normalised_scheme != index.labels.scheme:
        raise DataError(
            f"{corpus.path}: its labels are not of the kind that was reviewed in {folder} ({index.labels.scheme}); "
            "give that data, or a copy in which only labels differ"
        )
    ours = join_documents(corpus.sentences) if index.manifest.unit == "document" else list(corpus.sentences)
    if [one.tokens for one in ours] != [one.tokens for one in theirs]:
        raise DataError(
            f"{corpus.path}: its tokens are not those of the training data that was reviewed in {folder}; give that "
            "data, or a copy in which only labels differ"
        )
    return decided.sentences(ours, corpus.normalised_scheme)


def teach_by_review(folder: str | Path, findings: Sequence[Finding]) -> tuple[list[Change], Taught]:
    """The changes that an export of a project would make, and what its decisions teach about ``findings``.

    Findings that were skipped count as touched. Raises DataError if a finding is not about the project's data.
    """
    with _opened(folder) as (decisions, index):
        data = decisions.data
        for one in findings:
            data.check(one)
        changes, known = _read(decisions)
        skipped = {(one.sentence_number, one.start, one.stop) for one in map(data.by_rank.get, known.skipped) if one}
        taught = teach(findings, known.decided, first_tokens(data.sentences), finding_features(index, findings))
    is_skipped = torch.tensor([(one.sentence_number, one.start, one.stop) in skipped for one in findings]).bool()
    return changes, replace(taught, is_touched=taught.is_touched | is_skipped)


def _read(decisions: Decisions) -> tuple[list[Change], Known]:
    """What was decided; raises DataError if the database cannot be read or does not fit the data."""
    data, path = decisions.data, decisions.store.path
    for number, problem in decisions.unreadable.items():
        raise _unreadable(path, f"decision {number}: {problem}")
    try:
        with decisions.reading() as ledger:
            changes = list(decided_changes(ledger))
        known = read_known(decisions)
        data.labels.encode(tuple(known.decided.labels.values()))
    except (sqlite3.Error, ValueError, IndexError, KeyError, TypeError, AttributeError, TagtraceError) as error:
        raise _unreadable(path, error) from None
    if any(number < 0 for number, _ in known.decided.labels):
        raise _unreadable(path, "a decision is about a sentence that does not exist")
    return changes, known


def _unreadable(path: Path, problem: object) -> DataError:
    return DataError(
        f"{path}: the decisions cannot be read ({problem}); close other programs that use it, or restore it"
    )


@contextmanager
def _opened(folder: str | Path) -> Iterator[tuple[Decisions, Index]]:
    """The decisions of a project, which may be none, and its index."""
    file = read_project_file(folder)
    index = open_index(file.index, tagger=file.tagger)
    data = _training_data(file, index)
    with closing(Store(file.decisions, read_only=True)) as store:
        yield _read_decisions(data, store), index


def _read_decisions(data: TrainingData, store: Store) -> Decisions:
    """The decisions in a database; raises DataError, and closes it, if they cannot be read."""
    try:
        decisions = Decisions(data, store)
        with decisions.reading():
            return decisions
    except (sqlite3.Error, ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        store.close()
        raise _unreadable(store.path, error) from None


def _training_data(file: ProjectFile, index: Index) -> TrainingData:
    corpus = read_corpus(file.data, file.reading)
    index.check_corpus(corpus)
    audit = Audit([], [], {}) if file.audit is None else Audit.load(file.audit)
    return TrainingData(corpus, index.labels, index.manifest.unit, audit.findings, audit.patterns, audit.fingerprint)


def _held(file: ProjectFile, tagger: Tagger) -> tuple[HeldOut | None, str | None]:
    """The held-out data; if it cannot be used, None and the reason."""
    if file.dev is None:
        return None, None
    try:
        return HeldOut(tagger, read_corpus(file.dev, file.reading)), None
    except NoLabelsError:
        return None, f"{file.dev.name} has no labels, so there are no mispredictions to show"
    except DataError as error:
        return None, str(error)
