"""What a model believed of the given labels after each epoch of its training, kept in one file.

    p_e(y_t | x): the probability of the given label of token t after epoch e

What many labels have in common is learned early, a single wrong label late or never. A model that was trained for long
repeats both; the mean over epochs, and how much the probability varies, still tell them apart ("Dataset Cartography",
Swayamdipta et al., 2020).

``dynamics.safetensors`` has the columns of ``index.text`` and

    probabilities   (E, N) float32
    labels          (N,) the number of each given label
    lengths         (B,) the number of tokens of each sentence

for E epochs, N tokens and B sentences, in the order of the data; ``DynamicsRecord`` is its metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError, TagtraceError
from tagtrace._documents import Document, parse_document
from tagtrace._markup import counted
from tagtrace._table import Table, Tabular
from tagtrace._tensor_files import map_tensors, read_metadata, write_tensors
from tagtrace._version import __version__
from tagtrace.data.labels import LabelSet
from tagtrace.data.sentence import Sentence
from tagtrace.findings.judges.probabilities import empty, fill_by
from tagtrace.index.text import are_columns, read_sentence, text_tensors
from tagtrace.tagger.tagger import Tagger

METADATA = "tagtrace"
"""The key of the metadata of a file that holds its DynamicsRecord."""
NUM_SHOWN = 20
"""Maximum number of labels in a description."""
NUM_AROUND = 5
"""Number of tokens that are shown before and after one."""

_REMEDY = "train again with a TagtraceCallback that keeps them, or restore a copy"
_WHOLE = (torch.int16, torch.int32, torch.int64)


@dataclass(frozen=True)
class DynamicsRecord(Document):
    """The metadata of a file of training dynamics."""

    tagtrace: str
    """The version of tagtrace that wrote it."""
    labels: LabelSet
    data: str
    """sha256 of the sentences and their labels, as an index records it."""
    epochs: tuple[float, ...]
    """How many epochs the training had seen at each row, ascending."""
    format: Literal[1] = 1

    def __post_init__(self) -> None:
        ascends = all(before < after for before, after in pairwise((0.0, *self.epochs)))
        if not ascends or not all(map(isfinite, self.epochs)):
            raise DataError("epochs do not ascend from 0")


@dataclass(frozen=True)
class LearnedLabel:
    """The given label of one token, and how it was learned."""

    sentence: Sentence
    sentence_number: int
    position: int
    """Of the token in its sentence."""
    probabilities: tuple[float, ...]
    """Of the given label, after each epoch."""
    mean: float
    variability: float
    """Their standard deviation over epochs."""

    @property
    def label(self) -> str:
        return self.sentence.labels[self.position]

    @property
    def text(self) -> str:
        """The token in brackets, and a few tokens around it."""
        tokens, place = self.sentence.tokens, self.position
        before, after = tokens[max(place - NUM_AROUND, 0) : place], tokens[place + 1 : place + 1 + NUM_AROUND]
        return " ".join((*before, f"[{tokens[place]}]", *after))

    def to_record(self) -> dict[str, Any]:
        sentence, place = self.sentence, self.position
        return {
            "mean": self.mean,
            "variability": self.variability,
            "last": self.probabilities[-1],
            "label": self.label,
            "token": sentence.tokens[place],
            "sentence": sentence.id,
            "sentence_number": self.sentence_number,
            "position": place,
            "document": sentence.document,
            "line": sentence.lines[place] if place < len(sentence.lines) else None,
        }


@dataclass(frozen=True, eq=False)
class TrainingDynamics(Tabular):
    """What a model believed of the given labels after each epoch: E epochs, N tokens, B sentences."""

    record: DynamicsRecord
    probabilities: Tensor
    """Of the given labels, (E, N) float32."""
    label_ids: Tensor
    """The number of each given label, (N,)."""
    lengths: Tensor
    """The number of tokens of each sentence, (B,)."""
    columns: Mapping[str, Tensor]
    """The tokens and where they came from, as in ``index.text``."""

    @classmethod
    def begin(cls, labels: LabelSet, sentences: Sequence[Sentence], data: str) -> TrainingDynamics:
        """Those of a training that has not seen an epoch yet."""
        ids = torch.tensor([number for sentence in sentences for number in labels.encode(sentence.labels)])
        lengths = torch.tensor([len(sentence) for sentence in sentences])
        record = DynamicsRecord(__version__, labels, data, ())
        return cls(record, torch.empty(0, len(ids)), ids, lengths, text_tensors(sentences))

    @property
    def epochs(self) -> tuple[float, ...]:
        """How many epochs the training had seen at each row."""
        return self.record.epochs

    @property
    def labels(self) -> LabelSet:
        return self.record.labels

    def until(self, epoch: float) -> TrainingDynamics:
        """Without the rows after an epoch, which a training that resumes there repeats."""
        kept = tuple(one for one in self.epochs if one <= epoch)
        return replace(
            self, record=replace(self.record, epochs=kept), probabilities=self.probabilities[: len(kept)].clone()
        )

    def after(self, epoch: float, probabilities: Tensor) -> TrainingDynamics:
        """With one more row (N,)."""
        rows = torch.cat([self.probabilities, probabilities.float().cpu().unsqueeze(0)])
        return replace(self, record=replace(self.record, epochs=(*self.epochs, epoch)), probabilities=rows)

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all."""
        tensors = {"probabilities": self.probabilities, "labels": self.label_ids, "lengths": self.lengths}
        metadata = {METADATA: json.dumps(asdict(self.record), ensure_ascii=False)}
        write_tensors(Path(path).parent, Path(path).name, {**self.columns, **tensors}, metadata)

    @cached_property
    def mean(self) -> Tensor:
        """The mean probability of each given label, (N,) float64."""
        return self.probabilities.double().mean(0)

    @cached_property
    def variability(self) -> Tensor:
        """The standard deviation of the probability of each given label over epochs, (N,) float64."""
        return self.probabilities.double().std(0, correction=0)

    def rank(self, most: int | None = None) -> list[LearnedLabel]:
        """The given labels, at most ``most`` of them, the least believed first; equals in the order of the data."""
        if most is not None and most < 1:
            raise OptionError(f"most {most}: must be at least 1")
        return list(self._ranked(most))

    def _ranked(self, most: int | None) -> Iterator[LearnedLabel]:
        starts = self.lengths.cumsum(0) - self.lengths
        rows = self.mean.argsort(stable=True)[:most]
        numbers = torch.searchsorted(starts, rows, right=True) - 1
        sentences: dict[int, Sentence] = {}
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            start = int(starts[number])
            if number not in sentences:
                sentences[number] = self._sentence(number, start)
            yield LearnedLabel(
                sentences[number],
                number,
                row - start,
                tuple(self.probabilities[:, row].tolist()),
                float(self.mean[row]),
                float(self.variability[row]),
            )

    def _sentence(self, number: int, start: int) -> Sentence:
        ids = self.label_ids[start : start + int(self.lengths[number])]
        return read_sentence(self.columns, number, start, self.labels.decode(ids.tolist()))

    def describe(self) -> list[str | Table]:
        rows = tuple(
            (f"{one.mean:.3f}", f"{one.variability:.3f}", f"{one.probabilities[-1]:.3f}", one.label, one.text)
            for one in self.rank(NUM_SHOWN)
        )
        numbers = ("mean p", "variability", "last p")
        table = Table("given labels, the least believed first", (*numbers, "label", "text"), rows, numbers)
        tokens = counted(len(self.label_ids), "token")
        return [table, f"{tokens} in {counted(len(self.lengths), 'sentence')}, {counted(len(self.epochs), 'epoch')}"]

    def to_records(self) -> list[dict[str, Any]]:
        """One record for each token, the least believed label first."""
        return [one.to_record() for one in self._ranked(None)]


def given_probabilities(tagger: Tagger, sentences: Sequence[Sentence]) -> Tensor:
    """The probability of the given label of each token, (N,)."""
    labels = torch.tensor([number for sentence in sentences for number in tagger.labels.encode(sentence.labels)])
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    believed = empty(lengths, labels, len(tagger.labels))
    fill_by(tagger, believed, torch.arange(len(sentences)), sentences)
    return believed.marginals[torch.arange(len(labels)), labels]


def read_dynamics(path: str | Path) -> TrainingDynamics:
    """The training dynamics that a ``TagtraceCallback`` kept."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file; give the file that a TagtraceCallback with dynamics wrote")
    try:
        tensors = map_tensors(path)
        record = parse_document(read_metadata(path).get(METADATA, "{}"), DynamicsRecord)
        return _checked(record, tensors)
    except TagtraceError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise DataError(f"{path}: not a file of training dynamics ({reason}); {_REMEDY}") from None


def _checked(record: DynamicsRecord, tensors: dict[str, Tensor]) -> TrainingDynamics:
    """What a file holds; raises DataError if it does not fit together, whoever wrote it."""
    try:
        probabilities, labels, lengths = (tensors.pop(name) for name in ("probabilities", "labels", "lengths"))
    except KeyError as error:
        raise DataError(f"{error.args[0]} is missing") from None
    if {labels.dtype, lengths.dtype} - set(_WHOLE) or labels.ndim != 1 or lengths.ndim != 1:
        raise DataError("labels and lengths are not whole numbers")
    labels, lengths, num_tokens = labels.long(), lengths.long(), len(labels)
    are_lengths = bool(((lengths >= 1) & (lengths <= num_tokens)).all()) and int(lengths.sum()) == num_tokens
    are_labels = bool(((labels >= 0) & (labels < len(record.labels))).all())
    if not are_lengths or not are_labels or num_tokens == 0:
        raise DataError("labels and lengths are not those of sentences")
    if probabilities.dtype != torch.float32 or probabilities.shape != (len(record.epochs), num_tokens):
        raise DataError(f"probabilities have the shape {tuple(probabilities.shape)}")
    if not record.epochs or not bool(((probabilities >= 0) & (probabilities <= 1)).all()):
        raise DataError("probabilities are not between 0 and 1, or of no epoch")
    if not are_columns(tensors, num_tokens, len(lengths)):
        raise DataError("its text does not fit its labels")
    return TrainingDynamics(record, probabilities, labels, lengths, tensors)
