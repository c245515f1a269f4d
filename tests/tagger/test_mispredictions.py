"""Mispredictions are where predicted and gold segments differ, each with the loss of its gold labels."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tagtrace._checks import DataError
from tagtrace.data import Corpus, ReadOptions, Sentence, differences, join_documents
from tagtrace.tagger import Misprediction, Tagger, crf, mispredictions
from tagtrace.tagger.mispredictions import predict_batches
from tests.tagger.test_tagger import CORPUS, KNOWN, random_tagger

SENTENCES = CORPUS.train[:40]
HEADS = [{}, {"start_end": True, "constrained": True}, {"kind": "softmax"}]


def places(found: list[Misprediction]) -> list[tuple[str, int, int]]:
    return [(one.sentence.id, one.start, one.stop) for one in found]


def corpus_of(sentences: tuple[Sentence, ...]) -> Corpus:
    return Corpus(Path("train.conll"), sentences, "iob2", ReadOptions(), "0")


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_they_are_the_differences_between_gold_and_predicted_labels(head: dict[str, Any]) -> None:
    tagger = random_tagger(labels=KNOWN, **head)
    predicted = tagger.predict(SENTENCES)
    expected = [
        (sentence.id, start, stop)
        for sentence, labels in zip(SENTENCES, predicted, strict=True)
        for start, stop in differences(sentence.labels, labels, "iob2")
    ]
    found = mispredictions(tagger, SENTENCES)
    assert places(found) == expected
    assert len(found) > 40
    by_id = dict(zip([sentence.id for sentence in SENTENCES], predicted, strict=True))
    assert all(one.predicted == by_id[one.sentence.id] for one in found)
    assert mispredictions(tagger, corpus_of(SENTENCES)) == found


def test_overlapping_segments_are_one_misprediction(monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = random_tagger(labels=KNOWN)
    gold = ("B-PER", "I-PER", "O", "B-LOC", "I-LOC", "O")
    wrong = ("O", "B-LOC", "I-LOC", "B-LOC", "I-LOC", "B-ORG")
    sentence = Sentence(("Mira", "Varn", "beat", "Port", "Ilvane", "."), gold, id="s:0")
    monkeypatch.setattr(tagger.head, "decode", lambda *_: [KNOWN.encode(wrong)])
    first, second = mispredictions(tagger, [sentence])
    assert (first.start, first.stop) == (0, 3), "PER 0:2 and LOC 1:3 overlap"
    assert (second.start, second.stop) == (5, 6)
    assert first.gold_labels == ("B-PER", "I-PER", "O")
    assert first.predicted_labels == ("O", "B-LOC", "I-LOC")
    assert (first.pair, second.pair) == ("PER:LOC", "O:ORG")
    assert first.text == "[Mira Varn beat] Port Ilvane ."
    assert str(first) == "s:0 0:3  gold B-PER I-PER O, predicted O B-LOC I-LOC: [Mira Varn beat] Port Ilvane ."
    monkeypatch.setattr(tagger.head, "decode", lambda *_: [KNOWN.encode(gold)])
    assert mispredictions(tagger, [sentence]) == []


def expected_loss(tagger: Tagger, one: Misprediction) -> float:
    """The conditional loss, for one sentence alone."""
    gold = torch.tensor([tagger.labels.encode(one.sentence.labels)])
    with torch.no_grad():
        features = tagger.features(one.sentence).to(tagger.head.weight)
        scores = tagger.head(features, torch.tensor([len(one.sentence)]))
        return float(crf.conditional_loss(scores, gold, torch.tensor([[0, one.start, one.stop]])))


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_their_losses_are_conditional_losses(head: dict[str, Any]) -> None:
    tagger = random_tagger(labels=KNOWN, **head)
    found = mispredictions(tagger, SENTENCES)
    for one in found[::5]:
        assert one.loss == pytest.approx(expected_loss(tagger, one), rel=1e-4, abs=1e-5)
    assert all(one.loss > 0 for one in found)


@pytest.mark.parametrize("together", [1, 7, 1000])
def test_the_size_of_batches_changes_nothing(monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    tagger = random_tagger(labels=KNOWN)
    expected = mispredictions(tagger, SENTENCES)
    monkeypatch.setattr(sys.modules["tagtrace.tagger.mispredictions"], "TOGETHER", together)
    found = mispredictions(tagger, SENTENCES)
    assert places(found) == places(expected)
    assert [one.loss for one in found] == pytest.approx([one.loss for one in expected], rel=1e-4, abs=1e-5)
    assert sum(len(batch.predicted) for batch in predict_batches(tagger, SENTENCES)) == len(SENTENCES)


def test_documents_are_predicted_as_one_sentence() -> None:
    tagger = random_tagger(labels=KNOWN, unit="document")
    documents = join_documents(SENTENCES)
    assert len(documents) < len(SENTENCES)
    alone = random_tagger(labels=KNOWN)  # the same weights, sentence by sentence
    found = mispredictions(tagger, SENTENCES)
    assert places(found) == places(mispredictions(alone, documents))
    assert {one.sentence.id for one in found} <= {document.id for document in documents}
    assert max(one.stop for one in found) > max(map(len, SENTENCES)), "some lie beyond the first sentence"


def test_empty_sentences_are_passed_over() -> None:
    tagger, empty = random_tagger(labels=KNOWN), Sentence((), (), id="empty")
    assert mispredictions(tagger, [empty, *SENTENCES, empty]) == mispredictions(tagger, SENTENCES)


def test_data_without_labels_is_refused() -> None:
    tagger = random_tagger(labels=KNOWN)
    with pytest.raises(DataError, match="has no labels here"):
        mispredictions(tagger, [*SENTENCES, SENTENCES[0].with_labels(())])
    with pytest.raises(DataError, match="unknown label 'B-GENE'"):
        mispredictions(tagger, [SENTENCES[0].with_labels(["B-GENE"] * len(SENTENCES[0]))])
    with pytest.raises(DataError, match="empty"):
        mispredictions(tagger, [])
