"""``tagtrace what-if`` and ``tagtrace flip`` on a small invented corpus, as a user meets them."""

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
from tagtrace.index import IndexOptions, build_index, open_index
from tagtrace.tagger import Lexical, LexicalOptions, new_tagger, save_tagger


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with invented data, a small tagger and its index."""
    folder = tmp_path_factory.mktemp("made")
    write_invented(generate(num_documents=20), folder)
    corpus = read_corpus(folder / "train.conll")
    torch.manual_seed(0)
    labels = LabelSet.from_sentences(corpus.sentences, "iob2")
    tagger = new_tagger(Lexical(LexicalOptions(buckets=64, width=4, hidden=4)), labels)
    save_tagger(tagger, folder / "tagger")
    build_index(tagger, corpus, folder / "index", IndexOptions(dtype="float32"), tagger_path=folder / "tagger")
    return folder


@pytest.fixture(scope="module")
def entity(made: Path) -> tuple[str, int, int]:
    """A training segment of two tokens: the sentence's id, start, stop."""
    index = open_index(made / "index")
    for number in range(index.num_sentences):
        sentence = index.sentence(number)
        for t, label in enumerate(sentence.labels):
            if label == "I-PER":
                return sentence.id, t - 1, t + 1
    raise AssertionError("no segment of two tokens")


def ask(made: Path, command: str, *options: object, segment: str = "0:1") -> Result:
    arguments = [command, made / "index", "--data", made / "dev.conll", "--sentence", "dev-0:1", "--segment", segment]
    return CliRunner().invoke(main, [str(argument) for argument in (*arguments, *options)])


def answer_of(result: Result, path: Path) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    return json.loads(path.read_text(encoding="utf-8"))


def test_what_if(made: Path, entity: tuple[str, int, int], tmp_path: Path) -> None:
    id_, start, stop = entity
    path = tmp_path / "answer.json"
    result = ask(made, "what-if", "--relabel", f"{id_}:{start}:{stop}=ORG", "--verify", "--json", path)
    answer = answer_of(result, path)
    for expected in ("B-PER I-PER", "B-ORG I-ORG", f"{id_} {start}:{stop}", "before", "predicted after"):
        assert expected in result.stdout
    assert "after retraining" in result.stdout
    (edit,) = answer["edits"]
    assert (edit["id"], edit["start"], edit["stop"]) == entity
    assert (edit["given"], edit["labels"]) == (["B-PER", "I-PER"], ["B-ORG", "I-ORG"])
    refined, verified = answer["effects"]["refine"], answer["effects"]["verify"]
    assert refined["loss_before"] == verified["loss_before"]
    assert refined["change"] == pytest.approx(verified["change"], rel=0.3, abs=1e-3)
    for table in ("probabilities_before", "probabilities_after"):
        assert sum(verified[table][0].values()) == pytest.approx(1.0)


def test_edits_from_a_file_are_those_of_the_options(made: Path, entity: tuple[str, int, int], tmp_path: Path) -> None:
    id_, start, stop = entity
    lines = [
        {"id": id_, "start": start, "stop": start + 1, "labels": None},
        {"id": id_, "start": start + 1, "stop": stop, "labels": ["O"]},
    ]
    (tmp_path / "edits.jsonl").write_text("\n\n".join(json.dumps(line) for line in lines) + "\n")
    file, options = tmp_path / "file.json", tmp_path / "options.json"
    first = answer_of(ask(made, "what-if", "--from", tmp_path / "edits.jsonl", "--json", file), file)
    edits = ["--remove", f"{id_}:{start}:{start + 1}", "--relabel", f"{id_}:{start + 1}:{stop}=O"]
    second = answer_of(ask(made, "what-if", *edits, "--json", options), options)
    assert first == second
    assert "verify" not in first["effects"]


def test_an_edit_that_breaks_the_scheme_is_noted(made: Path, entity: tuple[str, int, int]) -> None:
    id_, start, _ = entity
    result = ask(made, "what-if", "--relabel", f"{id_}:{start}:{start + 1}=O")
    assert result.exit_code == 0, result.output
    assert "once edited, I-PER starts a segment" in result.stderr


@pytest.mark.parametrize("edit", ["remove", "relabel"])
def test_flip_and_what_if_agree(made: Path, tmp_path: Path, edit: str) -> None:
    path = tmp_path / "flip.json"
    result = ask(made, "flip", "--edit", edit, "--most", 40, "--max-retrainings", 30, "--json", path)
    answer = answer_of(result, path)
    assert "retraining   1" in result.stderr
    assert answer["num_retrainings"] <= 30
    assert answer["found"], result.output
    assert f"editing {len(answer['edits'])} label" in result.stdout
    assert answer["labels_before"] == answer["predicted"] != answer["labels_after"]
    assert all((one["labels"] is None) == (edit == "remove") for one in answer["edits"])
    (tmp_path / "edits.jsonl").write_text("\n".join(json.dumps(one) for one in answer["edits"]))
    again = tmp_path / "again.json"
    checked = answer_of(ask(made, "what-if", "--from", tmp_path / "edits.jsonl", "--verify", "--json", again), again)
    assert checked["effects"]["verify"]["loss_after"] == pytest.approx(
        answer["effects"]["verify"]["loss_after"], abs=1e-3
    )


def test_flip_says_when_it_finds_nothing(made: Path) -> None:
    result = ask(made, "flip", "--most", 1, "--kind", "entity", "--max-retrainings", 1, segment="0:2")
    assert result.exit_code == 0, result.output
    assert "not found: " in result.stdout


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ("what-if", [], "give --remove, --relabel or --from"),
        ("what-if", ["--remove", "nowhere:1:2"], "no training sentence has the id 'nowhere'"),
        ("what-if", ["--remove", "train-0:0:1"], "no training sentence has the id 'train-0'"),
        ("what-if", ["--remove", "1:2"], "expected ID:START:STOP"),
        ("what-if", ["--relabel", "train-0:0:1:2"], "expected ID:START:STOP=LABEL"),
        ("what-if", ["--remove", "train-0:0:0:999"], "0:999 is no segment of it"),
        ("what-if", ["--relabel", "train-0:0:0:1=WINE"], "unknown label 'WINE'"),
        ("what-if", ["--relabel", "train-0:0:0:1=O,O"], "2 labels for 1 tokens"),
        ("what-if", ["--remove", "train-0:0:0:1", "--relabel", "train-0:0:0:1=O"], "both hold token 0"),
        ("flip", ["--to", "WINE"], "unknown label 'WINE'"),
        ("flip", ["--to", "O,O"], "2 labels for 1 tokens"),
        ("flip", ["--most", "0"], "at least 1"),
    ],
)
def test_bad_questions_get_one_line(made: Path, command: str, options: list[str], message: str) -> None:
    result = ask(made, command, *options)
    assert result.exit_code == 1, result.output
    assert message in result.stderr
    assert result.stderr.strip().splitlines()[-1].startswith("tagtrace: ")


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
def test_a_bad_line_is_named(made: Path, tmp_path: Path, line: str) -> None:
    (tmp_path / "edits.jsonl").write_text(f"\n{line}\n")
    result = ask(made, "what-if", "--from", tmp_path / "edits.jsonl")
    assert result.exit_code == 1
    assert "edits.jsonl, line 2: expected" in result.stderr
