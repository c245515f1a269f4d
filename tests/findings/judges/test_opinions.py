"""Opinions against refits and trainings made here, one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError, TaggerError
from tagtrace.data import Corpus, Sentence
from tagtrace.findings import (
    Probabilities,
    assign_folds,
    averaged,
    encoder_dynamics,
    encoder_opinions,
    head_opinions,
    in_sample,
)
from tagtrace.findings.judges.folds import out_of_sample
from tagtrace.index import Index
from tagtrace.tagger import Head, HeadOptions, RefitOptions, Rows, Step, Tagger, TrainOptions, refit_head, train_tagger
from tagtrace.tagger.recursions import run
from tests.findings.made import LABELS, make_corpus, make_index, make_sentences, make_tagger
from tests.index.test_build import Spelt

RECIPE = TrainOptions(epochs=2, batch_size=4, learning_rate=0.05, dropout=0.1, seed=3)
TRUSTED = make_sentences(5, seed=7)


def joined(parts: Sequence[Rows]) -> Rows:
    return Rows(*(torch.cat([getattr(part, name) for part in parts]) for name in ("features", "labels", "lengths")))


@torch.no_grad()
def marginals(head: Head, sentences: Sequence[Rows]) -> Tensor:
    """Sentence by sentence, (n, C)."""
    return torch.cat([run(head(rows.features.double(), rows.lengths)).nodes()[0] for rows in sentences])


@pytest.fixture(params=[HeadOptions(start_end=True), HeadOptions("softmax")], ids=["crf", "softmax"], scope="module")
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Index:
    return make_index(tmp_path_factory.mktemp("made"), head=request.param)


# By heads


def test_head_opinions_are_those_of_refits_with_the_trusted_sentences(index: Index) -> None:
    trusted = make_tagger(index.manifest.head).rows(TRUSTED)
    calls: list[tuple[int, int]] = []
    inside, outside = head_opinions(index, trusted, 3, seed=2, progress=lambda *counts: calls.append(counts))
    assert (inside.sample, outside.sample) == ("in-sample", "out-of-sample")
    assert calls[-1] == (index.num_sentences, index.num_sentences)
    sentences = [index.sentence_rows(sentence_number) for sentence_number in range(index.num_sentences)]
    folds = assign_folds(index.documents, 3, seed=2).tolist()
    exact = RefitOptions(index.manifest.l2, tolerance=1e-4)
    rows = joined([*sentences, *[trusted] * 4])  # 18 sentences, 5 trusted
    head = refit_head(index.head, rows, exact).head
    torch.testing.assert_close(inside.marginals.double(), marginals(head, sentences), rtol=0, atol=1e-5)
    places = torch.repeat_interleave(torch.tensor(folds), index.lengths)
    for fold in range(3):
        others = [sentence_number for sentence_number, number in zip(sentences, folds, strict=True) if number != fold]
        rows = joined([*others, *[trusted] * -(-len(others) // 5)])
        head = refit_head(index.head, rows, exact).head
        own = [sentence_number for sentence_number, number in zip(sentences, folds, strict=True) if number == fold]
        torch.testing.assert_close(outside.marginals[places == fold].double(), marginals(head, own), rtol=0, atol=1e-5)
    for found in (inside, outside):
        found.check_index(index)
        assert bool(found.conditional_losses.isfinite().all())
        assert bool(found.joint_losses.isfinite().all())
    assert float((inside.marginals - in_sample(index).marginals).abs().max()) > 0.05


def test_without_trusted_sentences_they_are_the_plain_ones(index: Index) -> None:
    inside, outside = head_opinions(index, None, 3, seed=1)
    assert torch.equal(inside.marginals, in_sample(index).marginals)
    assert torch.equal(inside.joint_losses, in_sample(index).joint_losses)
    assert torch.equal(outside.marginals, out_of_sample(index, 3, seed=1).marginals)


# By taggers


def trained_tagger(corpus: Corpus, unit: str = "sentence") -> Tagger:
    made = make_tagger()
    tagger = Tagger(made.encoder, made.head, LABELS, unit)  # type: ignore[arg-type]
    train_tagger(tagger, corpus.sentences, (), RECIPE)
    return tagger


def taught(tagger: Tagger) -> Tagger:
    """Trained further on the trusted sentences: 2 batches, so 15 epochs for 30 steps."""
    num_batches = -(-len(tagger.joined(TRUSTED)) // 4)
    options = replace(RECIPE, epochs=30 // num_batches, learning_rate=0.7 * 0.05, head_learning_rate=0.05,
                      schedule="linear", keep="last")  # fmt: skip
    train_tagger(tagger, TRUSTED, (), options)
    return tagger


def believed_by(tagger: Tagger, sentences: Sequence[Sentence]) -> Tensor:
    rows = [tagger.rows([sentence]) for sentence in tagger.joined(sentences)]
    return marginals(deepcopy(tagger.head).double(), rows)


@pytest.mark.parametrize("unit", ["sentence", "document"])
def test_encoder_opinions_are_those_of_taggers_trained_here(tmp_path: Path, unit: str) -> None:
    corpus = make_corpus()
    if unit == "document":  # documents are sentences: their sentences are next to each other, two in each
        ordered = [replace(one, document=f"d{n // 2}") for n, one in enumerate(corpus.sentences)]
        corpus = corpus.with_sentences(ordered)
    tagger = trained_tagger(corpus, unit)
    weights, record = deepcopy(tagger.state_dict()), deepcopy(tagger.record)
    inside, outside = encoder_opinions(
        tagger, corpus, tmp_path / "folds", TRUSTED, 3, seed=5, encoder=Spelt(dim=4, seed=8)
    )
    assert all(torch.equal(weights[name], value) for name, value in tagger.state_dict().items())
    assert tagger.record == record
    assert (inside.sample, outside.sample) == ("in-sample", "out-of-sample")
    sentences = tagger.joined(corpus.sentences)
    assert len(inside.lengths) == len(sentences) == (9 if unit == "document" else 18)
    expected = believed_by(taught(deepcopy(tagger)), corpus.sentences)
    torch.testing.assert_close(inside.marginals.double(), expected, rtol=0, atol=1e-5)
    folds = assign_folds([sentence.document for sentence in sentences], 3, seed=5)
    places = torch.repeat_interleave(folds, outside.lengths)
    for fold in range(3):
        with torch.random.fork_rng():
            torch.manual_seed(5)
            head = Head(4, LABELS)
        fresh = Tagger(Spelt(dim=4, seed=8), head, LABELS, unit)  # type: ignore[arg-type]
        train_tagger(fresh, [c for c, f in zip(sentences, folds, strict=True) if f != fold], (), RECIPE)
        expected = believed_by(taught(fresh), [c for c, f in zip(sentences, folds, strict=True) if f == fold])
        torch.testing.assert_close(outside.marginals[places == fold].double(), expected, rtol=0, atol=1e-5)


def test_without_trusted_sentences_the_folds_are_asked_after_every_epoch(tmp_path: Path) -> None:
    corpus, seen = make_corpus(), set[int]()
    tagger = trained_tagger(corpus)
    opinions = encoder_opinions(
        tagger, corpus, tmp_path / "folds", (), 3, encoder=Spelt(dim=4), training=lambda fold, _: seen.add(fold)
    )
    assert seen == {0, 1, 2}, "the tagger itself is not trained again"
    fresh = Tagger(Spelt(dim=4), make_tagger().head, LABELS)
    expected = encoder_dynamics(fresh, corpus, tmp_path / "others", RECIPE, 3)
    for one, other in zip(opinions, expected, strict=True):
        assert torch.equal(one.marginals, other.marginals)
        assert one.sample == other.sample


def test_a_refitted_tagger_is_asked_as_it_is(tmp_path: Path) -> None:
    """Its head is float64; learning further makes a copy float32."""
    corpus = make_corpus()
    tagger = trained_tagger(corpus)
    tagger.head = refit_head(tagger.head, tagger.rows(corpus.sentences), RefitOptions(0.5)).head
    assert tagger.head.weight.dtype == torch.float64
    expected = believed_by(taught(deepcopy(tagger)), corpus.sentences)
    inside, _ = encoder_opinions(tagger, corpus, tmp_path / "folds", TRUSTED, 3, encoder=Spelt(dim=4))
    torch.testing.assert_close(inside.marginals.double(), expected, rtol=0, atol=1e-5)
    assert tagger.head.weight.dtype == torch.float64


def test_finished_folds_are_not_trained_again(tmp_path: Path) -> None:
    corpus, seen, counts = make_corpus(), set[int](), list[tuple[int, int]]()
    tagger = trained_tagger(corpus)

    def ask(
        trusted: Sequence[Sentence] = TRUSTED, training: Callable[[int, Step], None] | None = None, seed: int = 0
    ) -> list[Probabilities]:
        return encoder_opinions(
            tagger, corpus, tmp_path / "folds", trusted, 3, seed, encoder=Spelt(dim=4), training=training,
            progress=lambda *count: counts.append(count),
        )  # fmt: skip

    first = ask(training=lambda fold, _: seen.add(fold))
    assert seen == {0, 1, 2, 3}  # the last is the tagger itself
    assert counts[-1] == (18, 18)
    seen.clear()
    again = ask(training=lambda fold, _: seen.add(fold))
    assert not seen
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one.marginals, other.marginals)
        assert torch.equal(one.conditional_losses, other.conditional_losses)
    for trusted in (TRUSTED[1:], (), [TRUSTED[0].with_labels(["O"] * len(TRUSTED[0])), *TRUSTED[1:]]):
        with pytest.raises(OptionError, match=r"another run \(different trusted(, opinions)?\)"):
            ask(trusted)
    with pytest.raises(OptionError, match=r"another run \(different tagger, seed\)"):
        ask(seed=1)


def test_taggers_that_cannot_be_trained_again_are_refused(tmp_path: Path) -> None:
    corpus = make_corpus()
    with pytest.raises(TaggerError, match="does not record how it was trained"):
        encoder_opinions(make_tagger(), corpus, tmp_path / "folds", TRUSTED, 3)
    with pytest.raises(OptionError, match="cannot make an untrained spelt encoder"):
        encoder_opinions(trained_tagger(corpus), corpus, tmp_path / "folds", TRUSTED, 3)
    assert not (tmp_path / "folds").exists()


# Together


def test_averaged_is_the_mean(index: Index) -> None:
    inside, outside = in_sample(index), out_of_sample(index, 3)
    found = averaged([inside, outside, outside])
    assert found.dtype == torch.float32
    expected = inside.marginals / 3 + outside.marginals * 2 / 3
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(found.sum(1), torch.ones(index.num_tokens), rtol=0, atol=1e-5)
    assert torch.equal(averaged([inside]), inside.marginals)


def test_opinions_on_different_data_are_refused(index: Index) -> None:
    one = in_sample(index)
    other_labels = replace(one, labels=(one.labels + 1) % len(index.labels))
    other_lengths = replace(one, lengths=one.lengths.flip(0))
    fewer = replace(one, marginals=one.marginals[:, 1:])
    assert not torch.equal(other_lengths.lengths, one.lengths)
    for wrong in (other_labels, other_lengths, fewer):
        with pytest.raises(DataError, match="the opinions were computed on different data"):
            averaged([one, wrong])
    with pytest.raises(DataError, match="no opinions"):
        averaged([])
