"""What every encoder offers: D features for each token of a sentence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from tagtrace.data.corpus import Corpus
from tagtrace.data.sentence import Sentence


class Encoder(nn.Module, ABC):
    """Maps sentences to features, one row a token.

    ``prepare`` turns one sentence into what ``forward`` needs (ids, rows), on the CPU, once;
    ``forward`` turns a batch of those into features (N, D), the tokens of all sentences one after
    the other, on the encoder's device. A trainable encoder lets gradients through ``forward``.
    """

    kind: ClassVar[str]
    """The word users write: ``lexical``, ``vectors``, ``precomputed``, ``transformer``."""
    trainable: ClassVar[bool]
    """Whether training changes the encoder. If not, the head alone is fitted."""
    learning_rate: ClassVar[float] = 2e-5
    """What training uses unless told otherwise (the paper's for transformers)."""
    dim: int
    """D, the number of features of a token."""

    def settings(self) -> dict[str, object]:
        """What, beside its weights, decides the features it gives in training."""
        return {}

    def check_corpus(self, corpus: Corpus) -> None:
        """Refuse a file that the encoder cannot serve, before any work is done."""

    @abstractmethod
    def prepare(self, sentence: Sentence) -> Any:
        """What ``forward`` needs to know of one sentence."""

    @abstractmethod
    def forward(self, batch: Sequence[Any]) -> Tensor:
        """Features (N, D) of the prepared sentences' tokens, in order; N is their total length."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write everything ``load`` needs into an existing, empty folder: JSON and safetensors."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Self:
        """The encoder that ``save`` wrote."""
