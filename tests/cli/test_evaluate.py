"""``tagtrace evaluate``."""

from __future__ import annotations

import json
from pathlib import Path

from tagtrace import load_tagger, read_corpus
from tests.cli.command import succeed


def test_json_has_the_scores_of_the_library(data: Path, tagger: Path) -> None:
    card = json.loads(succeed("evaluate", tagger, data / "dev.conll", "--json").stdout)
    assert set(card) == {"segment", "by_type", "token", "accuracy"}
    assert card == load_tagger(tagger).evaluate(read_corpus(data / "dev.conll")).to_json()
    assert json.loads(succeed("evaluate", tagger, data / "dev.jsonl", "--json").stdout) == card


def test_the_table_has_the_same_scores(data: Path, tagger: Path) -> None:
    card = json.loads(succeed("evaluate", tagger, data / "dev.conll", "--json").stdout)
    table = succeed("evaluate", tagger, data / "dev.conll").stdout
    assert f"{100 * card['segment']['f1']:.2f}" in table
    assert f"accuracy {100 * card['accuracy']:.2f}" in table


def test_free_predictions_may_be_ill_formed(data: Path, tagger: Path) -> None:
    free = json.loads(succeed("evaluate", tagger, data / "dev.conll", "--json", "--free").stdout)
    corpus = read_corpus(data / "dev.conll")
    assert free == load_tagger(tagger).evaluate(corpus, constrained=False).to_json()
    constrained = json.loads(succeed("evaluate", tagger, data / "dev.conll", "--json").stdout)
    assert free["segment"]["num_gold"] == constrained["segment"]["num_gold"]


def test_plain_labels(tmp_path: Path) -> None:
    path = tmp_path / "pos.conll"
    path.write_text("the DET\ncat NOUN\nsits VERB\n\na DET\ndog NOUN\nbarks VERB\n" * 4)
    succeed("train", path, tmp_path / "t", "--epochs", 10, "--learning-rate", 0.01)
    card = json.loads(succeed("evaluate", tmp_path / "t", path, "--json").stdout)
    assert card["accuracy"] == card["segment"]["f1"] == 1.0
