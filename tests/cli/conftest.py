"""Small invented data, taggers and an index that the tests of several commands share. They only read them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tagtrace import read_corpus
from tagtrace.data import LabelSet
from tagtrace.data.invented import generate, write_invented
from tagtrace.index import IndexOptions, build_index
from tagtrace.tagger import HeadOptions, Lexical, LexicalOptions, new_tagger, save_tagger
from tests.cli.command import succeed


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train, dev and test as CoNLL, dev as JSON lines too, arrays and word vectors."""
    folder = tmp_path_factory.mktemp("data")
    write_invented(generate(num_documents=20), folder)
    sentences = {split: read_corpus(folder / f"{split}.conll").sentences for split in ("train", "dev", "test")}
    rows = [{"tokens": s.tokens, "ner_tags": s.labels, "document": s.document} for s in sentences["dev"]]
    (folder / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = sorted({token for split in sentences.values() for s in split for token in s.tokens})
    table = dict(zip(words, np.random.default_rng(0).normal(size=(len(words), 40)), strict=True))
    lines = (f"{word} {' '.join(f'{x:.4f}' for x in vector)}\n" for word, vector in table.items())
    (folder / "vectors.txt").write_text("".join(lines))
    (folder / "arrays").mkdir()
    for split, members in sentences.items():
        array = np.array([table[token] for s in members for token in s.tokens], dtype=np.float32)
        np.save(folder / "arrays" / f"{split}.conll.npy", array)
    return folder


@pytest.fixture(scope="session")
def tagger(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lexical tagger that was trained for two epochs."""
    folder = tmp_path_factory.mktemp("taggers") / "lexical"
    succeed("train", data / "train.conll", folder, "--dev", data / "dev.conll", "--epochs", 2, "--device", "cpu")
    return folder


def build_beside(folder: Path, head: HeadOptions | None = None) -> Path:
    """Add an untrained ``tagger`` and its ``index`` to a folder with a ``train.conll``."""
    corpus = read_corpus(folder / "train.conll")
    torch.manual_seed(0)
    labels = LabelSet.from_sentences(corpus.sentences, corpus.normalised_scheme)
    tagger = new_tagger(Lexical(LexicalOptions(buckets=64, width=4, hidden=4)), labels, head)
    save_tagger(tagger, folder / "tagger")
    options = IndexOptions(dtype="float32", shard_tokens=300)
    build_index(tagger, corpus, folder / "index", options, tagger_path=folder / "tagger")
    return folder


@pytest.fixture(scope="session")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Invented data, an untrained tagger, its index, and dev data without labels in ``bare``."""
    folder = tmp_path_factory.mktemp("indexed")
    write_invented(generate(num_documents=20), folder)
    sentences = read_corpus(folder / "dev.conll").sentences
    text = ["-DOCSTART-\n\n" * (s.id == f"{s.document}:0") + "\n".join(s.tokens) + "\n\n" for s in sentences]
    (folder / "bare").mkdir()
    (folder / "bare" / "dev.conll").write_text("".join(text))
    rows = [json.dumps({"id": s.id, "document": s.document, "tokens": s.tokens}) for s in sentences]
    (folder / "bare" / "dev.jsonl").write_text("\n".join(rows))
    return build_beside(folder)
