"""A tagger's answers do not depend on how its sentences are batched, and stay in the order they were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tagtrace._checks import DataError, EncoderError, OptionError
from tagtrace._table import fact_table
from tagtrace.data import Corpus, LabelSet, ReadOptions, Sentence, join_documents, normalise, violations
from tagtrace.data.invented import generate
from tagtrace.tagger import (
    HeadOptions,
    Lexical,
    LexicalOptions,
    Tagger,
    crf,
    load_tagger,
    new_tagger,
    save_tagger,
    score_labels,
)
from tagtrace.tagger.rows import pad_rows
from tagtrace.tagger.tagger import length_batches

CORPUS = generate(num_documents=20)
SENTENCES = CORPUS.train[:40]
LABELS = LabelSet(("O", "B-PER", "I-PER", "B-LOC", "I-LOC"), "iob2")
KNOWN = LabelSet.from_sentences(CORPUS.train, "iob2")
WORDS = ("Varn", "beat", "1996", "the", "GmbH", "-")


def random_tagger(seed: int = 0, labels: LabelSet = LABELS, unit: Any = "sentence", **head: Any) -> Tagger:
    """A tagger whose head is drawn, so that every label and every kind of mistake occurs."""
    torch.manual_seed(seed)
    tagger = new_tagger(
        Lexical(LexicalOptions(buckets=128, width=8, hidden=8)), labels, HeadOptions(**head), unit
    ).eval()
    with torch.no_grad():
        for parameter in tagger.head.parameters():
            parameter.normal_()
    return tagger


def corpus_of(sentences: Sequence[Sentence]) -> Corpus:
    return Corpus(Path("dev.conll"), tuple(sentences), "iob2", ReadOptions(), "0")


TAGGER = random_tagger()


def test_it_describes_itself(tmp_path: Path) -> None:
    labels = LabelSet(("O", "B-<b>", "I-<b>"), "iob2")
    tagger = random_tagger(labels=labels, start_end=True)
    weights = sum(value.numel() for value in tagger.encoder.parameters())
    (table,) = tagger.describe()
    facts = {
        "labels": "3, iob2: O B-<b> I-<b>",
        "encoder": f"lexical, {tagger.encoder.dim} features, {weights:,} weights",
        "head": "crf, with start and end scores",
        "labels at a time": "one sentence",
        "saved in": "nowhere yet",
    }
    assert table == fact_table("tagger", facts)
    page = tagger._repr_html_()
    assert "B-&lt;b&gt; I-&lt;b&gt;" in page
    assert "<b>" not in page
    save_tagger(tagger, tmp_path / "<i>mine")
    assert f"{tmp_path}/&lt;i&gt;mine</td>" in tagger._repr_html_()
    assert "lexical" in str(load_tagger(tmp_path / "<i>mine"))


@st.composite
def sentences(draw: st.DrawFn) -> list[Sentence]:
    """Sentences of any lengths, some of them in documents."""
    words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12)
    texts = draw(st.lists(st.tuples(words, st.sampled_from(["", "a", "b"])), max_size=8))
    return [Sentence(tuple(tokens), (), document=document) for tokens, document in texts]


@given(sentences())
def test_predictions_come_in_the_given_order(asked: list[Sentence]) -> None:
    together = TAGGER.predict(asked)
    assert together == [TAGGER.predict([sentence])[0] for sentence in asked]
    assert [len(labels) for labels in together] == [len(sentence) for sentence in asked]


@given(sentences())
def test_documents_are_labelled_as_one_and_split_back(asked: list[Sentence]) -> None:
    tagger = random_tagger(unit="document")
    predicted = tagger.predict(asked)
    assert [len(labels) for labels in predicted] == [len(sentence) for sentence in asked]
    whole = TAGGER.predict(join_documents(asked))  # the same weights, sentence by sentence
    flat = iter([label for labels in whole for label in labels])
    split = [tuple(next(flat) for _ in sentence.tokens) for sentence in asked]
    assert predicted == [normalise(labels, "iob2") for labels in split], "no segment continues into the next sentence"


def test_the_unit_matters() -> None:
    document = [Sentence((word,), (), document="d") for word in WORDS]
    assert random_tagger(unit="document").predict(document) != TAGGER.predict(document)
    with pytest.raises(OptionError, match="paragraph"):
        random_tagger(unit="paragraph")


@pytest.mark.parametrize("head", [{}, {"start_end": True}, {"kind": "softmax"}])
def test_constrained_predictions_are_well_formed(head: dict[str, Any]) -> None:
    num_broken = 0
    for seed in range(10):
        tagger = random_tagger(seed, **head)
        assert not any(violations(labels, "iob2") for labels in tagger.predict(SENTENCES))
        free = tagger.predict(SENTENCES, constrained=False)
        num_broken += sum(bool(violations(labels, "iob2")) for labels in free)
    assert num_broken > 0, "without the constraint such heads break the scheme"


def test_a_head_trained_with_constraints_keeps_them() -> None:
    for seed in range(10):
        tagger = random_tagger(seed, constrained=True)
        assert tagger.predict(SENTENCES, constrained=False) == tagger.predict(SENTENCES)


def test_a_constrained_prediction_is_the_best_well_formed_one() -> None:
    short = [Sentence(tuple(WORDS[i : i + 3]), ()) for i in range(4)]
    for sentence, labels in zip(short, TAGGER.predict(short), strict=True):
        scores = TAGGER.scores([TAGGER.prepare(sentence)])
        grid = torch.cartesian_prod(*[torch.arange(len(LABELS))] * 3)  # (C^3, 3)
        allowed = [not violations(LABELS.decode(row.tolist()), "iob2") for row in grid]
        values = crf.path_score(scores.select(torch.zeros(len(grid), dtype=torch.long)), grid)
        best = int(values.masked_fill(~torch.tensor(allowed), -torch.inf).argmax())
        assert labels == LABELS.decode(grid[best].tolist())


def test_predict_reads_no_labels_and_leaves_the_tagger_as_it_was() -> None:
    odd = [sentence.with_labels(["B-NEVER-SEEN"] * len(sentence)) for sentence in SENTENCES]
    bare = [sentence.with_labels(()) for sentence in SENTENCES]
    expected = TAGGER.predict(bare)
    assert TAGGER.predict(odd) == expected
    training = random_tagger().train()
    assert training.predict(bare) == expected, "dropout must be off"
    assert training.training
    assert training.encoder.training
    assert TAGGER.predict([]) == []


def test_progress_counts_sentences() -> None:
    seen: list[tuple[int, int]] = []
    TAGGER.predict(CORPUS.train * 5, progress=lambda done, total: seen.append((done, total)))
    counts = [done for done, _ in seen]
    assert counts == sorted(counts)
    assert len(counts) > 1
    assert seen[-1] == (5 * len(CORPUS.train), 5 * len(CORPUS.train))


@pytest.mark.parametrize("max_tokens", [1, 30, 200, 10**6])
def test_batches_hold_every_example_once(max_tokens: int) -> None:
    lengths = [len(sentence) for sentence in SENTENCES]
    batches = list(length_batches(lengths, max_tokens))
    assert sorted(index for batch in batches for index in batch) == list(range(len(SENTENCES)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= max_tokens
    assert (len(batches) == 1) == (max_tokens == 10**6)


def test_training_mode_comes_back_after_an_error() -> None:
    tagger = random_tagger().train()

    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tagger.predict(SENTENCES, progress=interrupt)
    assert tagger.training


@pytest.mark.parametrize("unit", ["sentence", "document"])
def test_rows_are_the_encoders_features_in_order(unit: Any) -> None:
    tagger = random_tagger(labels=KNOWN, unit=unit).train()
    rows = tagger.rows(SENTENCES)
    assert tagger.training
    sentences = join_documents(SENTENCES) if unit == "document" else list(SENTENCES)
    assert rows.lengths.tolist() == [len(sentence) for sentence in sentences]
    assert len(set(rows.lengths.tolist())) > 2, "the test needs sentences of several lengths"
    tagger.eval()
    with torch.no_grad():
        alone = torch.cat([tagger.encoder([tagger.encoder.prepare(sentence)]) for sentence in sentences])
    assert rows.features.dtype == torch.float32
    torch.testing.assert_close(rows.features, alone)
    assert KNOWN.decode(rows.labels.tolist()) == tuple(label for s in SENTENCES for label in s.labels)


def test_rows_need_labels_that_the_tagger_knows() -> None:
    tagger = random_tagger(labels=KNOWN)
    with pytest.raises(DataError, match="no labels"):
        tagger.rows([*SENTENCES, SENTENCES[0].with_labels(())])
    with pytest.raises(DataError, match="unknown label 'B-GENE'"):
        tagger.rows([SENTENCES[0].with_labels(["B-GENE"] * len(SENTENCES[0]))])
    with pytest.raises(DataError, match="empty"):
        tagger.rows([])


@pytest.mark.parametrize("head", [{}, {"start_end": True, "constrained": True}, {"kind": "softmax"}])
def test_the_mean_loss_is_the_mean_joint_loss(head: dict[str, Any]) -> None:
    tagger = random_tagger(labels=KNOWN, **head)
    examples = [tagger.prepare(sentence) for sentence in SENTENCES]
    rows = tagger.rows(SENTENCES)
    with torch.no_grad():
        losses = crf.joint_loss(tagger.head(rows.features, rows.lengths), pad_rows(rows.labels, rows.lengths))
    assert tagger.train().mean_loss(examples) == pytest.approx(float(losses.double().mean()), rel=1e-6)


@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.parametrize("unit", ["sentence", "document"])
def test_evaluation_scores_the_predictions(unit: Any, constrained: bool) -> None:
    tagger = random_tagger(labels=KNOWN, unit=unit)
    seen: list[tuple[int, int]] = []
    card = tagger.evaluate(corpus_of(SENTENCES), constrained=constrained, progress=lambda *done: seen.append(done))
    predicted = tagger.predict(SENTENCES, constrained=constrained)
    assert card == score_labels([sentence.labels for sentence in SENTENCES], predicted, "iob2")
    assert card.segments.num_gold > 50
    assert seen[-1] == (len(tagger.joined(SENTENCES)),) * 2


def test_evaluation_of_perfect_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = random_tagger(labels=KNOWN)
    gold = [sentence.labels for sentence in SENTENCES]
    monkeypatch.setattr(tagger, "predict", lambda sentences, **_: gold if sentences == SENTENCES else [])
    card = tagger.evaluate(corpus_of(SENTENCES))
    assert (card.segments.f1, card.tokens.f1, card.accuracy) == (1.0, 1.0, 1.0)


def test_evaluation_refuses_labels_that_the_tagger_does_not_know() -> None:
    tagger = random_tagger(labels=KNOWN)
    odd = SENTENCES[0].with_labels(["B-GENE"] * len(SENTENCES[0]))
    with pytest.raises(DataError, match="unknown label 'B-GENE'"):
        tagger.evaluate(corpus_of([*SENTENCES, odd]))
    with pytest.raises(DataError, match=r"dev\.conll: labels are plain, but the tagger was trained on iob2"):
        tagger.evaluate(replace(corpus_of(SENTENCES), scheme="plain"))
    bare = [sentence.with_labels(()) for sentence in SENTENCES]
    with pytest.raises(DataError, match=r"dev\.conll: labels are none, but the tagger was trained on iob2"):
        tagger.evaluate(replace(corpus_of(bare), scheme="none"))


def test_features_that_are_not_finite_are_refused() -> None:
    tagger = random_tagger(labels=KNOWN)
    with torch.no_grad():
        for parameter in tagger.encoder.parameters():
            parameter.fill_(torch.nan)
    for use in (tagger.predict, tagger.rows):
        with pytest.raises(EncoderError, match="lexical encoder returned NaN"):
            use(SENTENCES)
    with pytest.raises(EncoderError, match="NaN"):
        tagger.mean_loss([tagger.prepare(SENTENCES[0])])
