"""What explain, verify, what-if and flip share: the index, the data, and the labels that are asked about."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tagtrace.tagger import HeadOptions
from tests.cli.command import answer, refused, tagtrace
from tests.cli.conftest import build_beside
from tests.cli.questions import COMMANDS, SENTENCE, ask_soon

POS = "the DET\nmill NOUN\nturns VERB\n, ,\nit PRON\nhums VERB\n\nfew DET\nbirds NOUN\nsing VERB\n\n" * 3
IO = "Anna PER\nlives O\nin O\nUpper LOC\nDask LOC\n\nThe O\nmill O\nturns O\n\n" * 3
DASHED = "Anna B-per-son\nTharn I-per-son\nlives O\nin O\nDask B-geo-loc\n\nThe O\nmill O\nturns O\n\n" * 3


@pytest.mark.parametrize("name", COMMANDS)
def test_a_damaged_index_is_refused(indexed: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(indexed, tmp_path / "made")
    assert ask_soon(tmp_path / "made", name).exit_code == 0
    path = tmp_path / "made" / "index" / "errors-00000.safetensors"
    data = bytearray(path.read_bytes())
    data[-400:] = b"\x7b" * 400  # floats of about 1e36
    path.write_bytes(data)
    result = ask_soon(tmp_path / "made", name)
    refused(result, "errors-00000.safetensors", "checksum")
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("train", "segment", "target", "expected"),
    [
        (POS, "1:2", "VERB", ["VERB"]),
        (POS, "0:2", "VERB", ["VERB", "VERB"]),
        (POS, "0:2", "DET,VERB", ["DET", "VERB"]),
        (POS, "0:2", ",", [",", ","]),
        (IO, "1:3", "LOC", ["LOC", "LOC"]),
        (IO, "1:3", "O", ["O", "O"]),
        (DASHED, "1:4", "geo-loc", ["B-geo-loc", "I-geo-loc", "I-geo-loc"]),
        (DASHED, "1:3", "B-geo-loc", ["B-geo-loc", "B-geo-loc"]),
        (DASHED, "1:3", "B-per-son,O", ["B-per-son", "O"]),
    ],
)
def test_a_target_is_spelled_as_the_scheme_does(
    tmp_path: Path, train: str, segment: str, target: str, expected: list[str]
) -> None:
    (tmp_path / "train.conll").write_text(train)
    build_beside(tmp_path)
    arguments = (tmp_path / "index", "--data", tmp_path / "train.conll", "--sentence", "train:0", "--segment", segment)
    path = tmp_path / "answer.json"
    (case,) = answer(tagtrace("explain", *arguments, "--target", target, "--json", path), path)
    assert case["explained"] == expected
    path.unlink()
    options = ("--target", target, "--remove", "train:1:0:1", "--json", path)
    found = answer(tagtrace("what-if", *arguments, *options), path)
    assert found["explained"] == expected
    refused(tagtrace("explain", *arguments, "--target", "WINE"), "target 'WINE': unknown label 'WINE'")


def test_labels_that_the_head_rules_out(tmp_path: Path) -> None:
    (tmp_path / "train.conll").write_text(DASHED)
    build_beside(tmp_path, HeadOptions(constrained=True))
    arguments = (tmp_path / "index", "--data", tmp_path / "train.conll", "--sentence", "train:0", "--segment", "0:2")
    refused(tagtrace("explain", *arguments, "--target", "I-geo-loc"), "constraints", "I-geo-loc I-geo-loc")
    assert tagtrace("explain", *arguments, "--target", "geo-loc").exit_code == 0


def test_gold_labels_that_the_tagger_does_not_know(indexed: Path, tmp_path: Path) -> None:
    text = (indexed / "dev.conll").read_text().replace("B-LOC", "B-WINE")
    (tmp_path / "dev.conll").write_text(text)
    arguments = (indexed / "index", "--data", tmp_path / "dev.conll", "--sentence", SENTENCE, "--segment", "0:1")
    assert tagtrace("explain", *arguments).exit_code == 0, "only the predicted label is explained"
    refused(tagtrace("explain", *arguments, "--target", "gold"), "unknown label 'B-WINE'")


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("data", ["bare/dev.conll", "bare/dev.jsonl"])
def test_unlabelled_predictions_are_explained(indexed: Path, tmp_path: Path, name: str, data: str) -> None:
    given, bare = tmp_path / "given.json", tmp_path / "bare.json"
    expected = answer(ask_soon(indexed, name, "--json", given), given)
    found = answer(ask_soon(indexed, name, "--json", bare, data=data), bare)
    if isinstance(expected, list):
        (expected,), (found,) = expected, found
    assert (expected.pop("gold"), found.pop("gold")) == (["B-LOC"], None)
    assert found == expected


def test_labels_can_be_ignored(indexed: Path, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    (case,) = answer(ask_soon(indexed, "explain", "--unlabelled", "--json", path), path)
    assert case["gold"] is None


@pytest.mark.parametrize("data", ["bare/dev.conll", "bare/dev.jsonl"])
def test_what_needs_labels_says_so(indexed: Path, data: str) -> None:
    arguments = ("explain", indexed / "index", "--data", indexed / data)
    for more in ((), ("--sentence", SENTENCE)):
        refused(tagtrace(*arguments, *more), f"{data}: has no labels", "mispredictions", "segment")
    for name in ("explain", "what-if"):
        refused(ask_soon(indexed, name, "--target", "gold", data=data), f"{SENTENCE} has no gold labels")


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("segment", "words"),
    [("1", "--segment '1': expected START:STOP"), ("0:999", "0:999"), ("2:2", "2:2"), ("a:b", "--segment 'a:b'")],
)
def test_segments_that_do_not_exist(indexed: Path, name: str, segment: str, words: str) -> None:
    refused(ask_soon(indexed, name, segment=segment), words)
