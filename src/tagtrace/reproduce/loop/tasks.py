"""Training data with wrong labels, its true labels, and test data: what reviewing is simulated on.

``wnut17/NOISE``, ``ncbi/NOISE``   true labels made noisy (``noise_kinds``); every five sentences count as a document
``demo/NOISE``                     the same for invented text, with its own documents
``demo``                           invented text with the errors that the demo plants
``reiss``                          the original labels of CoNLL-2003, and the corrections of Reiss et al.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from random import Random

from tagtrace._checks import OptionError
from tagtrace.data import Corpus, LabelSet, ReadOptions, Sentence, read_corpus
from tagtrace.data.invented import generate
from tagtrace.reproduce.loop.noise_kinds import NOISES, make_noise, share_wrong
from tagtrace.reproduce.loop.slips import document_keys
from tagtrace.reproduce.shared.conll import read_split


@dataclass(frozen=True)
class Task:
    """Training data with wrong labels, in the order of its true labels, and test data with true labels."""

    name: str
    seed: int
    corpus: Corpus
    true: tuple[Sentence, ...]
    test: tuple[Sentence, ...]
    trusted: tuple[Sentence, ...] = ()
    """Further sentences with true labels, if there are any."""

    def __post_init__(self) -> None:
        assert [one.tokens for one in self.corpus.sentences] == [one.tokens for one in self.true]

    @cached_property
    def labels(self) -> LabelSet:
        return LabelSet.from_sentences([*self.corpus.sentences, *self.true, *self.test, *self.trusted], "iob2")

    @property
    def share_wrong(self) -> float:
        """The share of training tokens with a wrong label."""
        return share_wrong(self.corpus.sentences, self.true)


def read_task(data: Path, name: str, seed: int, size: int = 0, share: float | None = None) -> Task:
    """The task of this name, with about ``size`` training sentences in whole documents (0: all), drawn by seed.

    ``data`` is the folder of the corpora. ``share`` of the tokens are made wrong, if noise is made at all (default:
    as is usual for the noise).
    """
    if name not in TASKS:
        raise OptionError(f"there is no task {name!r}; expected one of {', '.join(TASKS)}")
    source, _, noise = name.partition("/")
    noisy, true, test = SOURCES[source](data, seed)
    kept = sample_sentences(true, size, seed)
    right = [true[number] for number in kept]
    given = make_noise(noise, right, seed, share) if noise else [noisy.sentences[number] for number in kept]
    return Task(name, seed, noisy.with_sentences(given), tuple(right), tuple(test))


def sample_sentences(sentences: Sequence[Sentence], size: int, seed: int) -> list[int]:
    """The numbers of about ``size`` sentences in whole documents, drawn by seed and kept in order; 0 means all."""
    keys, counts = document_keys(sentences), dict[str, int]()
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    chosen, total = set[str](), 0
    for key in Random(f"sentences {seed}").sample(list(counts), len(counts)):
        if 0 < size <= total:
            break
        chosen.add(key)
        total += counts[key]
    return [number for number, key in enumerate(keys) if key in chosen]


def in_fives(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Every five sentences as a document."""
    return [replace(one, document=f"{number // 5}") for number, one in enumerate(sentences)]


Source = tuple[Corpus, Sequence[Sentence], Sequence[Sentence]]
"""The training data as given (for made noise, the file that it is made of), with its true labels, and test data."""


def _in_folder(folder: str, data: Path, _: int) -> Source:
    train, test = (read_corpus(next((data / folder).glob(f"{split}*"))) for split in ("train", "test"))
    true = in_fives([one for one in train.sentences if len(one)])
    return train, true, in_fives([one for one in test.sentences if len(one)])


def _reiss(data: Path, _: int) -> Source:
    true, test = (read_split(data, name).sentences for name in ("train_corrected", "test_corrected"))
    return read_split(data, "train_original"), true, test


def _demo(_: Path, seed: int) -> Source:
    made = generate(seed)
    return Corpus(Path("demo.conll"), made.train, "iob2", ReadOptions(), f"demo-{seed}"), made.train_true, made.test


SOURCES: dict[str, Callable[[Path, int], Source]] = {
    "wnut17": partial(_in_folder, "wnut17"),
    "ncbi": partial(_in_folder, "other/ncbi_disease"),
    "reiss": _reiss,
    "demo": _demo,
}

TASKS = (*(f"{source}/{noise}" for source in ("wnut17", "ncbi", "demo") for noise in NOISES), "reiss", "demo")
"""The names of all tasks."""
