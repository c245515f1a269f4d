"""A small index of invented sentences, in several shards, for tests of findings."""

from __future__ import annotations

import random
from pathlib import Path

from tagtrace.data import Corpus, LabelSet, ReadOptions, Sentence
from tagtrace.index import Index, IndexOptions, build_index, open_index
from tagtrace.tagger import HeadOptions, Rows, Tagger, new_tagger
from tests.index.test_build import Spelt

LABELS = LabelSet(("O", "B-X", "I-X", "B-Y", "I-Y"), "iob2")
WORDS = [f"w{number}" for number in range(12)]


def make_tagger(head: HeadOptions | None = None, dim: int = 4) -> Tagger:
    return new_tagger(Spelt(dim=dim), LABELS, head)


def make_sentences(num_sentences: int, seed: int = 0, *, documents: bool = True) -> tuple[Sentence, ...]:
    """Sentences of 1 to 4 tokens, three a document (not next to each other)."""
    rng = random.Random(seed)
    sentences: list[Sentence] = []
    for number in range(num_sentences):
        tokens = tuple(rng.choices(WORDS, k=rng.randint(1, 4)))
        labels: list[str] = []
        for _ in tokens:
            more = [f"I-{labels[-1][2:]}"] if labels and labels[-1] != "O" else []
            labels.append(rng.choice(["O", "B-X", "B-Y", *more]))
        document = f"doc-{number % -(-num_sentences // 3)}" if documents else ""
        sentences.append(Sentence(tokens, tuple(labels), f"s{seed}:{number}", document))
    return tuple(sentences)


def make_corpus(num_sentences: int = 18, seed: int = 0, *, documents: bool = True) -> Corpus:
    sentences = make_sentences(num_sentences, seed, documents=documents)
    return Corpus(Path("train.conll"), sentences, "iob2", ReadOptions(), f"made-{seed}")


def make_index(
    folder: Path,
    corpus: Corpus | None = None,
    head: HeadOptions | None = None,
    dtype: str = "float32",
    l2: float = 0.5,
) -> Index:
    options = IndexOptions(dtype=dtype, shard_tokens=12, l2=l2)  # type: ignore[arg-type]
    build_index(make_tagger(head), corpus or make_corpus(), folder / "index", options)
    index = open_index(folder / "index")
    assert len(index.shards) > 2
    return index


def sentence_tokens(index: Index) -> list[tuple[int, int]]:
    """(sentence, position) of every token."""
    return [(number, t) for number, length in enumerate(index.lengths.tolist()) for t in range(length)]


def double_rows(index: Index) -> Rows:
    rows = index.rows.joined()
    return Rows(rows.features.double(), rows.labels, rows.lengths)
