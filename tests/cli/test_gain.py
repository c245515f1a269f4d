"""``tagtrace gain`` through the same door as a user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

from tagtrace.cli import main
from tagtrace.data import LabelSet, read_corpus
from tagtrace.data.invented import generate, write_invented
from tagtrace.findings.gains.bootstrap import Difference
from tagtrace.findings.gains.compare import Gain
from tagtrace.findings.gains.retrained import head_gain
from tagtrace.index import IndexOptions, build_index
from tagtrace.tagger import (
    Lexical,
    LexicalOptions,
    RefitOptions,
    TrainOptions,
    load_tagger,
    new_tagger,
    save_tagger,
    train_tagger,
)


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
    return CliRunner().invoke(main, [str(argument) for argument in ("gain", *files, *options)])


def answer_of(result: Result, path: Path) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    return json.loads(path.read_text(encoding="utf-8"))


def refused(result: Result, message: str) -> None:
    assert result.exit_code == 1, result.output
    assert message in result.stderr.splitlines()[-1]


def test_the_head_of_an_index(made: Path, tmp_path: Path) -> None:
    """The strength is that of the index, and its features are not computed again."""
    path = tmp_path / "gain.json"
    result = gain(made, "index", "--json", path)
    answer = answer_of(result, path)
    for expected in ("before", "after", "difference", "95 % interval", "PER", "all segments", "token accuracy"):
        assert expected in result.stdout
    assert result.stdout.rstrip().splitlines()[-1] == answer["verdict"]
    assert "note: with 3 documents the interval says little" in result.stderr
    assert "step  1  objective" in result.stderr
    assert "encoding it" not in result.stderr
    train, true, test = (read_corpus(made / f"{name}.conll") for name in ("train", "train_true", "test"))
    expected = head_gain(load_tagger(made / "tagger"), train, true, test, RefitOptions(3.0))
    assert answer["f1"] == pytest.approx(expected.f1.to_json())
    assert answer["retrained"] == "head"
    assert answer["num_units"] == 3
    assert answer["before"][0]["segment"]["f1"] == pytest.approx(answer["f1"]["before"])


def test_other_data_than_the_index_was_built_from(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "gain.json"
    result = gain(made, "index", "--json", path, before="train_true.conll", after="train.conll")
    back = answer_of(result, path)
    assert "is not what the index was built from: encoding it" in result.stderr.replace("\n", " ")
    there = answer_of(gain(made, "index", "--json", path), path)
    assert back["f1"]["difference"] == pytest.approx(-there["f1"]["difference"])


def test_a_tagger_and_another_strength(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "gain.json"
    own = answer_of(gain(made, "tagger", "--json", path, "--samples", 10), path)
    three = answer_of(gain(made, "tagger", "--l2", 3, "--json", path), path)
    assert own["samples"] == 10
    assert three["f1"] == pytest.approx(answer_of(gain(made, "index", "--json", path), path)["f1"])
    assert three["f1"] != own["f1"]


def test_everything(made: Path, tmp_path: Path) -> None:
    path, work = tmp_path / "gain.json", tmp_path / "work"
    result = gain(made, "index", "--retrain", "everything", "--seeds", 2, "--work", work, "--json", path)
    answer = answer_of(result, path)
    for run in ("before with seed 0", "after with seed 0", "before with seed 1", "after with seed 1"):
        assert f"training {run}" in result.stderr
    assert "the mean of 2 seeds" in " ".join(result.stdout.split())
    assert len(answer["before"]) == len(answer["after"]) == 2
    again = gain(made, "index", "--retrain", "everything", "--seeds", 2, "--work", work, "--json", path)
    assert "training" not in again.stderr
    assert answer_of(again, path) == answer
    other = gain(made, "index", "--retrain", "everything", "--encoder", "vectors:none.txt")
    refused(other, "none.txt")


def test_bad_input(made: Path, tmp_path: Path) -> None:
    refused(gain(made, "nowhere"), "neither an index nor a tagger")
    refused(gain(made, "tagger", "--tagger", made / "tagger"), "--tagger is for an index")
    refused(gain(made, "tagger", "--seeds", 2), "--seeds needs --retrain everything")
    refused(gain(made, "tagger", "--work", tmp_path), "--work needs --retrain everything")
    refused(gain(made, "tagger", "--dev", made / "dev.conll"), "--dev needs --retrain everything")
    refused(gain(made, "tagger", "--retrain", "everything", "--l2", 2), "--l2 needs --retrain head")
    refused(gain(made, "tagger", "--samples", 0), "must be at least 1")
    refused(gain(made, "tagger", before="test.conll"), "is BEFORE, which the tagger is trained on")
    refused(gain(made, "tagger", after="dev.conll"), "differ in labels alone")
    (tmp_path / "same.conll").write_bytes((made / "train.conll").read_bytes())
    refused(gain(made, "tagger", after=str(tmp_path / "same.conll")), "there is no gain to measure")


def test_the_verdict_follows_the_interval() -> None:
    def said(low: float, high: float) -> str:
        one = Difference(0.5, 0.5 + (low + high) / 2, low, high, 0.0)
        return Gain((), (), one, {}, one, "document", 60, num_changed=41).verdict

    assert said(0.01, 0.03) == (
        "better: 41 changed labels raise segment F1 by 2.00 points (95 % interval +1.00 to +3.00, over 60 documents)"
    )
    assert said(-0.03, -0.01).startswith("worse: 41 changed labels lower segment F1 by 2.00 points")
    assert said(-0.01, 0.03).startswith("no clear difference: 41 changed labels move segment F1 by +1.00 points")
