"""The interface of every encoder: D features for each token of a sentence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from tagtrace._checks import OptionError
from tagtrace.data.corpus import Corpus
from tagtrace.data.sentence import Sentence

Table = nn.Embedding | nn.EmbeddingBag
"""A table of embeddings."""


class Encoder(nn.Module, ABC):
    """Maps sentences to features, one row per token.

    ``prepare`` converts one sentence into the input of ``forward`` (ids, rows), on the CPU, once; ``forward`` converts
    a batch of those into features (N, D), the tokens of all sentences concatenated, on the encoder's device. A
    trainable encoder lets gradients through ``forward``.
    """

    kind: ClassVar[str]
    """The name that users give: ``lexical``, ``vectors``, ``precomputed``, ``transformer``, ``spacy``."""
    trainable: ClassVar[bool]
    """Whether training changes the encoder. If not, the head alone is fitted."""
    learning_rate: ClassVar[float] = 2e-5
    """The default learning rate (the paper's for transformers)."""
    dim: int
    """D, the number of features per token."""

    def settings(self) -> dict[str, object]:
        """Everything, apart from its weights, that its features in training depend on."""
        return {}

    def check_corpus(self, corpus: Corpus) -> None:
        """Raise, before any work is done, if the encoder cannot encode a file."""

    @contextmanager
    def narrowed(self, prepared: Sequence[Any]) -> Iterator[None]:  # noqa: ARG002
        """Inside the block, weights that no ``prepared`` sentence uses are not parameters: training skips them.

        Only these sentences can be encoded there. An encoder whose sentences use all weights does nothing.
        """
        yield

    def layer_rows(self, batch: Sequence[Any]) -> list[Tensor]:  # noqa: ARG002
        """For each time that ``forward`` calls the linear layers, the number of each row's sentence, (R,)."""
        raise OptionError(f"the layers of a {self.kind} encoder are not known; influence is that on the head alone")

    def table_of_words(self) -> Table | None:
        """The table that is looked up once, or as one bag, for each row of the linear layers, if there is one."""
        return None

    @abstractmethod
    def prepare(self, sentence: Sentence) -> Any:
        """The input of ``forward`` for one sentence."""

    @abstractmethod
    def forward(self, batch: Sequence[Any]) -> Tensor:
        """Features (N, D) of the prepared sentences' tokens, in order; N is their total length."""

    def project(self, batch: Sequence[Any], linear: Callable[[Tensor], Tensor]) -> Tensor:
        """``linear``, which maps rows (R, D) to (R, C), of the features of the prepared sentences' tokens, (N, C)."""
        return linear(self(batch))

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write everything ``load`` needs into an existing, empty folder: JSON and safetensors."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Self:
        """The encoder that ``save`` wrote."""
