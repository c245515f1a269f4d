"""``tagtrace predict``."""

from __future__ import annotations

import json
from pathlib import Path

from tagtrace import load_tagger, read_corpus
from tagtrace.data import violations
from tests.cli.command import refused, succeed, tagtrace


def test_conll_gets_a_column(data: Path, tagger: Path, tmp_path: Path) -> None:
    target = tmp_path / "labelled.conll"
    result = succeed("predict", tagger, data / "dev.conll", target)
    gold = read_corpus(data / "dev.conll")
    assert f"wrote {target}: {len(gold.sentences)} sentences" in result.stdout
    before, after = (path.read_text().splitlines() for path in (data / "dev.conll", target))
    assert [line.rsplit("\t", 1)[0] for line in after] == before
    assert {len(line.split("\t")) for line in after} == {1, 3}
    predicted = [s.labels for s in read_corpus(target).sentences]
    assert predicted == load_tagger(tagger).predict(gold)
    assert not any(violations(labels, "iob2") for labels in predicted)


def test_json_lines_get_a_key(data: Path, tagger: Path, tmp_path: Path) -> None:
    succeed("predict", tagger, data / "dev.jsonl", tmp_path / "out.jsonl")
    before, after = (
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in (data / "dev.jsonl", tmp_path / "out.jsonl")
    )
    predicted = [row.pop("predicted") for row in after]
    assert after == before
    gold = read_corpus(data / "dev.conll").sentences
    assert [tuple(labels) for labels in predicted] == load_tagger(tagger).predict(gold)


def test_data_without_labels_or_with_unknown_ones(data: Path, tagger: Path, tmp_path: Path) -> None:
    expected = load_tagger(tagger).predict(read_corpus(data / "dev.conll").sentences)
    lines = (data / "dev.conll").read_text().splitlines()
    bare, other = tmp_path / "bare.conll", tmp_path / "other.conll"
    bare.write_text("\n".join(line.split("\t")[0] for line in lines))
    other.write_text("\n".join(f"{line.split(chr(9))[0]}\tB-GENE" if line else "" for line in lines))
    succeed("predict", tagger, bare, tmp_path / "bare.out", "--unlabelled")
    succeed("predict", tagger, other, tmp_path / "other.out")
    for name in ("bare.out", "other.out"):
        assert [s.labels for s in read_corpus(tmp_path / name).sentences] == expected


def test_the_output_is_only_replaced_when_asked(data: Path, tagger: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.conll"
    target.write_text("mine")
    refused(tagtrace("predict", tagger, data / "dev.conll", target), f"{target}: exists already")
    assert target.read_text() == "mine"
    succeed("predict", tagger, data / "dev.conll", target, "--overwrite")
    assert read_corpus(target).sentences
    before = target.read_bytes()
    refused(tagtrace("predict", tagger, target, target, "--overwrite"), "is FILE, which is never overwritten")
    assert target.read_bytes() == before
