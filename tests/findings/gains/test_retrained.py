"""The gain of fixing labels: both ways of retraining, on invented newswire with planted errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tagtrace._checks import DataError, OptionError, TaggerError
from tagtrace.data import Corpus, LabelSet, Sentence, read_corpus
from tagtrace.data.invented import generate, write_invented
from tagtrace.findings.gains.bootstrap import paired_bootstrap
from tagtrace.findings.gains.compare import compare
from tagtrace.findings.gains.retrained import full_gain, head_gain, num_changed
from tagtrace.tagger import (
    Lexical,
    LexicalOptions,
    RefitOptions,
    Step,
    Tagger,
    TrainOptions,
    Vectors,
    new_tagger,
    refit_tagger,
    score_labels,
    train_tagger,
)

SMALL = LexicalOptions(buckets=2048, width=32, hidden=32)
TINY = LexicalOptions(buckets=256, width=8, hidden=8)
RECIPE = TrainOptions(epochs=2, batch_size=8, learning_rate=2e-2, seed=3)
LOOSE = RefitOptions(tolerance=1e-4)

Splits = dict[str, Corpus]


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> Splits:
    folder = tmp_path_factory.mktemp("data")
    write_invented(generate(num_documents=60, random_share=0.4), folder)
    return {name: read_corpus(folder / f"{name}.conll") for name in ("train", "train_true", "dev", "test")}


def few(corpus: Corpus, number: int = 40) -> Corpus:
    return corpus.with_sentences(corpus.sentences[:number])


def untrained(splits: Splits, unit: str = "sentence", seed: int = 3, options: LexicalOptions = TINY) -> Tagger:
    labels = LabelSet.from_sentences(splits["train_true"].sentences, "iob2")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        encoder = Lexical(options)
    return new_tagger(encoder, labels, unit=unit, seed=seed)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def small(splits: Splits) -> Splits:
    return {name: few(corpus) for name, corpus in splits.items()}


@pytest.fixture(scope="module")
def trained(small: Splits) -> Tagger:
    tagger = untrained(small, options=SMALL)
    train_tagger(tagger, small["train"].sentences, (), RECIPE)
    return tagger


# Comparing predictions

MADE = [
    Sentence(("a", "b"), ("B-X", "I-X"), "0", "d"),
    Sentence(("c",), ("B-Y",), "1", "d"),
    Sentence(("d", "e"), ("O", "B-X"), "2", "e"),
]
WORSE = [("B-X", "O"), ("B-Y",), ("B-Y", "B-X")]
RIGHT = [sentence.labels for sentence in MADE]


def test_counts_are_summed_by_document() -> None:
    found = compare(MADE, [WORSE], [RIGHT], "iob2", samples=50, seed=1)
    assert (found.unit, found.num_units) == ("document", 2)
    before, after = [[1, 2, 2], [1, 2, 1]], [[2, 2, 2], [1, 1, 1]]  # by hand: d, e
    assert found.f1 == paired_bootstrap(before, after, 50, 1)
    assert found.by_type["X"] == paired_bootstrap([[0, 1, 1], [1, 1, 1]], [[1, 1, 1], [1, 1, 1]], 50, 1)
    assert found.by_type["Y"] == paired_bootstrap([[1, 1, 1], [0, 1, 0]], [[1, 1, 1], [0, 0, 0]], 50, 1)
    assert list(found.by_type) == ["X", "Y"]
    assert found.accuracy == paired_bootstrap([[2, 3, 3], [1, 2, 2]], [[3, 3, 3], [2, 2, 2]], 50, 1)
    assert found.before == (score_labels(RIGHT, WORSE, "iob2"),)
    assert (found.before[0].segments.f1, found.before[0].accuracy) == (found.f1.before, found.accuracy.before)


def test_without_documents_the_units_are_sentences() -> None:
    for documents in (("", "", ""), ("d", "d", "d")):
        made = [replace(s, document=d) for s, d in zip(MADE, documents, strict=True)]
        found = compare(made, [WORSE], [RIGHT], "iob2")
        assert (found.unit, found.num_units) == ("sentence", 3)
    mixed = [replace(s, document=d) for s, d in zip(MADE, ("d", "d", ""), strict=True)]
    assert compare(mixed, [WORSE], [RIGHT], "iob2").num_units == 2


def test_several_runs_are_averaged() -> None:
    found = compare(MADE, [WORSE, RIGHT], [RIGHT, RIGHT], "iob2")
    one = compare(MADE, [WORSE], [RIGHT], "iob2")
    assert found.f1.difference == pytest.approx(one.f1.difference / 2)
    assert found.by_type["Y"].before == pytest.approx((one.by_type["Y"].before + 1) / 2)
    assert len(found.before) == len(found.after) == 2


# The head


def test_true_labels_are_a_gain(splits: Splits) -> None:
    tagger = untrained(splits, options=SMALL)
    train_tagger(tagger, splits["train"].sentences, (), TrainOptions(epochs=3, learning_rate=1e-2))
    weights = tagger.head.flat().clone()
    found = head_gain(tagger, splits["train"], splits["train_true"], splits["test"], RefitOptions(tolerance=1e-3))
    assert found.unit == "document"
    assert found.f1.low > 0
    assert found.accuracy.low > 0
    assert torch.equal(tagger.head.flat(), weights)


@pytest.mark.parametrize("unit", ["sentence", "document"])
def test_head_gain_is_that_of_two_refitted_taggers(small: Splits, unit: str) -> None:
    small = {name: few(corpus, 16 if unit == "sentence" else 8) for name, corpus in small.items()}
    found = head_gain(untrained(small, unit), small["train"], small["train_true"], small["test"], LOOSE)
    gold = [sentence.labels for sentence in small["test"].sentences]
    for name, cards in (("train", found.before), ("train_true", found.after)):
        tagger = untrained(small, unit)
        refit_tagger(tagger, small[name].sentences, LOOSE)
        assert cards == (score_labels(gold, tagger.predict(small["test"].sentences), "iob2"),)
    assert found.before != found.after


def test_known_features_are_used(small: Splits) -> None:
    tagger = untrained(small)
    rows = tagger.rows(small["train"].sentences)
    corpora = small["train"], small["train_true"], small["test"]
    counted: list[int] = []
    known = head_gain(tagger, *corpora, LOOSE, rows=rows, encoding=lambda _, total: counted.append(total))
    assert set(counted) == {len(small["test"].sentences)}
    assert known == head_gain(tagger, *corpora, LOOSE)


# Everything


def test_the_run_before_is_the_taggers_own(trained: Tagger, small: Splits) -> None:
    """Same recipe, same seed, same first weights: training anew on the same data gives the tagger itself."""
    found = full_gain(trained, small["train"], small["train_true"], small["test"], num_seeds=2)
    gold = [sentence.labels for sentence in small["test"].sentences]
    own = score_labels(gold, trained.predict(small["test"].sentences), "iob2")
    assert own.segments.num_correct > 0
    assert found.before[0] == own
    assert found.before[1] != own
    other = untrained(small, seed=4, options=SMALL)
    train_tagger(other, small["train_true"].sentences, (), replace(RECIPE, seed=4))
    assert found.after[1] == score_labels(gold, other.predict(small["test"].sentences), "iob2")
    assert found.f1.before == pytest.approx(np.mean([card.segments.f1 for card in found.before]))


def test_a_tagger_that_was_refitted_is_refitted_again(small: Splits) -> None:
    tagger = untrained(small)
    train_tagger(tagger, small["train"].sentences, (), replace(RECIPE, epochs=1))
    refit_tagger(tagger, small["train"].sentences, LOOSE)
    found = full_gain(tagger, small["train"], small["train_true"], small["test"])
    gold = [sentence.labels for sentence in small["test"].sentences]
    assert found.before == (score_labels(gold, tagger.predict(small["test"].sentences), "iob2"),)


def test_a_killed_run_goes_on(trained: Tagger, small: Splits, tmp_path: Path) -> None:
    corpora = small["train"], small["train_true"], small["test"]
    seen: list[tuple[str, int]] = []

    def kill(run: str, step: Step) -> None:
        if (run, step.epoch, step.step % 5) == ("after-3", 2, 3):
            raise KeyboardInterrupt

    trained.record["training"]["options"]["checkpoint_seconds"] = 0.0
    try:
        with pytest.raises(KeyboardInterrupt):
            full_gain(trained, *corpora, work=tmp_path / "work", training=kill)
        found = full_gain(trained, *corpora, work=tmp_path / "work", training=lambda r, s: seen.append((r, s.step)))
        assert {run for run, _ in seen} == {"after-3"}
        assert seen[0][1] > 1
        assert found == full_gain(trained, *corpora)
        seen.clear()
        assert found == full_gain(
            trained, *corpora, work=tmp_path / "work", training=lambda r, s: seen.append((r, s.step))
        )
        assert not seen
        assert sorted(path.name for path in (tmp_path / "work").iterdir()) == [
            "after-3.json", "before-3.json", "gain.json"
        ]  # fmt: skip
        with pytest.raises(OptionError, match=r"runs of another run \(different test\)"):
            full_gain(trained, *corpora[:2], few(small["test"], 30), work=tmp_path / "work")
        with pytest.raises(OptionError, match=r"has no gain.json"):
            full_gain(trained, *corpora, work=tmp_path)
    finally:
        del trained.record["training"]["options"]["checkpoint_seconds"]


def test_dev_data_that_chose_the_epoch_must_be_given(small: Splits) -> None:
    tagger = untrained(small)
    train_tagger(tagger, small["train"].sentences, small["dev"].sentences, RECIPE)
    corpora = small["train"], small["train_true"], small["test"]
    with pytest.raises(OptionError, match="give that dev data"):
        full_gain(tagger, *corpora)
    gold = [sentence.labels for sentence in small["test"].sentences]
    found = full_gain(tagger, *corpora, small["dev"])
    assert found.before == (score_labels(gold, tagger.predict(small["test"].sentences), "iob2"),)


def test_what_cannot_be_trained_anew_is_refused(small: Splits) -> None:
    corpora = small["train"], small["train_true"], small["test"]
    with pytest.raises(TaggerError, match="does not say how it was trained"):
        full_gain(untrained(small), *corpora)
    fixed = new_tagger(Vectors(["a"], torch.zeros(1, 2)), untrained(small).labels)
    with pytest.raises(OptionError, match="a vectors encoder is not trained; retrain the head alone"):
        full_gain(fixed, *corpora)
    with pytest.raises(OptionError, match="seeds 0"):
        full_gain(fixed, *corpora, num_seeds=0)


# Data


def test_data_that_cannot_be_compared_is_refused(small: Splits) -> None:
    tagger = untrained(small)
    train, true, test = small["train"], small["train_true"], small["test"]
    assert num_changed(train, true) > 0

    def refused(message: str, before: Corpus = train, after: Corpus = true, held_out: Corpus = test) -> None:
        with pytest.raises(DataError, match=message):
            head_gain(tagger, before, after, held_out)

    refused("train.conll has 40 sentences, .*train_true.conll 39", after=few(true, 39))
    first = true.sentences[0]
    other = true.with_sentences([replace(first, tokens=("zz", *first.tokens[1:])), *true.sentences[1:]])
    refused("train.conll, line 3 and .*train_true.conll, line 3: the tokens differ", after=other)
    refused("have the same labels; there is no gain to measure", after=train)
    strange = true.with_sentences([first.with_labels(["B-ZZ"] * len(first)), *true.sentences[1:]])
    refused("unknown label 'B-ZZ'", after=strange)
    refused("unknown label 'B-ZZ'", held_out=strange)
    refused("labels are plain, but the tagger was trained on iob2", before=replace(train, scheme="plain"))
