"""Summaries count what a file contains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tagtrace._checks import DataError
from tagtrace._table import Table
from tagtrace.data import ReadOptions, read_corpus, summarise
from tagtrace.data.summary import check_same_types, summary_table

TEXT = """\
-DOCSTART- O

# a comment of four words
Orla B-PER
met O
Tam B-PER
Brook I-PER

Fenwick I-LOC
-DOCSTART- O

rain O
"""


def test_everything_is_counted(tmp_path: Path):
    path = tmp_path / "tiny.conll"
    path.write_text(TEXT)
    summary = summarise(read_corpus(path))
    assert (summary.documents, summary.sentences, summary.tokens, summary.segments) == (2, 3, 6, 3)
    assert list(summary.segments_per_type.items()) == [("PER", 2), ("LOC", 1)]
    assert list(summary.labels.items()) == [("B-PER", 2), ("O", 2), ("B-LOC", 1), ("I-PER", 1)]
    assert summary.violations == ((9, "I-LOC starts a segment; iob2 requires B-LOC"),)
    assert (summary.format, summary.scheme, summary.comments, summary.skipped) == ("conll", "iob2", 1, ())
    saved = json.loads(json.dumps(summary.to_json()))
    assert saved["violations"] == [[9, "I-LOC starts a segment; iob2 requires B-LOC"]]
    assert saved["path"] == str(path)
    assert saved["segments_per_type"] == {"PER": 2, "LOC": 1}


def test_a_file_without_labels_has_no_segments(tmp_path: Path):
    path = tmp_path / "bare.txt"
    path.write_text("Orla\nslept\n")
    summary = summarise(read_corpus(path, ReadOptions(labelled=False)))
    assert (summary.scheme, summary.tokens, summary.segments, summary.labels) == ("none", 2, 0, {})


def test_a_summary_describes_itself(tmp_path: Path) -> None:
    path = tmp_path / "tiny.conll"
    path.write_text(TEXT)
    summary = summarise(read_corpus(path))
    table, broken = summary.describe()
    assert isinstance(table, Table)
    assert (table.columns, table.right) == (("", "tiny.conll"), ("tiny.conll",))
    assert table.rows == (
        ("format", "conll"),
        ("scheme", "iob2"),
        ("tokens from", "column 0"),
        ("labels from", "column 1"),
        ("documents", "2"),
        ("sentences", "3"),
        ("tokens", "6"),
        ("segments", "3"),
        ("  LOC", "1"),
        ("  PER", "2"),
        ("broken labels", "1"),
    )
    assert broken == f"{path}, line 9: broken label: I-LOC starts a segment; iob2 requires B-LOC"
    assert str(summary) == f"{table.text()}\n{broken}"
    assert "<td>  LOC</td><td>1</td>" in summary._repr_html_()


def test_only_the_first_oddities_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "tiny.jsonl"
    path.write_text('{"tokens": ["a"], "tags": ["I-X"]}\n' * 12 + '{"tokens": [], "tags": []}\n' * 2)
    lines = summarise(read_corpus(path, ReadOptions(scheme="iob2"))).oddities(most=10)
    assert len(lines) == 13
    assert lines[0].startswith(f"{path}, line 1: broken label: ")
    assert lines[10:] == [
        f"{path}: 2 more are not shown",
        f"{path}, line 13: skipped: a row without tokens",
        f"{path}, line 14: skipped: a row without tokens",
    ]


def test_several_files_side_by_side(tmp_path: Path) -> None:
    summaries = []
    for name, label in (("train", "B-PER"), ("dev", "B-LOC")):
        (tmp_path / name).write_text(f"Orla {label}\nslept O\n" * (1 + (name == "train")))
        summaries.append(summarise(read_corpus(tmp_path / name)))
    rows = {row[0]: row[1:] for row in summary_table(summaries).rows}
    assert rows["  PER"] == ("2", "0")
    assert rows["  LOC"] == ("0", "1")
    check_same_types(summaries[:1] * 2)
    with pytest.raises(DataError, match=r"dev: has types that .*train does not have: LOC; a tagger trained on"):
        check_same_types(summaries)
