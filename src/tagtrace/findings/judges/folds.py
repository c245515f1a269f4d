"""Out-of-sample probabilities by cross-validation: each sentence is judged by a tagger that has not seen its document.

``out_of_sample`` refits the head for each fold on the features of the others: cheap, but the encoder has seen every
label. ``encoder_folds`` trains an encoder for each fold too, and keeps finished folds in a folder. Both may learn from
trusted sentences as well: the heads together with the training data, the taggers after it (``tagger.further``).

folds.json           what the folds depend on (tagger, data, trusted data, options), and the checksum of each file
fold-0.safetensors   marginals (n, C), conditional (n,) and joint (b,) losses of the fold's sentences
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError
from tagtrace._progress import Progress
from tagtrace._run_folder import RunFolder
from tagtrace.data.corpus import Corpus
from tagtrace.data.sentence import Sentence
from tagtrace.findings.judges.probabilities import Probabilities, Sample, empty, fill, fill_by
from tagtrace.index import Index
from tagtrace.index.fingerprints import content_fingerprint, tagger_fingerprint
from tagtrace.tagger import (
    Head,
    RefitOptions,
    Rows,
    Step,
    Tagger,
    TrainOptions,
    refit_head,
    remove_checkpoint,
    train_tagger,
)
from tagtrace.tagger.foreign.huggingface import CHECKPOINT
from tagtrace.tagger.further import train_further
from tagtrace.tagger.rows import RowParts, token_places

FORMAT = 3
MARKER = "folds.json"
MAX_REPEATS = 20
"""Maximum number of times that trusted sentences are repeated."""

_log = logging.getLogger(__name__)


def assign_folds(documents: Sequence[str], num_folds: int = 5, seed: int = 0) -> Tensor:
    """The fold of each sentence, (B,): a document is never split, and folds have about the same number of documents.

    ``documents`` has the name of each sentence's document (``document_numbers``).
    """
    if num_folds < 2:
        raise OptionError(f"num_folds {num_folds}: must be at least 2")
    document = document_numbers(documents)
    num_documents = int(document.max()) + 1 if len(document) else 0
    if num_documents < num_folds:
        what = "documents" if len(set(documents)) > 1 else "sentences"
        raise OptionError(f"num_folds {num_folds}: the data has only {num_documents} {what}; ask for fewer folds")
    order = torch.randperm(num_documents, generator=torch.Generator().manual_seed(seed))
    fold = torch.empty_like(order)
    fold[order] = torch.arange(num_documents) % num_folds
    return fold[document]


def document_numbers(documents: Sequence[str]) -> Tensor:
    """The number of each sentence's document, (B,), from 0.

    ``documents`` has the name of each sentence's document. A sentence without a document is a document of its own; so
    is every sentence if there is only one document.
    """
    if len(set(documents)) == 1:
        documents = [""] * len(documents)
    numbers: dict[str | int, int] = {}
    found = [numbers.setdefault(name or number, len(numbers)) for number, name in enumerate(documents)]
    return torch.tensor(found, dtype=torch.long)


def out_of_sample(
    index: Index,
    num_folds: int = 5,
    seed: int = 0,
    *,
    trusted: Rows | None = None,
    tolerance: float = 1e-4,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> Probabilities:
    """The probabilities of heads refitted without each fold, with the l2 of the index and a warm start at its head.

    ``trusted`` sentences are added to every fold (``taught_head``). ``tolerance`` is for max |gradient|. ``progress``
    counts the sentences that have been judged.
    """
    folds = assign_folds(index.documents, num_folds, seed)
    found = empty(index.lengths, index.label_ids, len(index.labels), "out-of-sample")
    done = 0
    for fold in range(num_folds):
        head = taught_head(index, folds != fold, trusted, tolerance=tolerance, device=device)
        for sentences, part in index.rows_where(folds == fold):
            fill(found, sentences, head, part)
            done += len(sentences)
        if progress is not None:
            progress(done, index.num_sentences)
    return found


def taught_head(
    index: Index,
    keep: Tensor,
    trusted: Rows | None = None,
    *,
    tolerance: float = 1e-4,
    device: torch.device | None = None,
) -> Head:
    """The index's head refitted on the sentences where ``keep`` (B,) is True, and on ``trusted`` ones.

    Trusted sentences are few: they are repeated, at most ``MAX_REPEATS`` times, until they are at least as many as the
    others, so that what they teach is not drowned out.
    """
    rows = [part for _, part in index.rows_where(keep)]
    if trusted is not None:
        if len(trusted.lengths) == 0:
            raise DataError("there are no trusted sentences to learn from; give at least one")
        num_repeats = math.ceil(int(keep.sum()) / len(trusted.lengths))
        stored = Rows(trusted.features.to(rows[0].features.dtype), trusted.labels, trusted.lengths)
        rows += [stored] * min(num_repeats, MAX_REPEATS)
    joined = RowParts(tuple(rows))
    options = RefitOptions(index.manifest.l2, tolerance, index.manifest.options.max_steps)
    return refit_head(index.head, joined.to(device or joined.device), options).head.cpu()


@dataclass(frozen=True)
class FoldedSentences:
    """The training sentences of a tagger that is trained for each fold, in the order of an index."""

    sentences: list[Sentence]
    lengths: Tensor
    """(B,)"""
    labels: Tensor
    """(N,)"""
    num_labels: int
    folds: Tensor
    """The fold of each sentence, (B,)."""
    num_folds: int
    seed: int

    @classmethod
    def of(cls, tagger: Tagger, corpus: Corpus, num_folds: int, seed: int) -> Self:
        """The sentences of a corpus; raises if the tagger would leak labels or cannot be trained."""
        sentences = _checked_sentences(tagger, corpus)
        folds = assign_folds([sentence.document for sentence in sentences], num_folds, seed)
        lengths = torch.tensor([len(sentence) for sentence in sentences])
        labels = torch.tensor([label for sentence in sentences for label in tagger.labels.encode(sentence.labels)])
        return cls(sentences, lengths, labels, len(tagger.labels), folds, num_folds, seed)

    def held_out(self, fold: int) -> Tensor:
        """Numbers of the fold's sentences, (b,)."""
        return (self.folds == fold).nonzero().squeeze(1)

    def others(self, fold: int) -> list[Sentence]:
        """The sentences that the fold's tagger is trained on."""
        return [self.sentences[number] for number in (self.folds != fold).nonzero().squeeze(1).tolist()]

    def empty(self, sample: Sample) -> Probabilities:
        return empty(self.lengths, self.labels, self.num_labels, sample)


def encoder_folds(
    tagger: Tagger,
    corpus: Corpus,
    folder: str | Path,
    options: TrainOptions | None = None,
    num_folds: int = 5,
    seed: int = 0,
    *,
    trusted: Sequence[Sentence] = (),
    training: Callable[[int, Step], None] | None = None,
    progress: Progress | None = None,
) -> Probabilities:
    """The probabilities of copies of ``tagger``, each trained on the other folds only, in the order of an index.

    ``tagger`` is untrained: one that has seen the labels would leak them. Each copy is trained further on ``trusted``
    sentences, if there are any. Finished folds are kept in ``folder``, so that an interrupted run resumes when called
    again with the same arguments. ``training`` is called with (fold, step).
    """
    options = options or TrainOptions()
    data = FoldedSentences.of(tagger, corpus, num_folds, seed)
    if trusted:
        tagger.labelled([sentence for sentence in trusted if len(sentence)], "trusted")
    found = data.empty("out-of-sample")
    kept = kept_folds(folder, folds_owner(tagger, corpus, trusted, options, num_folds, seed))
    done = 0
    for fold in range(num_folds):
        held_out = data.held_out(fold)
        if not load_fold(kept, fold, found, held_out):
            checkpoint = kept.folder / f"training-{fold}"
            trained = deepcopy(tagger)
            report = None if training is None else lambda step, fold=fold: training(fold, step)
            train_tagger(trained, data.others(fold), (), options, checkpoint=checkpoint, progress=report)
            if trusted:
                train_further(trained, trusted, options, report)
            fill_by(trained, found, held_out, data.sentences)
            save_fold(kept, fold, found, held_out)
            remove_checkpoint(checkpoint)
        done += len(held_out)
        if progress is not None:
            progress(done, len(data.sentences))
    return found


def _checked_sentences(tagger: Tagger, corpus: Corpus) -> list[Sentence]:
    if not tagger.encoder.trainable:
        raise OptionError(f"a {tagger.encoder.kind} encoder cannot be trained; refit only the head for each fold")
    if tagger.record.keys() & {"training", "refit", CHECKPOINT}:
        raise OptionError("the tagger is already trained and has seen the labels; give an untrained one")
    sentences = tagger.labelled(corpus.sentences, "training")
    names = [(sentence.path, sentence.document) for sentence in sentences if sentence.document]
    if tagger.unit == "document" and len(set(names)) < len(names):
        raise DataError(f"{corpus.path}: the sentences of a document are not next to each other; put them together")
    return sentences


def folds_owner(
    tagger: Tagger,
    corpus: Corpus,
    trusted: Sequence[Sentence],
    options: TrainOptions,
    num_folds: int,
    seed: int,
    opinions: str = "after training",
) -> dict[str, Any]:
    """Everything that the folds depend on."""
    return {
        "format": FORMAT,
        "tagger": tagger_fingerprint(tagger),
        "data": content_fingerprint(corpus),
        "trusted": content_fingerprint(corpus.with_sentences(trusted)) if trusted else None,
        "options": {name: value for name, value in options.to_json().items() if name != "checkpoint_seconds"},
        "num_folds": num_folds,
        "seed": seed,
        "opinions": opinions,
    }


def kept_folds(folder: str | Path, owner: dict[str, Any]) -> RunFolder:
    """The folder of finished folds; raises if it belongs to another run."""
    return RunFolder(folder, MARKER, owner, "folds").open()


def load_fold(kept: RunFolder, fold: int, into: Probabilities, sentences: Tensor) -> bool:
    """Fill in the fold's sentences from its file; False if the file is missing or damaged."""
    saved, tokens = kept.read(_name(fold)), token_places(into.lengths, sentences)
    if saved is None:
        if kept.has(_name(fold)):
            _log.warning("%s: damaged; trained again", kept.folder / _name(fold))
        return False
    try:
        into.marginals[tokens] = saved["marginals"]
        into.conditional_losses[tokens] = saved["conditional"]
        into.joint_losses[sentences] = saved["joint"]
    except (KeyError, RuntimeError):
        _log.warning("%s: damaged; trained again", kept.folder / _name(fold))
        return False
    return True


def save_fold(kept: RunFolder, fold: int, found: Probabilities, sentences: Tensor) -> None:
    """Keep a finished fold."""
    tokens = token_places(found.lengths, sentences)
    tensors = {"marginals": found.marginals[tokens], "conditional": found.conditional_losses[tokens]}
    kept.add({_name(fold): {**tensors, "joint": found.joint_losses[sentences]}})


def _name(fold: int) -> str:
    return f"fold-{fold}.safetensors"
