"""Building an index: encode, refit, compute the errors. A build that was interrupted resumes where it stopped."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path

from tagtrace._checks import DataError, TrainingError, at, check_type
from tagtrace._documents import real_path
from tagtrace._folders import check_replaceable
from tagtrace._progress import Progress
from tagtrace._version import __version__
from tagtrace.data.corpus import Corpus
from tagtrace.data.labels import LabelSet
from tagtrace.data.sentence import Sentence
from tagtrace.index.conditional_errors import token_errors
from tagtrace.index.files import IndexFolderError
from tagtrace.index.fingerprints import describe_corpus, describe_tagger
from tagtrace.index.index import Index, open_index, read_head
from tagtrace.index.manifest import FORMAT, HEAD, PRODUCT, DataRecord, FitRecord, Manifest, ShardRecord, TaggerRecord
from tagtrace.index.options import DTYPES, IndexOptions, estimate_size
from tagtrace.index.shards import (
    errors_name,
    plan_shards,
    read_rows,
    shard_files,
    shard_name,
    shard_tensors,
    text_name,
)
from tagtrace.index.text import text_tensors
from tagtrace.index.unfinished import Unfinished
from tagtrace.tagger.convex.memory import give_back
from tagtrace.tagger.convex.objective import Objective
from tagtrace.tagger.convex.refit import RefitProgress, Refitted, refit_head
from tagtrace.tagger.rows import RowParts, Rows
from tagtrace.tagger.tagger import Tagger


def build_index(
    tagger: Tagger,
    corpus: Corpus,
    folder: str | Path,
    options: IndexOptions | None = None,
    progress: Progress | None = None,
    *,
    refit_progress: RefitProgress | None = None,
    tagger_path: str | Path | None = None,
    overwrite: bool = False,
    restart: bool = False,
) -> Index:
    """Encode the training data once and store its features, errors and head as ``folder``.

    The tagger is not changed; ``tagger_path`` is where it is saved (default: where it was saved or loaded). The head of
    the index is refit on the stored, rounded features unless ``options`` say otherwise. An interrupted build resumes
    when it is called again with the same arguments; ``restart`` begins again instead. ``overwrite`` replaces an older
    index once the new one is complete.
    """
    options = options or IndexOptions()
    check_type("corpus", corpus, Corpus, "give read_corpus(path)")
    if not options.refit:
        tagger.check_fitted()
    tagger_path = tagger_path or tagger.folder
    inputs: dict[str, str | Path] = {"the training data": corpus.path}
    if tagger_path is not None:
        inputs["the tagger"] = tagger_path
    check_replaceable(folder, overwrite=overwrite, product=PRODUCT, inputs=inputs)
    sentences = _training_sentences(tagger, corpus)
    tagger_info = describe_tagger(tagger, tagger_path, Path(folder))
    data_info = describe_corpus(corpus, Path(folder))
    owner = {
        "tagger": tagger_info.fingerprint,
        "data": [data_info.fingerprint, data_info.content],
        **options.to_json(),
        "format": FORMAT,
    }
    unfinished = Unfinished(folder, owner, restart=restart)
    check_space(
        folder,
        estimate_size(corpus.num_tokens, tagger.encoder.dim, len(tagger.labels), options.dtype),
        unfinished.num_bytes,
    )
    with unfinished.kept_if_useful():
        build = _Build(tagger, sentences, options, unfinished)
        build.encode(progress)
        fit = build.fit_head(refit_progress)
        build.compute_errors()
        unfinished.finish(build.manifest(fit, tagger_info, data_info).to_json())
    give_back()
    return open_index(folder).built_with(tagger)


def check_space(folder: str | Path, num_bytes: int, num_written: int = 0) -> None:
    """Raise if the disk has too little space for an index of ``num_bytes``, of which some are already written."""
    parent = next(parent for parent in real_path(folder).parents if parent.is_dir())
    free, needed = shutil.disk_usage(parent).free, num_bytes - num_written
    if free < needed:
        raise IndexFolderError(
            f"{folder}: needs about {needed / 1e6:,.0f} MB, but {parent} has {free / 1e6:,.0f} MB free; "
            "free some space or choose another disk"
        )


def _training_sentences(tagger: Tagger, corpus: Corpus) -> list[Sentence]:
    tagger.check_scheme(corpus)
    tagger.encoder.check_corpus(corpus)
    sentences = tagger.labelled(corpus.sentences, "training")
    if tagger.head.options.constrained:
        _check_allowed(tagger.labels, sentences)
    return sentences


def _check_allowed(labels: LabelSet, sentences: Sequence[Sentence]) -> None:
    """Raise if a label cannot follow the one before it: a constrained head gives it no probability."""
    start, transitions = labels.forbidden_start(), labels.forbidden_transitions()
    for sentence in sentences:
        ids = labels.encode(sentence.labels)
        for place, label in enumerate(ids):
            if transitions[ids[place - 1], label] if place else start[label]:
                where = at(sentence.path or sentence.id, sentence.lines[place] if place < len(sentence.lines) else None)
                raise DataError(f"{where}: {sentence.labels[place]} is forbidden here by the tagger's head; change it")


class _Build:
    """The steps of one build; those that ``unfinished`` already has are skipped."""

    def __init__(
        self, tagger: Tagger, sentences: Sequence[Sentence], options: IndexOptions, unfinished: Unfinished
    ) -> None:
        self.tagger, self.sentences, self.options, self.unfinished = tagger, sentences, options, unfinished
        self.plan = plan_shards([len(sentence) for sentence in sentences], options.shard_tokens)

    def encode(self, progress: Progress | None) -> None:
        """Features and text, shard by shard."""
        for number, members in enumerate(self.plan):
            if not self.unfinished.has(shard_name(number), text_name(number)):
                self._encode_shard(number, members, progress)

    def _encode_shard(self, number: int, members: range, progress: Progress | None) -> None:
        sentences = self.sentences[members.start : members.stop]
        rows = self.tagger.rows(sentences, progress=self._shifted(progress, members.start))
        tensors = shard_tensors(rows, DTYPES[self.options.dtype], len(self.tagger.labels))
        self.unfinished.add({shard_name(number): tensors, text_name(number): text_tensors(sentences)})

    def _shifted(self, progress: Progress | None, first_sentence: int) -> Progress | None:
        """Progress within a shard as progress of the whole build."""
        if progress is None:
            return None
        return lambda done, _: progress(first_sentence + done, len(self.sentences))

    def fit_head(self, progress: RefitProgress | None) -> FitRecord:
        """The head that belongs to the stored features, in float64."""
        if not self.unfinished.has(HEAD):
            fitted = self._fit(progress)
            if not (isfinite(fitted.objective) and isfinite(fitted.max_gradient)):
                raise TrainingError("the head has no finite loss on the training data; train the tagger again")
            record = FitRecord(
                self.options.refit, self.options.l2, fitted.objective, fitted.max_gradient, fitted.num_steps
            )
            self.unfinished.add({HEAD: fitted.head.state_dict()}, fit=asdict(record))
        return self.unfinished.note("fit", FitRecord)

    def _fit(self, progress: RefitProgress | None) -> Refitted:
        rows = RowParts(tuple(self._rows(number) for number in range(len(self.plan)))).to(self.tagger.device)
        if self.options.refit:
            return refit_head(self.tagger.head, rows, self.options.refit_options(), progress)
        objective = Objective(self.tagger.head, rows, self.options.l2)
        found = objective.evaluate(objective.head.flat())
        return Refitted(objective.head, found.value, found.max_gradient, 0)

    def compute_errors(self) -> None:
        """The conditional errors at the stored head, shard by shard."""
        tagger = self.tagger
        head = read_head(self.unfinished.folder, tagger.encoder.dim, tagger.labels, tagger.head.options)
        for number in range(len(self.plan)):
            if not self.unfinished.has(errors_name(number)):
                errors = token_errors(head, self._rows(number)).float()  # (n, C)
                self.unfinished.add({errors_name(number): {"errors": errors}})

    def _rows(self, number: int) -> Rows:
        rows = read_rows(self.unfinished.folder, number, len(self.tagger.labels))
        lengths = [len(self.sentences[each]) for each in self.plan[number]]
        is_of_this_build = (
            rows.features.shape[1] == self.tagger.encoder.dim
            and rows.features.dtype == DTYPES[self.options.dtype]
            and rows.lengths.tolist() == lengths
        )
        if not is_of_this_build:
            raise IndexFolderError(
                f"{self.unfinished.folder / shard_name(number)}: not a shard of this tagger and data; "
                "restart to begin again"
            )
        return rows

    def manifest(self, fit: FitRecord, tagger_info: TaggerRecord, data_info: DataRecord) -> Manifest:
        files = self.unfinished.files
        shards = tuple(
            ShardRecord(
                num_sentences=len(members),
                num_tokens=sum(len(self.sentences[sentence_number]) for sentence_number in members),
                files=tuple(files[name] for name in shard_files(number)),
            )
            for number, members in enumerate(self.plan)
        )
        return Manifest(
            tagtrace=__version__,
            dtype=self.options.dtype,
            num_tokens=sum(shard.num_tokens for shard in shards),
            num_sentences=len(self.sentences),
            dim=self.tagger.encoder.dim,
            labels=self.tagger.labels,
            unit=self.tagger.unit,
            head=self.tagger.head.options,
            fit=fit,
            options=self.options,
            tagger=tagger_info,
            data=data_info,
            head_file=files[HEAD],
            shards=shards,
        )
