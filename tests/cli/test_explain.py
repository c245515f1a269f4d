"""``tagtrace explain``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tagtrace._checks import TrainingError
from tagtrace.cli.show import out
from tagtrace.data import read_corpus
from tagtrace.index import open_index
from tagtrace.influence import Explainer
from tests.cli.command import answer, refused, succeed, tagtrace
from tests.cli.questions import ask


def explain(made: Path, *options: object) -> tuple[object, ...]:
    return "explain", made / "index", "--data", made / "dev.conll", *options


def test_mispredictions_are_explained_unless_a_segment_is_named(indexed: Path, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    result = tagtrace(*explain(indexed, "--most", 2, "--top", 3, "--json", path))
    cases = answer(result, path)
    assert len(cases) == 2
    assert "there are more mispredictions than the 2 explained" in result.stderr
    for case in cases:
        assert case["predicted"] != case["gold"]
        assert case["explained"] == case["predicted"]
        assert 0 < len(case["supporters"]) <= 3
        assert all(one["score"] > 0 for one in case["supporters"])
        assert all(one["score"] < 0 for one in case["opposers"])
    sentence = cases[0]["sentence"]
    succeed(*explain(indexed, "--sentence", sentence, "--json", path, "--overwrite"))
    num_there = len(json.loads(path.read_text()))
    exactly = succeed(*explain(indexed, "--sentence", sentence, "--most", num_there, "--json", path, "--overwrite"))
    assert "there are more" not in exactly.stderr
    assert {case["sentence"] for case in json.loads(path.read_text())} == {sentence}


def test_data_without_mispredictions(indexed: Path, tmp_path: Path) -> None:
    path, sentences = tmp_path / "answer.json", read_corpus(indexed / "dev.conll").sentences
    predicted = open_index(indexed / "index").tagger().predict(sentences)
    pairs = [zip(sentence.tokens, labels, strict=True) for sentence, labels in zip(sentences, predicted, strict=True)]
    (tmp_path / "right.conll").write_text("\n".join("".join(f"{a}\t{b}\n" for a, b in pair) for pair in pairs))
    options = ("--scheme", "iob2", "--json", path, "--overwrite")
    arguments = (indexed / "index", "--data", tmp_path / "right.conll", *options)
    result = tagtrace("explain", *arguments)
    assert answer(result, path) == []
    assert "no misprediction was found" in result.stderr


def types(labels: list[str]) -> set[str]:
    return {label.partition("-")[2] for label in labels}


@pytest.mark.parametrize(
    ("options", "keeps"),
    [
        (("--label", "PER"), lambda one, _: any(label.endswith("-PER") for label in one["labels"])),
        (("--only", "same"), lambda one, case: types(one["labels"]) & types(case["explained"])),
        (("--only", "other"), lambda one, case: not types(one["labels"]) & types(case["explained"])),
        (("--document", "train-1"), lambda one, _: one["document"] == "train-1"),
        (("--kind", "entity"), lambda one, _: one["labels"][0].startswith("B-")),
        (("--kind", "segment", "--max-length", 2), lambda one, _: one["stop"] - one["start"] <= 2),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_filters_choose_training_segments(
    indexed: Path, tmp_path: Path, options: tuple[object, ...], keeps: Any
) -> None:
    path = tmp_path / "answer.json"
    (case,) = answer(ask(indexed, "explain", *options, "--json", path), path)
    found = case["supporters"] + case["opposers"]
    assert found
    assert all(keeps(one, case) for one in found)


@pytest.mark.parametrize("name", ["explain", "verify"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--most", 0], "most 0: must be at least 1"),
        (["--most", -3], "most -3: must be at least 1"),
        (["--top", 0], "top 0: must be at least 1"),
        (["--damping", "nan"], "damping nan"),
        (["--damping", "inf"], "damping inf"),
        (["--damping", -0.1, "--score", "cosine"], "damping -0.1"),
    ],
)
def test_numbers_that_cannot_work(indexed: Path, name: str, options: list[object], message: str) -> None:
    refused(tagtrace(name, indexed / "index", "--data", indexed / "dev.conll", *options), message)


def test_answers_that_were_complete_before_an_error_are_written(
    indexed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = Explainer._explanation, []

    def fail_third(self: Explainer, *args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        if len(calls) % 3 == 0:
            raise TrainingError("no solution")
        return real(self, *args, **kwargs)

    path = tmp_path / "answer.json"
    arguments = explain(indexed, "--most", 4, "--json", path)
    complete = answer(tagtrace(*arguments), path)
    monkeypatch.setattr(Explainer, "_explanation", fail_third)
    refused(tagtrace(*arguments, "--overwrite"), "no solution")
    assert len(complete) == 4
    assert json.loads(path.read_text()) == complete[:2]
    path.unlink()
    calls[:] = [(), ()]
    refused(tagtrace(*arguments), "no solution")
    assert not path.exists(), "no answer was complete"


@pytest.mark.parametrize("score", ["influence", "relative", "cosine", "neighbour", "neighbour-dot", "neighbour-label"])
def test_titles_say_what_the_scores_are(indexed: Path, score: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out, "width", 120)
    shown = ask(indexed, "explain", "--score", score).stdout
    is_neighbour = score.startswith("neighbour")
    assert ("without these labels" in shown) == (not is_neighbour)
    assert ("features" in shown) == is_neighbour
    assert ("another label" in shown) == (score == "neighbour-label")
