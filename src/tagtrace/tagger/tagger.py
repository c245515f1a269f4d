"""A tagger: an encoder, a head and a label set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tagtrace._checks import DataError, EncoderError, OptionError, TaggerError, TagtraceError, at
from tagtrace._markup import counted
from tagtrace._progress import Progress
from tagtrace._table import Described, Table, fact_table
from tagtrace._tensor_files import not_finite
from tagtrace.data.corpus import Corpus
from tagtrace.data.labels import LabelSet
from tagtrace.data.schemes import normalise
from tagtrace.data.sentence import Sentence, join_documents
from tagtrace.tagger import crf
from tagtrace.tagger.encoders.base import Encoder
from tagtrace.tagger.head import Head, HeadOptions
from tagtrace.tagger.metrics import Scorecard, score_labels
from tagtrace.tagger.rows import Rows, pad_rows
from tagtrace.tagger.scores import Scores

Unit = Literal["sentence", "document"]


@dataclass(frozen=True)
class Example:
    """A sentence prepared for the encoder, with its labels as numbers (empty if unlabelled)."""

    prepared: Any
    labels: list[int]
    length: int
    known: tuple[bool, ...] | None = None
    """Which labels are learned; None: all of them."""


class Tagger(nn.Module, Described):
    """Labels sentences, or documents joined into one sentence each (``unit``), with ``labels``."""

    encoder: Encoder
    head: Head
    labels: LabelSet

    def __init__(self, encoder: Encoder, head: Head, labels: LabelSet, unit: Unit = "sentence") -> None:
        super().__init__()
        if unit not in ("sentence", "document"):
            raise OptionError(f"unit {unit!r}: expected sentence or document")
        self.encoder, self.head, self.labels = encoder, head, labels
        self.unit: Unit = unit
        self.folder: Path | None = None
        """Where it was saved or loaded from."""
        self.record: dict[str, Any] = {}
        """How the tagger was trained and refitted; saved with it."""
        self.is_fitted = True
        """Whether its head has been fitted; that of a spaCy pipeline is new."""

    def describe(self) -> list[str | Table]:
        num_weights = sum(value.numel() for value in self.encoder.parameters())
        facts = {
            "labels": f"{len(self.labels)}, {self.labels.scheme}: {' '.join(self.labels.labels)}",
            "encoder": f"{self.encoder.kind}, {self.encoder.dim} features, {counted(num_weights, 'weight')}",
            "head": str(self.head.options),
            "labels at a time": f"one {self.unit}",
            "saved in": "nowhere yet" if self.folder is None else str(self.folder),
        }
        return [fact_table("tagger", facts)]

    def check_finite(self, error: type[TagtraceError], remedy: str) -> None:
        """Raise if a weight is NaN or infinite."""
        name = not_finite(dict(self.named_parameters()))
        if name is not None:
            raise error(f"the weights {name} are not finite numbers; {remedy}")

    def check_fitted(self) -> None:
        """Raise unless the head has been fitted to training data."""
        if not self.is_fitted:
            raise TaggerError(
                f"{self.folder or 'the tagger'}: the ner of a spaCy pipeline has no scores of labels, so it has a new "
                "head here, which is not fitted yet; build an index of it, or refit it on its training data first"
            )

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    def joined(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences as the tagger labels them: as they are, or each document joined into one."""
        return join_documents(sentences) if self.unit == "document" else list(sentences)

    def labelled(self, sentences: Sequence[Sentence], what: str) -> list[Sentence]:
        """As ``joined``; raises DataError if labels are missing or unknown to the tagger."""
        joined = self.joined(sentences)
        if not joined:
            raise DataError(f"the {what} data is empty")
        for sentence in joined:
            if not sentence.is_labelled:
                where = at(sentence.path or sentence.id or "sentence", sentence.lines[0] if sentence.lines else None)
                raise DataError(f"{where}: the {what} data has no labels here; label this sentence or leave it out")
        self.labels.check(joined)
        return joined

    def prepare(self, sentence: Sentence) -> Example:
        labels = self.labels.encode(sentence.labels) if sentence.is_labelled else []
        return Example(self.encoder.prepare(sentence), labels, len(sentence))

    def encode(self, batch: Sequence[Example]) -> Tensor:
        """Features (N, D) of the batch's tokens."""
        return self._finite(self.encoder([example.prepared for example in batch]))

    def emissions(self, batch: Sequence[Example]) -> Tensor:
        """W (F_t, 1) of the batch's tokens, (N, C), in the dtype of the head."""
        return self._finite(self.encoder.project([example.prepared for example in batch], self._head_of_features))

    def _head_of_features(self, features: Tensor) -> Tensor:
        with torch.autocast(self.device.type, enabled=False):  # the head is never computed in bfloat16
            return self.head.emissions(features.to(self.head.weight.dtype))

    def _finite(self, rows: Tensor) -> Tensor:
        """Features, or what is computed from them; raises EncoderError if they are NaN or infinite."""
        is_finite = bool(rows.detach().sum().isfinite()) or bool(rows.isfinite().all())  # a sum may overflow
        if not is_finite:
            raise EncoderError(
                f"the {self.encoder.kind} encoder returned NaN or infinite features; lower the learning rate, "
                "or check its weights"
            )
        return rows

    @torch.no_grad()
    def features(self, sentence: Sentence) -> Tensor:
        """Features (T, D) of one sentence, as prediction uses them; labels, if any, are not read."""
        with self._evaluating():
            return self.encode([self.prepare(sentence.with_labels(()))])

    @torch.no_grad()
    def predict(
        self, data: Corpus | Sequence[Sentence], *, constrained: bool = True, progress: Progress | None = None
    ) -> list[tuple[str, ...]]:
        """The best label sequence of each sentence; ``constrained`` allows only well-formed ones.

        A head that was trained with constraints always keeps them, because they are part of its model.
        """
        if isinstance(data, Corpus):
            self.encoder.check_corpus(data)
        sentences = data.sentences if isinstance(data, Corpus) else data
        constrained = constrained or self.head.options.constrained
        joined = [sentence.with_labels(()) for sentence in self.joined(sentences)]  # labels, if any, are not read
        paths: list[list[int]] = [[] for _ in joined]
        for indices, batch in self._batches(joined, progress):
            found = crf.viterbi(self.scores(batch, constrained=constrained))[0]
            for index, path in zip(indices, found, strict=True):
                paths[index] = path
        labels = iter([label for path in paths for label in self.labels.decode(path)])
        predicted = [tuple(next(labels) for _ in sentence.tokens) for sentence in sentences]
        if constrained and self.unit == "document":  # a segment may not continue into the next sentence
            predicted = [normalise(each, self.labels.scheme) for each in predicted]
        return predicted

    def evaluate(self, corpus: Corpus, *, constrained: bool = True, progress: Progress | None = None) -> Scorecard:
        """Compare predictions with the labels of a corpus: segment and token F1."""
        self.check_corpus(corpus)
        predicted = self.predict(corpus.sentences, constrained=constrained, progress=progress)
        return score_labels([sentence.labels for sentence in corpus.sentences], predicted, self.labels.scheme)

    def check_scheme(self, corpus: Corpus) -> None:
        """Raise unless the labels of a corpus have the scheme that the tagger was trained on."""
        if corpus.normalised_scheme != self.labels.scheme:
            raise DataError(
                f"{corpus.path}: labels are {corpus.scheme}, but the tagger was trained on {self.labels.scheme}; "
                "check which column has the labels, or set the scheme"
            )

    def check_corpus(self, corpus: Corpus) -> None:
        """Raise unless the tagger knows the labels and can encode the tokens."""
        self.check_scheme(corpus)
        self.labels.check(corpus.sentences)
        self.encoder.check_corpus(corpus)

    @torch.no_grad()
    def rows(self, sentences: Sequence[Sentence], *, progress: Progress | None = None) -> Rows:
        """Frozen features and labels of all tokens, sentences in order, on the CPU in float32."""
        joined = self.labelled(sentences, "given")
        lengths = torch.tensor([len(sentence) for sentence in joined])
        starts = lengths.cumsum(0) - lengths
        features = torch.empty(int(lengths.sum()), self.encoder.dim)
        for indices, batch in self._batches(joined, progress):
            parts = self.encode(batch).float().cpu().split([example.length for example in batch])
            for index, part in zip(indices, parts, strict=True):
                features[starts[index] : starts[index] + len(part)] = part
        labels = torch.tensor([label for sentence in joined for label in self.labels.encode(sentence.labels)])
        return Rows(features, labels, lengths)

    @torch.no_grad()
    def mean_loss(self, examples: Sequence[Example]) -> float:
        """The mean loss of the known labels of examples, without dropout."""
        total = 0.0
        with self._evaluating():
            for indices in length_batches([example.length for example in examples]):
                batch = [examples[i] for i in indices]
                total += float(batch_losses(self.scores(batch), batch).sum())
        return total / len(examples)

    def scores(self, batch: Sequence[Example], *, constrained: bool | None = None) -> Scores:
        """The scores of the batch's label sequences."""
        self.check_fitted()
        return self.head.scores(self.emissions(batch), lengths_of(batch), constrained=constrained)

    def _batches(
        self, sentences: Sequence[Sentence], progress: Progress | None
    ) -> Iterator[tuple[list[int], list[Example]]]:
        """Indices and examples of similar length, batch by batch, in evaluation mode."""
        done = 0
        with self._evaluating():
            for indices in length_batches([len(sentence) for sentence in sentences]):
                yield indices, [self.prepare(sentences[i]) for i in indices]
                done += len(indices)
                if progress is not None:
                    progress(done, len(sentences))

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Evaluation mode inside the block, and the previous mode afterwards."""
        was_training = self.training
        self.eval()
        try:
            yield
        finally:
            self.train(was_training)


def length_batches(lengths: Sequence[int], max_tokens: int = 4096) -> Iterator[list[int]]:
    """Indices, longest first, ``max_tokens`` padded tokens together."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > max_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def new_tagger(
    encoder: Encoder, labels: LabelSet, head: HeadOptions | None = None, unit: Unit = "sentence", seed: int = 0
) -> Tagger:
    """An untrained tagger; ``seed`` is for the initial weights of its head."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Tagger(encoder, Head(encoder.dim, labels, head), labels, unit)


def pick_device(name: str | torch.device = "auto") -> torch.device:
    """The device that a user names: ``auto`` (a GPU if there is one), ``cpu``, ``cuda``, ``cuda:1``, ..."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError) as error:
        raise OptionError(f"device {str(name)!r} is not available here; try cpu") from error
    return device


def lengths_of(batch: Sequence[Example]) -> Tensor:
    return torch.tensor([example.length for example in batch])


def padded_labels(batch: Sequence[Example]) -> Tensor:
    """Labels (B, T) of labelled examples."""
    flat = torch.tensor([label for example in batch for label in example.labels])
    return pad_rows(flat, lengths_of(batch))


def batch_losses(scores: Scores, batch: Sequence[Example]) -> Tensor:
    """The loss of the known labels of each example, (B,): the joint loss if all are known, else the partial loss."""
    labels = padded_labels(batch)
    if all(example.known is None for example in batch):
        return crf.joint_loss(scores, labels)
    return crf.partial_loss(scores, labels, padded_known(batch))


def padded_known(batch: Sequence[Example]) -> Tensor:
    """Which labels are known, (B, T)."""
    flat = torch.tensor([k for example in batch for k in example.known or (True,) * example.length])
    return pad_rows(flat, lengths_of(batch))
