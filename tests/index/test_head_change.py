"""How many predictions the refit of the head changes, against predictions made by the tagger itself."""

from __future__ import annotations

from pathlib import Path

import torch

from tagtrace.data import Corpus, read_corpus
from tagtrace.data.invented import generate, write_invented
from tagtrace.index import Index, IndexOptions, build_index
from tagtrace.index.head_change import head_change
from tagtrace.tagger import HeadOptions, Lexical, LexicalOptions, Tagger, TrainOptions, train


def built(folder: Path, *, refit: bool = True) -> tuple[Index, Tagger, Corpus]:
    """An index in three shards, of a tagger that was trained for one epoch."""
    write_invented(generate(num_documents=20), folder)
    corpus = read_corpus(folder / "train.conll")
    torch.manual_seed(0)
    encoder = Lexical(LexicalOptions(buckets=256, width=8, hidden=8))
    options = TrainOptions(epochs=1, learning_rate=2e-2)
    tagger = train(corpus, encoder=encoder, head=HeadOptions("softmax"), options=options, device="cpu")
    shards = IndexOptions("float32", refit=refit, shard_tokens=corpus.num_tokens // 3 + 60)
    return build_index(tagger, corpus, folder / "index", shards), tagger, corpus


def test_it_counts_what_predict_and_evaluate_see(tmp_path: Path) -> None:
    index, tagger, corpus = built(tmp_path)
    assert len(index.shards) == 3
    found, own = head_change(index, tagger), index.tagger()
    pairs = zip(tagger.predict(corpus), own.predict(corpus), strict=True)
    assert found.num_changed == sum(a != b for one, other in pairs for a, b in zip(one, other, strict=True)) > 0
    assert found.num_tokens == corpus.num_tokens
    assert found.f1_before == tagger.evaluate(corpus).segments.f1
    assert found.f1_after == own.evaluate(corpus).segments.f1
    assert f"for {found.num_changed:,} of {found.num_tokens:,} training tokens" in str(found)


def test_without_a_refit_nothing_changes(tmp_path: Path) -> None:
    index, tagger, _ = built(tmp_path, refit=False)
    found = head_change(index, tagger)
    assert (found.num_changed, found.f1_before) == (0, found.f1_after)
