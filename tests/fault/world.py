"""A small world: data, a tagger, an index, an audit, a review with decisions, and what else commands read.

It is made by the commands themselves, run in the folder in which every later run finds a copy, so that paths which
files remember stay right.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from transformers import BertConfig

from tagtrace.data import Sentence, read_corpus
from tagtrace.data.invented import generate
from tagtrace.review import DecisionRequest, open_review, read_project_file
from tests.fault import forked
from tests.tagger.foreign.trained import random_classifier, wordpiece
from tests.tagger.foreign.trained_pipeline import train_pipeline

TYPES = ("LOC", "ORG")
SENTENCES = {"train": 24, "dev": 8, "test": 8}
WIDTH = 5
"""Numbers in a word vector."""
TRAINING = ("--dev", "dev.conll", "--batch-size", "6", "--learning-rate", "0.1", "--dropout", "0", "--device", "cpu")
AUDIT = ("--judges", "head", "--folds", "2", "--most", "30", "--effects", "0", "--device", "cpu")


def make_world(here: Path, seed: int = 0) -> None:
    """Fill an empty folder. Whoever calls this has used torch and must not fork afterwards."""
    here.mkdir(parents=True, exist_ok=True)
    for name, sentences in _splits(seed).items():
        (here / name).write_text("".join(_conll(sentences)), encoding="utf-8")
    _extras(here)


STEPS: tuple[tuple[str, ...], ...] = (
    ("train", "train.conll", "tagger", *TRAINING, "--epochs", "12"),
    ("index", "tagger", "train.conll", "index", "--seeds", "1", "--shard-tokens", "150", "--device", "cpu"),
    ("index", "tagger", "train.conll", "plain", "--seeds", "0", "--device", "cpu"),
    ("audit", "index", "--trusted", "dev.conll", "--out", "audit", *AUDIT),
    ("flip", "index", "--data", "dev.conll", "--sentence", "dev-0:1", "--segment", "0:1", "--most", "1"),
    ("fix", "train.conll", "audit/findings.jsonl", "fixed.conll", "--top", "3"),
)
"""Commands that make the rest of the world."""


def _splits(seed: int) -> dict[str, list[Sentence]]:
    made = generate(seed, num_documents=20, random_share=0.1)
    names = {"train": made.train, "true": made.train_true, "dev": made.dev, "test": made.test}
    return {
        f"{name}.conll": [_fewer_types(one) for one in list(sentences)[: SENTENCES.get(name, SENTENCES["train"])]]
        for name, sentences in names.items()
    }


def _fewer_types(sentence: Sentence) -> Sentence:
    return sentence.with_labels([label if label[2:] in TYPES else "O" for label in sentence.labels])


def _conll(sentences: list[Sentence]) -> Iterator[str]:
    document = None
    for sentence in sentences:
        if sentence.document != document:
            document = sentence.document
            yield "-DOCSTART-\tO\n\n"
        yield from (f"{token}\t{label}\n" for token, label in zip(sentence.tokens, sentence.labels, strict=True))
        yield "\n"


def _extras(here: Path) -> None:
    """The same data in other forms, vectors, arrays, edits, models of other libraries, and data of an experiment."""
    splits = {name: read_corpus(here / f"{name}.conll").sentences for name in ("train", "dev", "test")}
    rows = [{"id": s.id, "document": s.document, "tokens": s.tokens, "ner_tags": s.labels} for s in splits["dev"]]
    (here / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = sorted({token for sentences in splits.values() for s in sentences for token in s.tokens})
    table = np.random.default_rng(0).normal(size=(len(words), WIDTH)).astype(np.float32)
    rows = [f"{word} {' '.join(f'{x:.4f}' for x in vector)}\n" for word, vector in zip(words, table, strict=True)]
    (here / "vectors.txt").write_text("".join(rows[:40]))  # taken for data, each number is a label
    (here / "arrays").mkdir()
    place = {word: number for number, word in enumerate(words)}
    for name, sentences in splits.items():
        array = table[[place[token] for s in sentences for token in s.tokens]]
        np.save(here / "arrays" / f"{name}.conll.npy", array)
    edits = [
        {"id": splits["train"][1].id, "start": 0, "stop": 1, "labels": ["O"]},
        {"id": splits["train"][2].id, "start": 0, "stop": 2},
    ]
    (here / "edits.jsonl").write_text("".join(json.dumps(edit) + "\n" for edit in edits))
    _checkpoint(here / "checkpoint", splits["train"])
    train_pipeline(here / "pipeline", splits["train"], epochs=3)
    paper = here / "paper"
    for folder in ("conll2003", "glove"):
        (paper / folder).mkdir(parents=True)
    for name in ("train", "dev"):
        packed = gzip.compress((here / f"{name}.conll").read_bytes(), mtime=0)
        (paper / "conll2003" / f"{name}.txt.gz").write_bytes(packed)
    np.savez(paper / "glove" / "glove6b_100d.npz", words=np.array(words), vectors=table)


def _checkpoint(folder: Path, sentences: Sequence[Sentence]) -> None:
    """A Hugging Face token classifier with random weights."""
    tokenizer = wordpiece(sentences, size=200)
    names = ("O", *(f"{prefix}-{type_}" for type_ in TYPES for prefix in "BI"))
    sizes: dict[str, Any] = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    config = BertConfig(vocab_size=len(tokenizer), id2label=dict(enumerate(names)), pad_token_id=0, **sizes)
    random_classifier(folder, config, tokenizer)


def decide(here: Path) -> None:
    """Make ``review``, a project in which three findings are decided on."""
    project = here / "review"
    project.mkdir()
    saved = {"index": "../index", "data": "../train.conll", "dev": "../dev.conll", "audit": "../audit", "reading": {}}
    (project / "project.json").write_text(json.dumps(saved, indent=1))
    review = open_review(read_project_file(project), "ada")
    for one, action in zip(review.data.findings, ("accept", "reject", "skip"), strict=False):
        segment = (one.sentence_number, one.start, one.stop)
        review.decisions.decide("ada", [DecisionRequest(action, *segment, rank=one.rank, key=f"made-{one.rank}")])
    review.close()


def build(root: Path, seed: int = 0) -> Path:
    """The folder of a finished world, made if there is none: ``root/world-SEED``."""
    world, here = root / f"world-{seed}", root / "here"
    if world.exists():
        return world
    shutil.rmtree(here, ignore_errors=True)
    in_fork(lambda: make_world(here, seed))
    for step in STEPS:
        done = forked.run(step, here, limit=300)
        assert done.status == 0, (step, done.stderr.decode())
    in_fork(lambda: decide(here))
    os.replace(here, world)
    return world


def in_fork(work: Callable[[], None]) -> None:
    """Call a function in a process of its own, and wait for its end."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
