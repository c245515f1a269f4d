"""``tagtrace what-if``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tagtrace.index import open_index
from tests.cli.command import answer, refused, succeed
from tests.cli.questions import ask


@pytest.fixture(scope="module")
def entity(indexed: Path) -> tuple[str, int, int]:
    """A training segment of two tokens: the sentence's id, start, stop."""
    index = open_index(indexed / "index")
    for number in range(index.num_sentences):
        sentence = index.sentence(number)
        for t, label in enumerate(sentence.labels):
            if label == "I-PER":
                return sentence.id, t - 1, t + 1
    raise AssertionError("no segment of two tokens")


def test_the_prediction_before_and_after(indexed: Path, entity: tuple[str, int, int], tmp_path: Path) -> None:
    id_, start, stop = entity
    path = tmp_path / "answer.json"
    result = ask(indexed, "what-if", "--relabel", f"{id_}:{start}:{stop}=ORG", "--verify", "--json", path)
    found = answer(result, path)
    for expected in ("B-PER I-PER", "B-ORG I-ORG", f"{id_} {start}:{stop}", "before", "after, refined"):
        assert expected in result.stdout
    assert "after, verified" in result.stdout
    (edit,) = found["edits"]
    assert (edit["id"], edit["start"], edit["stop"]) == entity
    assert (edit["given"], edit["labels"]) == (["B-PER", "I-PER"], ["B-ORG", "I-ORG"])
    refined, verified = found["effects"]["refine"], found["effects"]["verify"]
    assert refined["loss_before"] == verified["loss_before"]
    assert refined["change"] == pytest.approx(verified["change"], rel=0.3, abs=1e-3)
    for table in ("probabilities_before", "probabilities_after"):
        assert sum(verified[table][0].values()) == pytest.approx(1.0)


def test_the_whole_tagger_is_trained_again(data: Path, tagger: Path, tmp_path: Path) -> None:
    succeed("index", tagger, data / "train.conll", tmp_path / "index", "--device", "cpu")
    sentence = open_index(tmp_path / "index").sentence(0)
    path = tmp_path / "answer.json"
    question = ["--data", data / "dev.conll", "--sentence", "dev-0:0", "--segment", "0:1", "--device", "cpu"]
    edit = ["--remove", f"{sentence.id}:0:1", "--relabel", f"{sentence.id}:1:2=O"]
    options = ["--retrain", "--seeds", 2, "--jobs", 1, "--work", tmp_path / "work", "--json", path]
    result = succeed("what-if", tmp_path / "index", *question, *edit, *options)
    found = answer(result, path)
    assert "the whole tagger trained again, with and without the edits, mean of 2 seeds" in result.stdout
    assert f"the prediction changes in {found['retrained']['num_flips']} of 2" in result.stdout
    assert len(found["retrained"]["changes"]) == 2
    assert found["effects"]["retrain"]["change"] == pytest.approx(found["retrained"]["change"])
    assert len(list((tmp_path / "work").glob("*/*.safetensors"))) == 4


def test_what_cannot_be_trained_again_is_refused(indexed: Path, entity: tuple[str, int, int]) -> None:
    id_, start, stop = entity
    edit = ["--relabel", f"{id_}:{start}:{stop}=ORG"]
    refused(ask(indexed, "what-if", *edit, "--retrain", "--verify"), "give one of them")
    refused(ask(indexed, "what-if", *edit, "--retrain"), "does not record how it was trained")
    refused(ask(indexed, "what-if", *edit, "--retrain", "--seeds", 0), "num_seeds 0")
    refused(ask(indexed, "what-if", *edit, "--seeds", 2), "need --retrain")


def test_edits_from_a_file_are_those_of_the_options(
    indexed: Path, entity: tuple[str, int, int], tmp_path: Path
) -> None:
    id_, start, stop = entity
    lines = [
        {"id": id_, "start": start, "stop": start + 1, "labels": None},
        {"id": id_, "start": start + 1, "stop": stop, "labels": ["O"]},
    ]
    (tmp_path / "edits.jsonl").write_text("\n\n".join(json.dumps(line) for line in lines) + "\n")
    file, options = tmp_path / "file.json", tmp_path / "options.json"
    first = answer(ask(indexed, "what-if", "--from", tmp_path / "edits.jsonl", "--json", file), file)
    edits = ["--remove", f"{id_}:{start}:{start + 1}", "--relabel", f"{id_}:{start + 1}:{stop}=O"]
    second = answer(ask(indexed, "what-if", *edits, "--json", options), options)
    assert first == second
    assert "verify" not in first["effects"]


def test_a_place_may_be_copied_from_a_table(indexed: Path, entity: tuple[str, int, int], tmp_path: Path) -> None:
    id_, start, stop = entity
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    given = answer(ask(indexed, "what-if", "--remove", f"{id_}:{start}:{stop}", "--json", first), first)
    assert answer(ask(indexed, "what-if", "--remove", f"{id_} {start}:{stop}", "--json", second), second) == given


def test_an_edit_that_breaks_the_scheme_is_noted(indexed: Path, entity: tuple[str, int, int]) -> None:
    id_, start, _ = entity
    result = ask(indexed, "what-if", "--relabel", f"{id_}:{start}:{start + 1}=O")
    assert result.exit_code == 0, result.output
    assert f"note: {id_} {start}:{start + 1}: after the edit, I-PER" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give --remove, --relabel or --from"),
        (["--remove", "nowhere:1:2"], "tagtrace: --remove nowhere:1:2: "),
        (["--remove", "nowhere:1:2"], "no training sentence has the id 'nowhere'"),
        (["--remove", "train-0:0:1"], "no training sentence has the id 'train-0'"),
        (["--remove", "1:2"], "expected ID:START:STOP"),
        (["--relabel", "train-0:0:1:2"], "expected ID:START:STOP=LABEL"),
        (["--remove", "train-0:0:0:999"], "0:999 is not a segment of"),
        (["--relabel", "train-0:0:0:1=WINE"], "--relabel train-0:0:0:1=WINE: unknown label 'WINE'"),
        (["--relabel", "train-0:0:0:1=O,O"], "2 labels for 1 token"),
        (["--remove", "train-0:0:0:1", "--relabel", "train-0:0:0:1=O"], "token 0"),
    ],
)
def test_bad_edits_get_one_line(indexed: Path, options: list[str], message: str) -> None:
    refused(ask(indexed, "what-if", *options), message)


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        '{"id": "a"}',
        "nonsense",
        '{"id": "a", "start": "x", "stop": 2}',
        '{"id": "train-0:0", "start": 0.9, "stop": 2}',
        '{"id": "train-0:0", "start": 0, "stop": true}',
        '{"id": "train-0:0", "start": 0, "stop": 1, "labels": "O"}',
        '{"id": "train-0:0", "start": 0, "stop": 1, "labels": [0]}',
        '{"id": "train-0:0", "start": 0, "stop": 1, "labels": {"O": 1}}',
    ],
)
def test_a_bad_line_of_a_file_is_named(indexed: Path, tmp_path: Path, line: str) -> None:
    (tmp_path / "edits.jsonl").write_text(f"\n{line}\n")
    refused(ask(indexed, "what-if", "--from", tmp_path / "edits.jsonl"), "edits.jsonl, line 2: ", "give JSON lines")
