"""Summaries count what a file holds."""

from __future__ import annotations

import json
from pathlib import Path

from tagtrace.data import ReadOptions, read_corpus, summarise

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
    assert summary.violations == ((9, "I-LOC starts a segment; iob2 wants B-LOC"),)
    assert (summary.format, summary.scheme, summary.comments, summary.skipped) == ("conll", "iob2", 1, ())
    saved = json.loads(json.dumps(summary.to_json()))
    assert saved["violations"] == [[9, "I-LOC starts a segment; iob2 wants B-LOC"]]
    assert saved["path"] == str(path)
    assert saved["segments_per_type"] == {"PER": 2, "LOC": 1}


def test_a_file_without_labels_has_no_segments(tmp_path: Path):
    path = tmp_path / "bare.txt"
    path.write_text("Orla\nslept\n")
    summary = summarise(read_corpus(path, ReadOptions(labelled=False)))
    assert (summary.scheme, summary.tokens, summary.segments, summary.labels) == ("none", 2, 0, {})
