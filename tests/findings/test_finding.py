"""Findings come back from their files as they were, and a damaged file is named with its line."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagtrace._checks import DataError
from tagtrace.findings.finding import (
    COLUMNS,
    Finding,
    read_findings,
    spelled,
    write_findings,
    write_findings_table,
)

ONE = Finding(
    rank=1,
    sentence="train-3:7",
    document="train-3",
    sentence_number=12,
    start=2,
    stop=4,
    line=310,
    tokens=("Port", "Ilvane"),
    before=("beat",),
    after=("3-1", "."),
    given=("B-LOC", "I-LOC"),
    proposed=("B-ORG", "I-ORG"),
    score=3.25,
    confidence=0.875,
    scores={"loss": 1.5, "entropy": 0.25},
    pattern=2,
)
TWO = replace(
    ONE, rank=2, start=0, stop=1, tokens=("Ilvane",), given=("O",), proposed=("B-ORG",), scores={}, pattern=None
)

words = st.lists(st.text(st.characters(exclude_categories=()), max_size=6), max_size=3).map(tuple)


def test_json_lines_come_back(tmp_path: Path) -> None:
    path = tmp_path / "findings.jsonl"
    write_findings([ONE, TWO], path)
    assert read_findings(path) == [ONE, TWO]
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2
    write_findings([], path)
    assert read_findings(path) == []


@given(words, st.text(max_size=6), st.floats(allow_nan=False, allow_infinity=False))
def test_any_text_comes_back(
    tmp_path_factory: pytest.TempPathFactory, before: tuple[str, ...], name: str, score: float
) -> None:
    """Also ends of lines that JSON leaves as they are."""
    path = tmp_path_factory.mktemp("any") / "findings.jsonl"
    tokens = (f"\u2028{name}", "\x85\\ud800")
    one = replace(ONE, before=before, tokens=tokens, document=name, score=score)
    write_findings([one, TWO], path)
    assert read_findings(path) == [one, TWO]


def test_a_file_saved_by_an_editor_is_read(tmp_path: Path) -> None:
    path = tmp_path / "findings.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + f"{ONE.to_line()}\r\n\r\n{TWO.to_line()}\r\n\r\n".encode())
    assert read_findings(path) == [ONE, TWO]


def test_scores_and_pattern_may_be_left_out(tmp_path: Path) -> None:
    record = {key: value for key, value in json.loads(TWO.to_line()).items() if key not in ("scores", "pattern")}
    (tmp_path / "findings.jsonl").write_text(json.dumps(record))
    assert read_findings(tmp_path / "findings.jsonl") == [TWO]


def test_the_table_has_a_row_a_finding(tmp_path: Path) -> None:
    odd = replace(TWO, tokens=('a,"b"\n\ud800',), document="é;", before=("=1+1",), after=("-",))
    write_findings_table([ONE, odd], tmp_path / "findings.csv")
    with (tmp_path / "findings.csv").open(encoding="utf-8", newline="") as stream:
        head, first, second = csv.reader(stream)
    assert tuple(head) == COLUMNS
    assert dict(zip(head, first, strict=True)) == {
        "rank": "1", "sentence": "train-3:7", "start": "2", "stop": "4", "line": "310", "document": "train-3",
        "text": "Port Ilvane", "given": "B-LOC I-LOC", "proposed": "B-ORG I-ORG", "score": "3.25",
        "confidence": "0.875", "pattern": "2", "before": "beat", "after": "3-1 .",
    }  # fmt: skip
    row = dict(zip(head, second, strict=True))
    assert (row["text"], row["document"], row["pattern"]) == ('a,"b"\n\\ud800', "é;", "")
    assert (row["before"], row["after"]) == ("'=1+1", "'-"), "no text becomes a formula"


def changed(**values: Any) -> str:
    record = {**json.loads(ONE.to_line()), **values}
    return json.dumps({key: value for key, value in record.items() if value != "gone"})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not valid JSON"),
        ("[1]", "the document should be an object"),
        ("null", "the document should be an object"),
        ("[" * 100_000, "not valid JSON"),
        (changed(tokens="gone"), "the key tokens is missing"),
        (changed(colour="red"), "the key colour is unknown"),
        (changed(tokens="Po"), "tokens should be a valid array"),
        (changed(given=["B-LOC", 3]), "given.1 should be a valid string"),
        (changed(rank="1"), "rank should be a valid integer"),
        (changed(rank=True), "rank should be a valid integer"),
        (changed(start=2.0), "start should be a valid integer"),
        (changed(confidence=None), "confidence should be a valid number"),
        (changed(scores=[1]), "scores should be"),
        (changed(pattern="1"), "pattern should be a valid integer"),
        (changed(proposed=["B-ORG"]), "tokens 2:4: each needs a given and a proposed label"),
        (changed(start=4), "tokens 4:4: each needs"),
        (changed(start=-1, stop=1), "tokens -1:1: each needs"),
        *((changed(**{name: number}), f"{name} must be from 0 to 2")
          for name in ("rank", "line", "sentence_number", "pattern") for number in (2**53 + 1, 2**63, -1)),
        (changed(start=2**60, stop=2**60 + 2), "stop must be from 0 to 2"),
    ],
    ids=["json", "list", "null", "deep", "missing", "unknown", "text", "number", "rank", "bool", "float", "none",
         "scores", "pattern", "labels", "empty", "negative", *map("number-{}".format, range(13))],
)  # fmt: skip
def test_a_bad_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "findings.jsonl"
    path.write_text(f"{TWO.to_line()}\n\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=rf"findings.jsonl, line 3: .*{reason}.*; give the findings.jsonl"):
        read_findings(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none.jsonl: cannot be read .No such file or directory.; give the findings"):
        read_findings(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match=r"cannot be read .Is a directory"):
        read_findings(tmp_path)
    (tmp_path / "latin.jsonl").write_bytes('{"tokens": ["é"]}'.encode("latin-1"))
    with pytest.raises(DataError, match=r"latin.jsonl, line 1: not valid JSON"):
        read_findings(tmp_path / "latin.jsonl")


@pytest.mark.parametrize(
    ("given", "proposed", "change"),
    [
        (("B-LOC", "I-LOC"), ("B-ORG", "I-ORG"), "LOC -> ORG"),
        (("B-MISC",), ("O",), "MISC -> O"),
        (("B-ORG", "O"), ("B-ORG", "I-ORG"), "ORG -> ORG"),
        (("B-PER", "B-PER", "O", "B-LOC"), ("O", "O", "O", "O"), "PER+LOC -> O"),
        (("NOUN",), ("VERB",), "NOUN -> VERB"),
        (("Drug", "Drug", "O"), ("O", "O", "Drug"), "Drug -> Drug"),
    ],
)  # fmt: skip
def test_change(given: tuple[str, ...], proposed: tuple[str, ...], change: str) -> None:
    tokens = ("x",) * len(given)
    one = replace(ONE, start=0, stop=len(given), tokens=tokens, given=given, proposed=proposed)
    assert one.change == change
    assert one.text == " ".join(tokens)
    assert spelled(()) == "O"
