"""The verb ``gain``: from an index or a tagger, with the head or everything retrained."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tagtrace._checks import DataError, OptionError
from tagtrace.data import Corpus, LabelSet, read_corpus
from tagtrace.data.invented import generate, write_invented
from tagtrace.findings import Gain, full_gain, gain, head_gain
from tagtrace.index import Index, IndexOptions, build_index, open_index
from tagtrace.tagger import (
    Lexical,
    LexicalOptions,
    RefitOptions,
    Step,
    Tagger,
    TrainOptions,
    load_tagger,
    new_tagger,
    refit_tagger,
    save_tagger,
    train_tagger,
)

L2 = 3.0


@dataclass(frozen=True)
class Made:
    folder: Path
    train: Corpus
    true: Corpus
    test: Corpus
    tagger: Tagger
    index: Index

    def measure(self, source: Index | Tagger, *arguments: Any, **options: Any) -> Gain:
        return gain(source, self.train, self.true, self.test, *arguments, device="cpu", samples=50, **options)

    @property
    def num_changed(self) -> int:
        pairs = zip(self.train.sentences, self.true.sentences, strict=True)
        return sum(a != b for old, new in pairs for a, b in zip(old.labels, new.labels, strict=True))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("gain")
    write_invented(generate(num_documents=20, random_share=0.2), folder)
    train, true, test = (read_corpus(folder / f"{name}.conll") for name in ("train", "train_true", "test"))
    torch.manual_seed(0)
    labels = LabelSet.from_sentences(true.sentences, "iob2")
    tagger = new_tagger(Lexical(LexicalOptions(buckets=256, width=8, hidden=8)), labels)
    train_tagger(tagger, train.sentences, (), TrainOptions(epochs=1, batch_size=16, learning_rate=2e-2, seed=2))
    save_tagger(tagger, folder / "tagger")
    options = IndexOptions(dtype="float32", l2=L2, tolerance=1e-4)
    build_index(tagger, train, folder / "index", options, tagger_path=folder / "tagger")
    return Made(folder, train, true, test, tagger, open_index(folder / "index"))


def same_comparison(found: Gain, expected: Gain) -> None:
    """The comparison is the same, and what was done is added to it."""
    assert replace(found, retrained=expected.retrained, num_changed=0) == expected


# The head


def test_the_head_of_an_index_has_the_strength_and_the_features_of_the_index(made: Made) -> None:
    encoded: list[int] = []
    found = made.measure(made.index, encoding=lambda _, total: encoded.append(total))
    assert set(encoded) == {len(made.test.sentences)}, "the training data is not encoded again"
    expected = head_gain(
        made.index.tagger(),
        made.train,
        made.true,
        made.test,
        RefitOptions(L2),
        rows=made.index.rows.joined(),
        samples=50,
    )
    same_comparison(found, expected)
    assert (found.retrained, found.num_changed) == ("head", made.num_changed)
    assert f"{found.num_changed} changed labels" in found.verdict


def test_other_data_than_the_index_was_built_from_is_encoded(made: Made) -> None:
    encoded: list[int] = []
    arguments = made.true, made.train, made.test
    back = gain(made.index, *arguments, device="cpu", encoding=lambda _, total: encoded.append(total))
    assert set(encoded) == {len(made.train.sentences), len(made.test.sentences)}
    there = made.measure(made.index)
    assert back.f1.difference == pytest.approx(-there.f1.difference, abs=1e-3)
    assert back.num_changed == there.num_changed


def test_a_tagger_has_the_strength_of_its_refit(made: Made) -> None:
    corpora = made.train, made.true, made.test
    same_comparison(made.measure(made.tagger), head_gain(made.tagger, *corpora, RefitOptions(1.0), samples=50))
    same_comparison(made.measure(made.tagger, l2=L2), head_gain(made.tagger, *corpora, RefitOptions(L2), samples=50))
    refitted = load_tagger(made.folder / "tagger")
    refit_tagger(refitted, made.train.sentences, RefitOptions(0.5, tolerance=1e-3))
    same_comparison(made.measure(refitted), head_gain(refitted, *corpora, RefitOptions(0.5), samples=50))
    strong, weak = made.measure(made.tagger, l2=50.0), made.measure(made.tagger, l2=0.5)
    assert strong.before != weak.before


def test_the_tagger_of_an_index_may_be_in_another_folder(made: Made, tmp_path: Path) -> None:
    shutil.copytree(made.folder / "tagger", tmp_path / "tagger")
    assert made.measure(made.index, tagger=tmp_path / "tagger") == made.measure(made.index)
    with pytest.raises(OptionError, match="the folder of a tagger is only used with an index; leave it out"):
        made.measure(made.tagger, tagger=tmp_path / "tagger")


# Everything


def test_everything_is_trained_again_from_an_index_or_a_tagger(made: Made, tmp_path: Path) -> None:
    runs: list[str] = []

    def note(run: str, _: Step) -> None:
        runs.append(run)

    found = made.measure(made.index, "everything", num_seeds=2, work=tmp_path / "runs", training=note)
    assert list(dict.fromkeys(runs)) == ["before-2", "after-2", "before-3", "after-3"]
    expected = full_gain(made.tagger, made.train, made.true, made.test, num_seeds=2, samples=50)
    same_comparison(found, expected)
    assert (found.retrained, found.num_changed) == ("everything", made.num_changed)
    assert len(found.before) == len(found.after) == 2
    runs.clear()
    again = made.measure(made.tagger, "everything", num_seeds=2, work=tmp_path / "runs", training=note)
    assert (again, runs) == (found, []), "finished runs are kept in the work folder"
    first = made.measure(made.tagger, "everything")
    assert first.before == found.before[:1]


def test_training_after_the_change_ends_with_trusted_sentences(made: Made, tmp_path: Path) -> None:
    """The side before stays as it is, labels need not differ, and runs with other trusted sentences are refused."""
    trusted = made.true.sentences[:30]
    plain = made.measure(made.tagger, "everything")
    refitted = load_tagger(made.folder / "tagger")
    refit_tagger(refitted, made.train.sentences, RefitOptions(L2, 1e-3))
    with pytest.raises(OptionError, match="refitted after training, which would undo"):
        made.measure(refitted, "everything", trusted=trusted)
    found = made.measure(made.tagger, "everything", trusted=made.true.with_sentences(trusted), work=tmp_path / "runs")
    assert found.before == plain.before
    assert found.after != plain.after
    assert found.num_trusted == 30
    assert f"{made.num_changed} changed labels and a short training on 30 trusted sentences" in found.verdict
    with pytest.raises(OptionError, match="runs"):
        made.measure(made.tagger, "everything", trusted=trusted[:10], work=tmp_path / "runs")
    same = gain(made.tagger, made.train, made.train, made.test, "everything", trusted=trusted, samples=50, device="cpu")
    assert (same.before, same.num_changed) == (plain.before, 0)
    assert same.after not in (plain.before, found.after)


def test_another_encoder_is_trained(made: Made) -> None:
    own = made.measure(made.tagger, "everything")
    other = made.measure(made.tagger, "everything", encoder="lexical")
    assert other.before != own.before


def test_dev_data_chooses_the_epoch(made: Made) -> None:
    dev = read_corpus(made.folder / "dev.conll")
    tagger = load_tagger(made.folder / "tagger")
    fresh = new_tagger(Lexical(LexicalOptions(buckets=256, width=8, hidden=8)), tagger.labels)
    options = TrainOptions(epochs=2, batch_size=16, learning_rate=2e-2, seed=2)
    train_tagger(fresh, made.train.sentences, dev.sentences, options)
    with pytest.raises(OptionError, match="give that dev data"):
        made.measure(fresh, "everything")
    same_comparison(
        made.measure(fresh, "everything", dev=dev),
        full_gain(fresh, made.train, made.true, made.test, dev, samples=50),
    )


# Refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retrain": "encoder"}, "^retrain 'encoder': expected head or everything$"),
        ({"dev": "train"}, "^dev is only used if everything is retrained"),
        ({"encoder": "lexical"}, "^encoder is only used if everything is retrained"),
        ({"work": "runs"}, "^work is only used if everything is retrained"),
        ({"trusted": "true"}, "^trusted is only used if everything is retrained"),
        ({"retrain": "everything", "trusted": "test"}, r"test\.conll: .* sentences of the test data are also trusted"),
        ({"num_seeds": 2}, "^several seeds are only used if everything is retrained"),
        ({"num_seeds": 0}, "^num_seeds 0: must be from 1 to 100$"),
        ({"samples": 0}, "^samples 0: must be at least 1$"),
        ({"retrain": "everything", "l2": 1.0}, "^l2 is only used if only the head is retrained$"),
        ({"test": "train"}, r"train\.conll: the test data is also the training data before; give held-out data$"),
        ({"test": "true"}, r"train_true\.conll: the test data is also the training data after"),
    ],
)
def test_options_that_contradict_each_other(made: Made, options: dict[str, Any], message: str) -> None:
    options = {name: getattr(made, str(value)) if name in ("dev", "test") else value for name, value in options.items()}
    if "trusted" in options:
        options["trusted"] = getattr(made, str(options["trusted"])).sentences
    arguments = {"before": made.train, "after": made.true, "test": made.test, "device": "cpu", **options}
    with pytest.raises(OptionError, match=message):
        gain(made.tagger, **arguments)


def test_data_without_a_difference_is_refused(made: Made) -> None:
    for source in (made.index, made.tagger):
        with pytest.raises(DataError, match="have the same labels; there is no gain to measure"):
            gain(source, made.train, made.train, made.test, device="cpu")
