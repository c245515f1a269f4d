"""``tagtrace train``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tagtrace import load_tagger, read_corpus
from tagtrace.cli.show import TrainingDisplay
from tests.cli.command import refused, succeed, tagtrace


def test_a_tagger_is_saved_and_nothing_else(data: Path, tagger: Path) -> None:
    assert [path.name for path in tagger.parent.iterdir()] == ["lexical"]
    loaded = load_tagger(tagger)
    assert loaded.record["training"]["options"]["epochs"] == 2
    assert loaded.record["data"]["fingerprint"] == read_corpus(data / "train.conll").fingerprint
    assert set(loaded.labels.types) == {"LOC", "MISC", "ORG", "PER"}


def test_a_line_for_each_epoch_and_the_scores_are_printed(data: Path, tmp_path: Path) -> None:
    options = ("--epochs", 3, "--batch-size", 64, "--seed", 7, "--learning-rate", 0.01, "--schedule", "linear")
    result = succeed("train", data / "train.conll", tmp_path / "t", "--dev", data / "dev.conll", *options)
    lines = [line for line in result.stderr.splitlines() if line]
    assert [line.split()[:2] for line in lines] == [["epoch", f"{k}/3"] for k in (1, 2, 3)]
    assert all("dev loss" in line for line in lines)
    assert "all segments" in result.stdout
    assert result.stdout.endswith(f"saved {tmp_path / 't'}\n")
    recipe = load_tagger(tmp_path / "t").record["training"]["options"]
    expected = {"batch_size": 64, "seed": 7, "learning_rate": 0.01, "schedule": "linear"}
    assert {name: recipe[name] for name in expected} == expected


@pytest.mark.parametrize("encoder", ["precomputed:arrays", "vectors:vectors.txt"])
@pytest.mark.parametrize("head", ["crf", "softmax"])
def test_encoders_that_are_not_trained(data: Path, tmp_path: Path, encoder: str, head: str) -> None:
    spec = encoder.replace(":", f":{data}/")
    folder = tmp_path / "tagger"
    options = ("--dev", data / "dev.conll", "--encoder", spec, "--head", head)
    result = succeed("train", data / "train.conll", folder, *options)
    assert "step  1  objective" in result.stderr
    loaded = load_tagger(folder)
    assert loaded.record["refit"]["max_gradient"] <= 1e-6
    assert loaded.head.options.kind == head
    card = json.loads(succeed("evaluate", folder, data / "train.conll", "--json").stdout)
    labels = [label for s in read_corpus(data / "train.conll").sentences for label in s.labels]
    assert card["accuracy"] > labels.count("O") / len(labels) + 0.02, "better than no label at all"
    succeed("predict", folder, data / "dev.conll", tmp_path / "out.conll")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tagger")] == ["tagger"]


@pytest.mark.parametrize(
    "options",
    [
        ("--head", "softmax"),
        ("--unit", "document", "--batch-size", 4),
        ("--start-end", "--constrained", "--keep", "last", "--precision", "bfloat16", "--weight-decay", 0.01),
    ],
    ids=["softmax", "document", "constrained"],
)
def test_other_taggers(data: Path, tmp_path: Path, options: tuple[object, ...]) -> None:
    folder = tmp_path / "tagger"
    succeed("train", data / "train.conll", folder, "--epochs", 1, "--dev", data / "dev.jsonl", *options)
    succeed("predict", folder, data / "dev.conll", tmp_path / "out.conll")
    gold, predicted = read_corpus(data / "dev.conll"), read_corpus(tmp_path / "out.conll")
    assert [len(s) for s in gold.sentences] == [len(s) for s in predicted.sentences]
    assert [s.labels for s in predicted.sentences] == load_tagger(folder).predict(gold)


def test_overwrite_replaces_a_tagger(data: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        options = ("--epochs", 1, "--batch-size", 64, "--seed", seed, "--overwrite")
        succeed("train", data / "train.conll", tmp_path / "t", *options)
        assert load_tagger(tmp_path / "t").record["training"]["options"]["seed"] == seed
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_run_resumes_or_restarts(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("train", data / "train.conll", tmp_path / "t", "--epochs", 1, "--batch-size", 64)
    with monkeypatch.context() as patch:
        patch.setattr(TrainingDisplay, "__call__", stop)
        stopped = tagtrace(*command, "--checkpoint-seconds", 0)
    assert refused(stopped, status=130) == "tagtrace: interrupted; run the same command again to resume"
    assert stopped.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["t.checkpoint"]
    refused(tagtrace(*command, "--dropout", 0.1), "t.checkpoint", "different options", "restart")
    assert [path.name for path in tmp_path.iterdir()] == ["t.checkpoint"]
    restarted = succeed(*command, "--dropout", 0.1, "--restart")
    assert "resuming" not in restarted.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_a_resumed_run_gives_the_same_tagger(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--epochs", 1, "--batch-size", 64, "--checkpoint-seconds", 0)
    with monkeypatch.context() as patch:
        patch.setattr(TrainingDisplay, "__call__", stop)
        tagtrace("train", data / "train.conll", tmp_path / "t", *options)
    resumed = succeed("train", data / "train.conll", tmp_path / "t", *options)
    assert f"resuming from {tmp_path / 't.checkpoint'}" in resumed.stderr
    succeed("train", data / "train.conll", tmp_path / "whole", *options)
    first, second = (load_tagger(tmp_path / name).state_dict() for name in ("t", "whole"))
    assert all(bool((first[name] == second[name]).all()) for name in second)
