"""Training data with label errors, real and planted, for ``label_errors.py``.

``reiss``   the 12,528 original CoNLL-2003 sentences of conll2003_corrected; true: the corrections of Reiss et al. (519
            of 189,983 tokens differ); trusted: all corrected validation sentences, or ten corrected documents
``noise``   the paper's corrupted documents: 20 soccer reports with clubs as LOC, 100 documents with random types;
            trusted: ten soccer reports of the corrected validation set
``wnut17``, ``ncbi``   used to design the rankings, not to evaluate them; errors are planted here; trusted: the dev set.
            Every five sentences count as a document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random

from torch import Tensor

from tagtrace import Corpus, LabelSet, Sentence, read_corpus
from tagtrace.data import Segment, segments
from tagtrace.findings import assign_folds
from tagtrace.reproduce.experiments.noise_fresh import iob2_labels
from tagtrace.reproduce.loop.tasks import in_fives
from tagtrace.reproduce.shared.conll import (
    LONGEST,
    changed_documents,
    in_documents,
    published_noise,
    read_split,
    sample_documents,
    soccer_documents,
)

__all__ = ["LONGEST", "NUM_FOLDS", "TASKS", "Task", "read_task"]

NUM_FOLDS = 5


@dataclass(frozen=True)
class Task:
    """Training data with errors, its true labels, and trusted sentences by the name of the taggers taught by them."""

    name: str
    seed: int
    corpus: Corpus
    true: list[Sentence]
    trusted: dict[str, list[Sentence]]
    held_out: dict[str, list[Sentence]]
    noise: dict[str, str]
    """The kind of noise of each noisy document."""

    @cached_property
    def train(self) -> list[Sentence]:
        return list(self.corpus.sentences)

    @cached_property
    def labels(self) -> LabelSet:
        return LabelSet.from_sentences([*self.true, *self.train, *next(iter(self.trusted.values()))], "iob2")

    @cached_property
    def folds(self) -> Tensor:
        """The fold of each sentence, (B,)."""
        return assign_folds([sentence.document for sentence in self.train], NUM_FOLDS, self.seed)


def read_task(name: str, data: Path, seed: int) -> Task:
    """The task of this name; its random choices depend on the seed."""
    return TASKS[name](data, seed)


def reiss(data: Path, seed: int) -> Task:
    corpus, true, held_out = read_split(data, "train_original"), _true(data), _held_out(data)
    before = read_split(data, "validation_original").sentences
    validation = held_out["validation"]
    changed = changed_documents(before, validation)
    trusted = {"taught": validation, "taught10": sample_documents(validation, changed, seed)}
    return Task("reiss", seed, corpus, true, trusted, held_out, {})


def noise(data: Path, seed: int) -> Task:
    corpus, kinds = published_noise(data)
    true, held_out = in_documents(_true(data), corpus.documents), _held_out(data)
    validation = held_out["validation"]
    trusted = {"taught10": sample_documents(validation, soccer_documents(validation), seed)}
    return Task("noise", seed, corpus, true, trusted, held_out, kinds)


def _true(data: Path) -> list[Sentence]:
    return list(read_split(data, "train_corrected").sentences)


def _held_out(data: Path) -> dict[str, list[Sentence]]:
    return {split: list(read_split(data, f"{split}_corrected").sentences) for split in ("validation", "test")}


Mistake = Callable[[str, Segment], Segment | None]
"""What a systematic annotator makes of a segment with this text: the same segment, another one, or none."""


def wnut17(data: Path, seed: int) -> Task:
    """Half the forms of ``group`` are labelled ``location``; half the forms of ``product`` are mostly not labelled."""
    random, forms = Random(100 + seed), dict[tuple[str, str], bool]()

    def mistake(text: str, segment: Segment) -> Segment | None:
        is_chosen = forms.setdefault((text.lower(), segment.type), random.random() < 0.5)
        if is_chosen and segment.type == "group":
            return replace(segment, type="location")
        return None if is_chosen and segment.type == "product" and random.random() < 0.7 else segment

    return _planted("wnut17", data / "wnut17", seed, random, mistake)


def ncbi(data: Path, seed: int) -> Task:
    """A sixth of the abbreviations (single words in capitals) are mostly not labelled."""
    random, forms = Random(200 + seed), dict[str, bool]()

    def mistake(text: str, segment: Segment) -> Segment | None:
        is_chosen = text.isupper() and " " not in text and forms.setdefault(text, random.random() < 1 / 6)
        return None if is_chosen and random.random() < 0.8 else segment

    return _planted("ncbi", data / "other/ncbi_disease", seed, random, mistake)


def _planted(name: str, folder: Path, seed: int, random: Random, mistake: Mistake) -> Task:
    """A task with systematic and random mistakes.

    Of the segments without a systematic mistake, 1 % are dropped, 1 % get another type and 1 % are cut; in 1 % of the
    sentences a capitalised word outside all segments is labelled.
    """
    corpus = read_corpus(next(folder.glob("train*")))
    true = in_fives([one for one in corpus.sentences if len(one)])
    types = sorted({segment.type for one in true for segment in segments(one.labels, "iob2")})
    train = [one.with_labels(_spoiled(one, types, random, mistake)) for one in true]
    trusted = in_fives([one for one in read_corpus(next(folder.glob("dev*"))).sentences if len(one)])
    return Task(name, seed, corpus.with_sentences(train), true, {"taught": trusted}, {}, {})


def _spoiled(sentence: Sentence, types: Sequence[str], random: Random, mistake: Mistake) -> list[str]:
    """The labels after systematic and random mistakes."""
    given, kept = segments(sentence.labels, "iob2"), list[Segment]()
    for segment in given:
        found = mistake(" ".join(sentence.tokens[segment.start : segment.stop]), segment)
        if found == segment:
            found = _random_mistake(segment, types, random)
        kept += [] if found is None else [found]
    inside = {t for segment in given for t in range(segment.start, segment.stop)}
    free = [t for t, token in enumerate(sentence.tokens) if token[:1].isupper() and t not in inside]
    if free and random.random() < 0.01:
        t = random.choice(free)
        kept.append(Segment(t, t + 1, random.choice(types)))
    return iob2_labels(kept, len(sentence))


def _random_mistake(segment: Segment, types: Sequence[str], random: Random) -> Segment | None:
    draw, others = random.random(), [type_ for type_ in types if type_ != segment.type]
    if draw < 0.01:
        return None
    if draw < 0.02 and others:
        return replace(segment, type=random.choice(others))
    if draw < 0.03 and segment.stop - segment.start > 1:
        return replace(segment, start=segment.start + 1)
    return segment


TASKS = {"reiss": reiss, "noise": noise, "wnut17": wnut17, "ncbi": ncbi}
