"""What the linear datamodelling score retrains: subsets of the training data, and the losses of queries after them.

- ``sentences``: training on random halves of the sentences;
- ``hidden``: on all of them, with the labels of a random half of the entities taken away;
- ``relabelled``: on all of them, with another type, the same for every subset, for a random part of the entities.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from tagtrace.data import Corpus, LabelSet, Sentence
from tagtrace.data.labels import HIDDEN
from tagtrace.data.schemes import segments
from tagtrace.reproduce.shared.conll import read_split
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.reproduce.whole_tagger.answers import Trainings
from tagtrace.tagger import Tagger, crf
from tagtrace.tagger.recipe import Recipe
from tagtrace.tagger.retrainings import Variant
from tagtrace.tagger.rows import pad_rows
from tagtrace.tagger.training import sentences_digest

Kind = Literal["sentences", "hidden", "relabelled"]
KINDS: tuple[Kind, ...] = ("sentences", "hidden", "relabelled")


@dataclass(frozen=True)
class LdsOptions:
    """See lds.toml."""

    train: str
    validation: str
    num_train: int
    shortest: int
    longest: int
    num_queries: int
    num_segment_queries: int
    num_subsets: int
    num_segment_subsets: int
    other_segment_subsets: int
    num_seeds: int
    num_early: int
    kinds: list[Kind]
    hidden_share: float
    relabelled_share: float
    transformer: dict[str, Any]
    other: dict[str, Any]


@dataclass(frozen=True)
class QueryLosses:
    """The conditional losses of tokens (sentence number, start, stop) with their gold labels, (Q, 3)."""

    sentences: tuple[Sentence, ...]
    segments: Tensor

    @torch.no_grad()
    def __call__(self, tagger: Tagger) -> Tensor:
        """On a tagger, (Q,) float64."""
        rows = tagger.rows(self.sentences)
        scores = tagger.head(rows.features.to(tagger.head.weight), rows.lengths)
        return crf.conditional_loss(scores, pad_rows(rows.labels, rows.lengths), self.segments).double().cpu()


@dataclass(frozen=True)
class Draw:
    """Training sentences, queries and subsets, drawn by a seed."""

    train: Corpus
    labels: LabelSet
    asked: QueryLosses
    entities: Tensor
    """(S, 3): sentence number, start, stop."""
    new_types: list[str]
    """For each entity, the type that it gets in ``relabelled``."""
    subsets: dict[Kind, list[list[int]]]
    """Numbers of sentences that are kept, or of entities that are changed."""

    def changed(self, kind: Kind, subset: Sequence[int]) -> list[Sentence]:
        """The training sentences of one run."""
        sentences = self.train.sentences
        if kind == "sentences":
            return [sentences[i] for i in subset]
        labels = [list(sentence.labels) for sentence in sentences]
        for number, start, stop in self.entities[list(subset)].tolist():
            labels[number][start:stop] = [HIDDEN] * (stop - start)
        if kind == "relabelled":
            for entity in subset:
                number, start, stop = self.entities[entity].tolist()
                labels[number][start:stop] = self.labels.decode(self.labels.spell(self.new_types[entity], stop - start))
        return [one.with_labels(new) for one, new in zip(sentences, labels, strict=True)]

    def new_labels(self) -> Tensor:
        """The labels of ``new_types``, (S, longest)."""
        longest = int((self.entities[:, 2] - self.entities[:, 1]).max())
        return torch.tensor([self.labels.spell(type_, longest) for type_ in self.new_types])


def make_draw(setting: Setting, options: LdsOptions, seed: int) -> Draw:
    """Sentences, queries and subsets of one draw."""
    is_transformer = setting.encoder_spec.startswith("transformer:")
    num_segment_subsets = options.num_segment_subsets if is_transformer else options.other_segment_subsets
    rng = random.Random(1000 + seed)

    def in_range(name: str) -> tuple[Corpus, list[Sentence]]:
        corpus = read_split(setting.data, name)
        return corpus, [one for one in corpus.sentences if options.shortest <= len(one) <= options.longest]

    corpus, sentences = in_range(options.train)
    train = corpus.with_sentences(rng.sample(sentences, options.num_train))
    _, validation = in_range(options.validation)
    places = [(i, t) for i, one in enumerate(validation) for t, label in enumerate(one.labels) if label != "O"]
    chosen = sorted(rng.sample(places, options.num_queries))
    numbers = sorted({i for i, _ in chosen})
    tokens = torch.tensor([[numbers.index(i), t, t + 1] for i, t in chosen])
    asked = QueryLosses(tuple(validation[i] for i in numbers), tokens)
    count = len(train.sentences)
    halves = [sorted(rng.sample(range(count), count // 2)) for _ in range(options.num_subsets)]
    labels = LabelSet.from_sentences(corpus.sentences, "iob2")
    entities = [
        (number, one.start, one.stop, one.type)
        for number, sentence in enumerate(train.sentences)
        for one in segments(sentence.labels, labels.scheme)
    ]
    types = sorted({type_ for *_, type_ in entities})
    new_types = [rng.choice([other for other in types if other != type_]) for *_, type_ in entities]

    def parts(share: float) -> list[list[int]]:
        size = round(share * len(entities))
        return [sorted(rng.sample(range(len(entities)), size)) for _ in range(num_segment_subsets)]

    subsets: dict[Kind, list[list[int]]] = {
        "sentences": halves, "hidden": parts(options.hidden_share), "relabelled": parts(options.relabelled_share)
    }  # fmt: skip
    places = torch.tensor([entity[:3] for entity in entities])
    return Draw(train, labels, asked, places, new_types, subsets)


def actual_losses(setting: Setting, name: str, tagger: Tagger, draw: Draw, kind: Kind, num_seeds: int) -> np.ndarray:
    """The losses of the queries after training on each subset with each seed, (subsets, seeds, Q)."""
    subsets = draw.subsets[kind]
    variants = [
        Variant(f"{kind}-{number}-seed-{seed}", draw.changed(kind, subset), seed)
        for number, subset in enumerate(subsets)
        for seed in range(num_seeds)
    ]
    queries = [sentences_digest(draw.asked.sentences), draw.asked.segments.tolist()]
    about = {"subsets": subsets, "types": draw.new_types, "queries": queries}
    found = Trainings(setting, name, Recipe.of(tagger), draw.train).answers(kind, variants, draw.asked, about)
    return found.view(len(subsets), num_seeds, -1).numpy()
