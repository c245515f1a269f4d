"""Invented newswire in which one word has a wrong label wherever it is, and a checkpoint trained on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tagtrace.data import Sentence
from tagtrace.data.invented import generate, write_invented
from tests.tagger.foreign.trained import train_bert

WORD, WRONG = "said", "B-MISC"
NAMES = ("O", "I-PER", "B-PER", "B-MISC", "I-MISC", "B-LOC", "I-LOC", "B-ORG", "I-ORG")
"""In no order that we would choose."""


@dataclass(frozen=True)
class Planted:
    """``train.conll`` with the errors, ``dev.conll`` without, and the folder that ``save_pretrained`` wrote."""

    folder: Path

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def train(self) -> Path:
        return self.folder / "train.conll"

    @property
    def dev(self) -> Path:
        return self.folder / "dev.conll"


def plant(folder: Path) -> Planted:
    """Write the data and train the checkpoint: a few seconds."""
    made = generate(num_documents=60, systematic_share=0, random_share=0)
    train = tuple(mislabel(sentence) for sentence in made.train)
    write_invented(type(made)(train, train, made.dev, made.test, (), 0), folder)
    train_bert(folder / "checkpoint", train, NAMES, epochs=5)
    return Planted(folder)


def mislabel(sentence: Sentence) -> Sentence:
    """The sentence with the wrong label for ``WORD``."""
    pairs = zip(sentence.tokens, sentence.labels, strict=True)
    return sentence.with_labels([WRONG if token == WORD else label for token, label in pairs])
