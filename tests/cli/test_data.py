"""``tagtrace data check``."""

from __future__ import annotations

import json
from pathlib import Path

from tagtrace import read_corpus
from tests.cli.command import refused, succeed, tagtrace


def test_a_table_has_a_column_for_each_file(data: Path) -> None:
    result = succeed("data", "check", data / "train.conll", data / "dev.conll")
    assert result.stderr == ""
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in result.stdout.splitlines()]
    table = {row[0]: row[1:] for row in rows if len(row) == 3}
    train, dev = (read_corpus(data / f"{split}.conll") for split in ("train", "dev"))
    assert table["scheme"] == ["iob2", "iob2"]
    assert table["documents"] == [str(len(train.documents)), str(len(dev.documents))]
    assert table["sentences"] == [str(len(train.sentences)), str(len(dev.sentences))]
    assert table["tokens"] == [f"{train.num_tokens:,}", f"{dev.num_tokens:,}"]
    starts = [str(sum(label == "B-PER" for s in corpus.sentences for label in s.labels)) for corpus in (train, dev)]
    assert table["PER"] == starts
    assert table["broken labels"] == ["0", "0"]


def test_json(data: Path) -> None:
    train, dev = json.loads(succeed("data", "check", data / "train.conll", data / "dev.jsonl", "--json").stdout)
    assert (train["format"], dev["format"]) == ("conll", "jsonl")
    assert train["path"] == str(data / "train.conll")
    assert train["tokens"] == read_corpus(data / "train.conll").num_tokens
    assert sum(train["segments_per_type"].values()) == train["segments"]
    assert train["violations"] == []


def test_broken_labels_and_unknown_types_are_listed(tmp_path: Path) -> None:
    first, second = tmp_path / "first.conll", tmp_path / "second.conll"
    first.write_text("a B-PER\nb O\n")
    second.write_text("a B-PER\n\n" + "b I-LOC\n\n" * 12 + "c B-[/b]\n\n" + "d B-PER\n\n" * 20)
    result = tagtrace("data", "check", first, second)
    refused(result, f"{second}: has types that {first} ", "LOC, [/b]")
    listed = [line for line in result.stdout.splitlines() if line.startswith(f"{second}, line ")]
    assert len(listed) == 10
    assert listed[0].startswith(f"{second}, line 3: ")
    assert "I-LOC" in listed[0]
    assert f"{second}: 2 more " in result.stdout
    assert len(json.loads(succeed("data", "check", second, "--json").stdout)[0]["violations"]) == 12


def test_reading_options_reach_the_reader(tmp_path: Path) -> None:
    conll = tmp_path / "columns.conll"
    conll.write_text("NN cat PER\nVB sits O\n")
    options = ("--token-column", 1, "--label-column", 2, "--pos-column", 0, "--scheme", "io", "--format", "conll")
    found = json.loads(succeed("data", "check", conll, *options, "--json").stdout)[0]
    assert found["labels"] == {"O": 1, "PER": 1}
    jsonl = tmp_path / "rows.jsonl"
    jsonl.write_text('{"words": ["cat", "sits"], "classes": [1, 0]}\n')
    options = ("--tokens-key", "words", "--labels-key", "classes", "--label-names", "O,B-PER")
    assert json.loads(succeed("data", "check", jsonl, *options, "--json").stdout)[0]["labels"] == {"B-PER": 1, "O": 1}


def test_doubts_about_columns_are_shown_and_noted_by_training(tmp_path: Path) -> None:
    path = tmp_path / "numbered.conll"
    path.write_text("1\tgrey\tJJ\tO\n3\tsea\tNN\tB-LOC\n\n1\tTam\tNN\tB-LOC\n2\tsang\tVB\tO\n")
    found = succeed("data", "check", path).stdout
    assert f"{path}: in line 2, the first column has 3 after 1; it was read as numbers" in found
    assert "column 1" in found
    trained = succeed("train", path, tmp_path / "tagger", "--epochs", 1, "--device", "cpu")
    assert f"{path}: in line 2, the first column has 3 after 1" in trained.stderr.replace("\n", " ")


def test_convert(tmp_path: Path) -> None:
    source = tmp_path / "train.conll"
    source.write_text("Ada B-PER\nisn't O\n")
    result = succeed("data", "convert", source, tmp_path / "out", "--to", "brat")
    assert "brat standoff, 1 sentence, 2 tokens, 1 segment" in result.stdout
    assert "note: " in result.stdout
    assert (tmp_path / "out" / "train_0.ann").read_text() == "T1\tPER 0 3\tAda\n"
    refused(tagtrace("data", "convert", source, tmp_path / "out", "--to", "brat"), "exists already")
    succeed("data", "convert", source, tmp_path / "out", "--to", "brat", "--overwrite")
    refused(tagtrace("data", "convert", source, tmp_path / "out.jsonl"), "name one of jsonl, doccano")
    refused(tagtrace("data", "convert", tmp_path / "out", tmp_path / "out" / "x.conll"), "is inside IN")
    succeed("data", "convert", tmp_path / "out", tmp_path / "back.conll")
    assert (tmp_path / "back.conll").read_text() == "-DOCSTART-\tO\n\nAda\tB-PER\nisn\tO\n'\tO\nt\tO\n\n"


def test_convert_without_labels(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("Ada\nran\n")
    refused(tagtrace("data", "convert", tmp_path / "a", tmp_path / "b", "--to", "jsonl"), "label")
    succeed("data", "convert", tmp_path / "a", tmp_path / "b", "--to", "jsonl", "--unlabelled")
    assert json.loads((tmp_path / "b").read_text()) == {"id": "a:0", "tokens": ["Ada", "ran"]}
