"""``tagtrace gain``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import Result

from tagtrace.data import LabelSet, Sentence, read_corpus
from tagtrace.data.invented import generate, write_invented
from tagtrace.findings.gains.retrained import head_gain
from tagtrace.index import IndexOptions, build_index
from tagtrace.tagger import (
    Lexical,
    LexicalOptions,
    RefitOptions,
    Rows,
    Tagger,
    TrainOptions,
    load_tagger,
    new_tagger,
    save_tagger,
    train_tagger,
)
from tests.cli.command import answer, refused, tagtrace


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gain")
    write_invented(generate(num_documents=20, random_share=0.2), folder)
    corpus = read_corpus(folder / "train.conll")
    labels = LabelSet.from_sentences(read_corpus(folder / "train_true.conll").sentences, "iob2")
    torch.manual_seed(0)
    tagger = new_tagger(Lexical(LexicalOptions(buckets=256, width=8, hidden=8)), labels)
    train_tagger(tagger, corpus.sentences, (), TrainOptions(epochs=1, batch_size=16, learning_rate=2e-2))
    save_tagger(tagger, folder / "tagger")
    build_index(
        tagger, corpus, folder / "index", IndexOptions(dtype="float32", l2=3.0, tolerance=1e-4),
        tagger_path=folder / "tagger",
    )  # fmt: skip
    return folder


def gain(
    made: Path, what: str, *options: object, before: str = "train.conll", after: str = "train_true.conll"
) -> Result:
    files = [made / what, made / before, made / after, "--test", made / "test.conll", "--device", "cpu"]
    return tagtrace("gain", *files, *options)


def test_the_head_of_an_index(made: Path, tmp_path: Path) -> None:
    """The strength is that of the index, and its features are not computed again."""
    path = tmp_path / "gain.json"
    result = gain(made, "index", "--json", path)
    found = answer(result, path)
    for expected in ("before", "after", "difference", "95 % interval", "PER", "all segments", "token accuracy"):
        assert expected in result.stdout
    assert result.stdout.rstrip().splitlines()[-1] == found["verdict"]
    assert "note: with 3 documents the interval says little" in result.stdout
    assert "step  1  objective" in result.stderr
    train, true, test = (read_corpus(made / f"{name}.conll") for name in ("train", "train_true", "test"))
    expected = head_gain(load_tagger(made / "tagger"), train, true, test, RefitOptions(3.0))
    assert found["f1"] == pytest.approx(expected.f1.to_json())
    assert found["retrained"] == "head"
    assert found["num_units"] == 3
    assert found["before"][0]["segment"]["f1"] == pytest.approx(found["f1"]["before"])


def test_features_of_the_index_are_not_computed_again(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded, real = list[int](), Tagger.rows

    def rows(self: Tagger, sentences: Sequence[Sentence], **options: Any) -> Rows:
        encoded.append(len(sentences))
        return real(self, sentences, **options)

    monkeypatch.setattr(Tagger, "rows", rows)
    train, test = (len(read_corpus(made / f"{name}.conll").sentences) for name in ("train", "test"))
    for what, options, expected in (
        ("index", {}, [test]),
        ("tagger", {}, [train, test]),
        ("index", {"before": "train_true.conll", "after": "train.conll"}, [train, test]),
    ):
        encoded.clear()
        assert gain(made, what, **options).exit_code == 0
        assert encoded == expected


def test_data_that_the_index_was_not_built_from(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "gain.json"
    result = gain(made, "index", "--json", path, before="train_true.conll", after="train.conll")
    back = answer(result, path)
    there = answer(gain(made, "index", "--json", path, "--overwrite"), path)
    assert back["f1"]["difference"] == pytest.approx(-there["f1"]["difference"])


def test_a_tagger_and_another_strength(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "gain.json"
    own = answer(gain(made, "tagger", "--json", path, "--samples", 10), path)
    three = answer(gain(made, "tagger", "--l2", 3, "--json", path, "--overwrite"), path)
    assert own["samples"] == 10
    assert three["f1"] == pytest.approx(answer(gain(made, "index", "--json", path, "--overwrite"), path)["f1"])
    assert three["f1"] != own["f1"]


def test_everything(made: Path, tmp_path: Path) -> None:
    path, work = tmp_path / "gain.json", tmp_path / "work"
    result = gain(made, "index", "--retrain", "everything", "--seeds", 2, "--work", work, "--json", path)
    found = answer(result, path)
    for run in ("before-0", "after-0", "before-1", "after-1"):
        assert f"training: {run}\n" in result.stderr
    assert "mean of 2 seeds" in " ".join(result.stdout.split())
    assert len(found["before"]) == len(found["after"]) == 2
    again = gain(made, "index", "--retrain", "everything", "--seeds", 2, "--work", work, "--json", path, "--overwrite")
    assert "training" not in again.stderr
    assert answer(again, path) == found
    other = gain(made, "index", "--retrain", "everything", "--encoder", "vectors:none.txt")
    refused(other, "none.txt")


@pytest.mark.parametrize(
    ("what", "options", "words"),
    [
        ("nowhere", (), ("nowhere: ", "index", "tagger")),
        ("tagger", ("--tagger", "tagger"), ("only used with an index",)),
        ("tagger", ("--seeds", 2), ("seeds", "everything")),
        ("tagger", ("--work", "work"), ("work", "everything")),
        ("tagger", ("--encoder", "lexical"), ("encoder", "everything")),
        ("tagger", ("--retrain", "everything", "--l2", 2), ("l2", "head")),
        ("tagger", ("--samples", 0), ("samples", "at least 1")),
    ],
)
def test_options_that_cannot_work(made: Path, what: str, options: tuple[object, ...], words: tuple[str, ...]) -> None:
    refused(gain(made, what, *options), *words)


def test_data_that_cannot_be_compared(made: Path, tmp_path: Path) -> None:
    refused(gain(made, "tagger", "--dev", made / "dev.conll"), "dev", "everything")
    refused(gain(made, "tagger", before="test.conll"), "test.conll", "held-out")
    refused(gain(made, "tagger", after="dev.conll"), "label")
    (tmp_path / "same.conll").write_bytes((made / "train.conll").read_bytes())
    refused(gain(made, "tagger", after=str(tmp_path / "same.conll")), "gain")
