"""The training segments of every kind against their definition."""

from __future__ import annotations

import pytest
import torch

from tagtrace._checks import OptionError
from tagtrace.influence.scoring.candidates import Candidates, find_segments
from tests.strategies import LABELS, random_rows


def test_segments_of_every_kind() -> None:
    rows = random_rows(0, (3, 1))
    rows.labels[:] = torch.tensor([1, 2, 0, 1])  # B-X I-X O | B-X
    assert find_segments(rows, LABELS, "token").tolist() == [[0, 0, 1], [0, 1, 2], [0, 2, 3], [1, 0, 1]]
    assert find_segments(rows, LABELS, "entity").tolist() == [[0, 0, 2], [1, 0, 1]]
    assert find_segments(rows, LABELS, "sentence").tolist() == [[0, 0, 3], [1, 0, 1]]
    two = find_segments(rows, LABELS, "segment", max_length=2).tolist()
    assert two == [[0, 0, 1], [0, 0, 2], [0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 0, 1]]
    with pytest.raises(OptionError, match="expected one of"):
        find_segments(rows, LABELS, "word")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="max_length 0"):
        find_segments(rows, LABELS, "segment", max_length=0)


def test_selected_documents_keep_their_sentences() -> None:
    segments = torch.tensor([(0, 0, 3), (1, 0, 2), (2, 0, 1), (3, 0, 4)])
    documents = Candidates(segments, "document", torch.tensor([0, 1, 0, 2]), ("a", "b", "c"))
    assert len(documents) == 3
    assert documents.total(torch.tensor([1, 10, 100, 1000])).tolist() == [101, 10, 1000]
    chosen = documents.select(torch.tensor([2, 0]))
    assert (chosen.documents, chosen.kind) == (("c", "a"), "document")
    assert chosen.parts(0) == [(3, 0, 4)]
    assert chosen.parts(1) == [(0, 0, 3), (2, 0, 1)]
