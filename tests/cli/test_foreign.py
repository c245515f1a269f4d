"""Every command that takes a tagger takes a Hugging Face checkpoint as it is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tagtrace.data import read_corpus
from tagtrace.index import open_index
from tagtrace.influence.whole.stored import has_whole
from tagtrace.tagger import load_tagger
from tests.cli.command import answer, refused, succeed, tagtrace
from tests.tagger.foreign.planted import WORD, WRONG, Planted, plant

CPU = ("--device", "cpu")


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """Data, a checkpoint, and the index that the command made of them; ``said`` has what it printed."""
    made = plant(tmp_path_factory.mktemp("planted"))
    result = succeed("index", made.checkpoint, made.train, made.folder / "index", *CPU)
    (made.folder / "said").write_text(result.stderr)
    return made


def test_index_says_what_is_left_out_and_what_the_refit_changed(planted: Planted) -> None:
    said = (planted.folder / "said").read_text().splitlines()
    (left_out,) = (line for line in said if line.startswith("no scores through the encoder"))
    assert left_out.endswith("a Hugging Face checkpoint does not record how it was trained; retrain only the head")
    (changed,) = (line for line in said if line.startswith("the refit of the head changes"))
    assert re.search(r"for [\d,]+ of [\d,]+ training tokens: segment F1 there was [\d.]+ and is [\d.]+$", changed)
    index = open_index(planted.folder / "index", verify=True)
    assert not has_whole(index)
    assert index.manifest.tagger.path == str(planted.checkpoint)
    assert index.manifest.tagger.pooling == "first"


def test_explain_finds_the_planted_error(planted: Planted, tmp_path: Path) -> None:
    index, path, dev = open_index(planted.folder / "index"), tmp_path / "out.json", read_corpus(planted.dev).sentences
    predicted = index.tagger().predict(dev)
    sentence, place = next(
        (sentence, place)
        for sentence, labels in zip(dev, predicted, strict=True)
        for place, pair in enumerate(zip(sentence.tokens, labels, strict=True))
        if pair == (WORD, WRONG)
    )
    where = ("--sentence", sentence.id, "--segment", f"{place}:{place + 1}", "--score", "relative", "--json", path)
    (found,) = answer(tagtrace("explain", index.folder, "--data", planted.dev, *where, *CPU), path)
    first = found["supporters"][0]
    assert (first["tokens"], first["labels"]) == ([WORD], [WRONG])


def test_evaluate_predict_and_refit(planted: Planted, tmp_path: Path) -> None:
    card = json.loads(succeed("evaluate", planted.checkpoint, planted.dev, "--json", *CPU).stdout)
    assert card["segment"]["f1"] > 0.1
    last = json.loads(succeed("evaluate", planted.checkpoint, planted.dev, "--json", "--pooling", "last", *CPU).stdout)
    assert last["segment"]["f1"] != card["segment"]["f1"]
    succeed("predict", planted.checkpoint, planted.dev, tmp_path / "out", *CPU)
    assert (tmp_path / "out").read_text().count("B-MISC") > 0
    succeed("refit", planted.checkpoint, planted.train, tmp_path / "mine", *CPU)
    assert load_tagger(tmp_path / "mine").record["refit"]["num_sentences"] > 0


def test_the_whole_tagger_cannot_be_trained_again(planted: Planted) -> None:
    place = ("--data", planted.dev, "--sentence", "dev-0:1", "--segment", "0:1", *CPU)
    index, line = planted.folder / "index", "checkpoint does not record how it was trained; retrain only the head"
    refused(tagtrace("verify", index, *place, "--top", 1, "--retrain", "--seeds", 1, "--jobs", 1), line)
    refused(tagtrace("explain", index, *place, "--score", "whole"), "no scores through the whole tagger")


def test_audit_and_doctor(planted: Planted, tmp_path: Path) -> None:
    options = ("--folds", 2, "--most", 20, "--effects", 0, *CPU)
    succeed("audit", planted.folder / "index", "--out", tmp_path / "audit", *options)
    refused(
        tagtrace("audit", planted.folder / "index", "--judges", "encoder", "--out", tmp_path / "other", *options),
        "does not record how it was trained",
    )
    health = json.loads(succeed("doctor", planted.folder, "--json").stdout)
    kinds = {Path(one["path"]).name: (one["kind"], one["state"]) for one in health["symptoms"]}
    assert kinds["checkpoint"] == ("tagger", "sound")
    assert kinds["index"] == ("index", "sound")
    refused(tagtrace("explain", planted.checkpoint, "--data", planted.dev), "a tagger, not an index")


def test_an_output_into_the_checkpoint_is_refused(planted: Planted) -> None:
    for out in (planted.checkpoint, planted.checkpoint / "index"):
        result = tagtrace("index", planted.checkpoint, planted.train, out, "--overwrite", *CPU)
        refused(result, str(planted.checkpoint))
    assert not (planted.checkpoint / "index").exists()
