"""Audit: the training labels that are probably wrong, and the systematic mistakes behind them.

``run_audit`` asks judges (``judges``) about every training label, ranks the labels, proposes others, groups the
findings into patterns (``assess``) and gives back an ``Audit``, which saves itself as a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from tagtrace._checks import OptionError, check_type
from tagtrace._progress import Progress
from tagtrace._table import Table, Tabular
from tagtrace.data.corpus import Corpus, read_corpus
from tagtrace.data.sentence import Sentence
from tagtrace.findings.assess import Assessment, assess, check_request
from tagtrace.findings.audit_folder import (
    AuditFiles,
    AuditRecord,
    check_audit_folder,
    read_audit_files,
    write_audit_files,
)
from tagtrace.findings.finding import Finding
from tagtrace.findings.judges.opinions import encoder_opinions, head_opinions
from tagtrace.findings.judges.probabilities import Probabilities
from tagtrace.findings.options import AuditOptions
from tagtrace.findings.patterns.pattern import Pattern
from tagtrace.findings.ranking.evidence import hurt_lines
from tagtrace.findings.ranking.levels import at_level
from tagtrace.findings.ranking.trusted import Trusted, read_trusted
from tagtrace.findings.ranking.truth import Measured, finding_is_wrong, measure, read_truth
from tagtrace.index import Index
from tagtrace.tagger import Lexical, Step, Tagger, build_encoder, pick_device

NUM_SHOWN = 10
"""Maximum number of patterns, and of findings, that are printed."""
NUM_JUDGED = 200
"""Number of findings, from the first, that are compared with the truth."""
MIN_REPEATED = 5
"""Minimum number of tokens of a sentence that counts as repeated; shorter ones repeat by chance."""
_JUDGES = {"head": "refitted heads", "encoder": "taggers trained again"}


@dataclass(frozen=True)
class Audit(Tabular):
    """The findings and patterns of an audit; ``save`` writes them to a folder, ``load`` reads them again."""

    findings: list[Finding]
    """By rank, the most suspicious first."""
    patterns: list[Pattern]
    """The most systematic first."""
    summary: dict[str, str | int | float]
    """Facts by name, as in the report."""
    options: AuditOptions = field(default_factory=AuditOptions)
    notes: list[str] = field(default_factory=list[str])
    """What the reader should know: what could not be computed, which sentences are shared or repeated."""
    truth: list[Measured] = field(default_factory=list[Measured])
    """How well the ranking finds the labels that are really wrong, if the truth was given."""
    num_right: int | None = None
    """Number of the first 200 findings that are about a label that is really wrong, if the truth was given."""
    documents: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    """Documents by the mean score of their tokens, the most suspicious first."""
    evidence: dict[int, list[str]] = field(default_factory=dict[int, list[str]], compare=False)
    """By rank of a finding, the trusted labels that it hurts; not saved except in the report."""
    scores: Tensor | None = field(default=None, repr=False, compare=False)
    """The score of every training token, (N,); not saved."""
    index: str = ""
    """Folder of the index."""
    fingerprint: str = field(default="", compare=False)
    """Checksum of the saved findings; empty unless the audit was loaded."""

    def save(self, folder: str | Path) -> None:
        """Write findings (JSON lines and CSV), patterns, documents, the HTML report and ``audit.json`` to a folder."""
        check_audit_folder(Path(folder))
        scores = torch.zeros(0) if self.scores is None else self.scores
        truth = [one.to_record() for one in self.truth]
        record = AuditRecord(self.options, self.summary, self.notes, truth, self.num_right, self.index)
        files = AuditFiles(self.findings, self.patterns, record, self.documents)
        write_audit_files(Path(folder), files, scores, self.truth, self.evidence)

    @classmethod
    def load(cls, folder: str | Path) -> Audit:
        """Read what ``save`` wrote; scores and evidence are not saved."""
        files = read_audit_files(Path(folder))
        record = files.record
        return cls(
            findings=files.findings,
            patterns=files.patterns,
            summary=record.summary,
            options=record.options,
            notes=record.notes,
            truth=[Measured.from_record(one) for one in record.truth],
            num_right=record.num_right,
            documents=files.documents,
            index=record.index,
            fingerprint=files.fingerprint,
        )

    @property
    def likely(self) -> list[Finding]:
        """The findings whose proposed labels are likelier than not."""
        return [one for one in self.findings if one.is_likely]

    def describe(self) -> list[str | Table]:
        found: list[str | Table] = []
        if self.patterns:
            rows = tuple((str(one.number), one.description, one.effect_line) for one in self.patterns[:NUM_SHOWN])
            title = "patterns, the most systematic first"
            found.append(Table(title, ("", "pattern", "trusted loss if fixed"), rows))
        else:
            found.append("No systematic pattern was found.")
        if len(self.patterns) > NUM_SHOWN:
            found.append(f"{len(self.patterns) - NUM_SHOWN} more patterns are not shown.")
        if self.findings:
            found.append(self._findings_table())
        total = int(self.summary.get("training tokens", 0))
        found.append(
            f"{len(self.findings):,} findings among {total:,} labels; for {len(self.likely):,} of them the proposed "
            "labels are likelier than not"
        )
        return [*found, *self._truth_lines(), *(f"note: {note}" for note in self.notes)]

    def _findings_table(self) -> Table:
        rows = tuple(
            (
                str(one.rank),
                " ".join((*one.before[-5:], f"[{one.text}]", *one.after[:5])),
                " ".join(one.given),
                " ".join(one.proposed),
                f"{one.confidence:.2f}",
            )
            for one in self.findings[:NUM_SHOWN]
        )
        return Table("findings, the most suspicious first", ("", "text", "given", "proposed", "p"), rows, ("p",))

    def _truth_lines(self) -> list[str]:
        lines: list[str] = []
        for one in self.truth:
            if one.num_wrong == 0:
                return ["The true labels are the same: there is nothing to find."]
            recall = ", ".join(f"{100 * value:.0f} % in the first {k:,}" for k, value in one.recall.items())
            lines.append(
                f"{one.num_wrong:,} labels are really wrong: average precision {one.average_precision:.3f}; found "
                f"{recall}"
            )
        if self.num_right is not None:
            num_first = min(len(self.findings), NUM_JUDGED)
            lines.append(f"of the first {num_first} findings, {self.num_right} are about a wrong label")
        return lines

    def to_records(self) -> list[dict[str, Any]]:
        """One record for each finding."""
        return [one.to_record() for one in self.findings]


AuditProgress = Callable[[str, int, int], None]
"""Called with (what is being done, done, total)."""
TrainingProgress = Callable[[str, Step], None]
"""Called with (name of the training run, step) after each training step."""


def run_audit(
    index: Index,
    trusted: Corpus | Sequence[Sentence] | None = None,
    options: AuditOptions | None = None,
    *,
    truth: Corpus | None = None,
    corpus: Corpus | str | Path | None = None,
    tagger: str | Path | None = None,
    work: str | Path | None = None,
    device: str | torch.device = "auto",
    progress: AuditProgress | None = None,
    training: TrainingProgress | None = None,
) -> Audit:
    """Find the training labels of an index that are probably wrong, and the systematic mistakes behind them.

    ``trusted`` is a little data with correct labels, not part of the training data; without it, systematic mistakes
    stay hidden. ``truth`` is the training data with its true labels, to measure what is found; it does not
    change the ranking. ``corpus`` is the training data or its file (default: where it was), ``tagger`` the folder
    of the index's tagger (default: where it was). Finished folds are kept in the folder ``work``, so that an
    interrupted audit resumes when it is called again with the same arguments.
    """
    options = options or AuditOptions()
    check_type("index", index, Index, "give open_index(folder)")
    if truth is not None:
        check_type("truth", truth, Corpus, "give read_corpus(path)")
    if corpus is not None and options.judges == "head":
        raise OptionError("the training data is only used by taggers that are trained again; choose judges='encoder'")
    trained = index.trained_tagger(tagger).to(pick_device(device))
    sentences = _trusted_sentences(trained, trusted)
    true = None if truth is None else read_truth(index, truth)
    shared = shared_sentences(index, trained.joined(sentences))
    known = None
    if sentences:
        known = read_trusted(index, trained, sentences, _counting(progress, "encoding the trusted data"))
    check_request(index, known, options)
    judges = pick_judges(trained, options)
    if judges == "head":
        opinions = _head_opinions(index, trained, known, options, _counting(progress, "refitting heads"))
    else:
        corpus = corpus if isinstance(corpus, Corpus) else _training_corpus(index, corpus)
        opinions = _encoder_opinions(index, trained, corpus, sentences, options, work, training)
    found = assess(index, opinions, known, options, _counting(progress, "ranking the labels"))
    notes = [*shared, *found.notes]
    joined = [sentence for sentence in trained.joined(sentences) if len(sentence)]
    measured = [] if true is None else [measure(options.score, _finite(found.scores), true.wrong)]
    right = None if true is None else finding_is_wrong(found.findings[:NUM_JUDGED], index, true).is_wrong
    return Audit(
        findings=found.findings,
        patterns=found.patterns,
        summary=_summary(index, sentences, found, options, judges, notes),
        options=options,
        notes=notes,
        truth=measured,
        num_right=None if right is None else int(right.sum()),
        documents=_documents(index, found.scores),
        evidence=hurt_lines(index, found.hurt, joined),
        scores=found.scores,
        index=str(index.folder),
    )


def _counting(progress: AuditProgress | None, what: str) -> Progress | None:
    return None if progress is None else lambda done, total: progress(what, done, total)


def _trusted_sentences(tagger: Tagger, trusted: Corpus | Sequence[Sentence] | str | Path | None) -> list[Sentence]:
    if isinstance(trusted, Corpus):
        tagger.check_corpus(trusted)
        trusted = trusted.sentences
    if isinstance(trusted, str | Path):
        raise OptionError(f"trusted is the path {trusted}; give read_corpus({str(trusted)!r})")
    return [sentence for sentence in trusted or () if len(sentence)]


def shared_sentences(index: Index, sentences: Sequence[Sentence]) -> list[str]:
    """Notes on trusted sentences that are also training sentences, and on training sentences that are repeated.

    Raises OptionError if all trusted sentences are training sentences.
    """
    trusted = {hash(sentence.tokens) for sentence in sentences if len(sentence) >= MIN_REPEATED}
    texts = [hash(one.tokens) for one in map(index.sentence, range(index.num_sentences)) if len(one) >= MIN_REPEATED]
    num_shared, num_repeated = sum(text in trusted for text in texts), len(texts) - len(set(texts))
    if trusted and trusted <= set(texts):
        raise OptionError("all trusted sentences are in the training data; give data that the tagger has not seen")
    notes: list[str] = []
    if num_shared:
        notes.append(
            f"{num_shared:,} training sentences are also in the trusted data; their labels are judged by taggers that "
            "have seen the trusted ones"
        )
    if num_repeated:
        notes.append(
            f"{num_repeated:,} training sentences repeat others; if these are in different documents, a judge may have "
            "seen a wrong label out of sample too"
        )
    return notes


def pick_judges(tagger: Tagger, options: AuditOptions) -> str:
    """The judges of an audit, with ``auto`` resolved to ``head`` or ``encoder``."""
    if options.judges != "auto":
        return options.judges
    if options.encoder is not None:
        return "encoder"
    can_train = tagger.encoder.trainable and "training" in tagger.record
    is_quick = isinstance(tagger.encoder, Lexical) or tagger.device.type != "cpu"
    return "encoder" if can_train and is_quick else "head"


def _head_opinions(
    index: Index, tagger: Tagger, trusted: Trusted | None, options: AuditOptions, progress: Progress | None
) -> list[Probabilities]:
    rows = None if trusted is None else trusted.rows
    return head_opinions(index, rows, options.num_folds, options.seed, device=tagger.device, progress=progress)


def _encoder_opinions(
    index: Index,
    tagger: Tagger,
    corpus: Corpus,
    trusted: Sequence[Sentence],
    options: AuditOptions,
    work: str | Path | None,
    training: TrainingProgress | None,
) -> list[Probabilities]:
    index.check_corpus(corpus)
    encoder = None if options.encoder is None else build_encoder(options.encoder, corpus.sentences, options.seed)
    with TemporaryDirectory() as temporary:
        folder = work or Path(temporary) / "folds"
        return encoder_opinions(
            tagger, corpus, folder, trusted, options.num_folds, options.seed, encoder=encoder,
            training=None if training is None else lambda fold, step: training(_run_name(fold, options), step),
        )  # fmt: skip


def _run_name(fold: int, options: AuditOptions) -> str:
    if fold == options.num_folds:
        return "the tagger itself, further on the trusted data"
    return f"fold {fold + 1} of {options.num_folds}"


def _training_corpus(index: Index, path: str | Path | None) -> Corpus:
    """The training data, read again as it was when the index was built."""
    return read_corpus(path or index.data_path(), index.manifest.data.options)


def _finite(scores: Tensor) -> Tensor:
    """Scores (N,) in which tokens that a query rules out rank last."""
    kept = scores > -torch.inf
    lowest = float(scores[kept].min()) if bool(kept.any()) else 0.0
    return torch.where(kept, scores, lowest - 1.0)


def _documents(index: Index, scores: Tensor) -> list[tuple[str, float]]:
    """Documents by the mean score of their tokens; tokens that a query rules out count with the lowest score."""
    if not any(index.documents):
        return []
    finite = scores[scores > -torch.inf]
    scores = scores.clamp(min=float(finite.min()) if len(finite) else 0.0)
    return at_level(index, scores, "document").ranked()


def _summary(
    index: Index,
    sentences: Sequence[Sentence],
    found: Assessment,
    options: AuditOptions,
    judges: str,
    notes: Sequence[str],
) -> dict[str, str | int | float]:
    """The facts at the beginning of the report."""
    return {
        "training tokens": index.num_tokens,
        "training sentences": index.num_sentences,
        "trusted tokens": sum(len(sentence) for sentence in sentences),
        "score": options.score if options.query is None else f"{options.score}, query {options.query}",
        "judges": _JUDGES[judges],
        "findings": len(found.findings),
        "findings with a proposal above 50 %": sum(one.is_likely for one in found.findings),
        "patterns": len(found.patterns),
        **({"notes": "; ".join(notes)} if notes else {}),
    }
