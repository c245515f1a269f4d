"""The paper's CoNLL-2003 files: sentences with their documents, short documents, and random choices of documents."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from tagtrace.data import Corpus, Sentence, read_corpus

FOLDER = "conll2003_corrected"
LONGEST = 800
"""Documents with this many tokens or more are left out, as in the paper."""


def read_split(data: Path, name: str) -> Corpus:
    """Read a file of sentences (``train_original``, ``validation_corrected``, ...), each with its document."""
    corpus = read_corpus(data / FOLDER / f"{name}.jsonl.gz")
    return corpus.with_sentences(with_documents(corpus.sentences))


def with_documents(sentences: Iterable[Sentence]) -> list[Sentence]:
    """The sentences with their documents, taken from their ids: ``conll_train_12_3`` is in ``conll_train_12``."""
    return [replace(one, document=one.id.rsplit("_", 1)[0]) for one in sentences]


def in_documents(sentences: Iterable[Sentence], names: Collection[str]) -> list[Sentence]:
    """The sentences of some documents, in the order of the data."""
    wanted = set(names)
    return [one for one in sentences if one.document in wanted]


def short_documents(sentences: Iterable[Sentence], longest: int = LONGEST) -> list[str]:
    """The documents with fewer than ``longest`` tokens, in the order of the data."""
    sizes = Counter[str]()
    for one in sentences:
        sizes[one.document] += len(one)
    return [name for name, size in sizes.items() if size < longest]


def sample_documents(
    sentences: Sequence[Sentence], names: Collection[str], seed: int, count: int = 10, longest: int = LONGEST
) -> list[Sentence]:
    """The sentences of ``count`` of the documents ``names``, drawn by seed among those that are short enough."""
    short = set(short_documents(sentences, longest))
    return in_documents(sentences, Random(seed).sample([name for name in sorted(names) if name in short], count))


def changed_documents(before: Sequence[Sentence], after: Sequence[Sentence]) -> set[str]:
    """Documents with a sentence whose labels differ."""
    return {new.document for old, new in zip(before, after, strict=True) if old.labels != new.labels}


def soccer_documents(sentences: Iterable[Sentence]) -> set[str]:
    """Documents that begin with the word "soccer"."""
    found, seen = set[str](), set[str]()
    for one in sentences:
        if one.document not in seen and one.tokens[0].lower() == "soccer":
            found.add(one.document)
        seen.add(one.document)
    return found


def published_noise(data: Path) -> tuple[Corpus, dict[str, str]]:
    """The sentences of the authors' noisy file, and the kind of noise of each document that has any.

    The kinds are ``org_to_loc`` (20 documents) and ``random`` (100). Their file has whole documents, which are split
    into sentences again here. It has no documents of 800 tokens or more.
    """
    corpus = read_corpus(data / FOLDER / "train_corrected_modified_docs.jsonl.gz")
    labels = {document.id: iter(document.labels) for document in corpus.sentences}
    true = in_documents(read_split(data, "train_corrected").sentences, labels)
    noised = [one.with_labels([next(labels[one.document]) for _ in one.tokens]) for one in true]
    kinds = {row["id"]: row["metadata"]["modified"] for row in read_rows(corpus.path)}
    return corpus.with_sentences(noised), {name: kind for name, kind in kinds.items() if kind}


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The unchanged rows of a compressed JSONL file, with their metadata."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
