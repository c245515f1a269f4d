"""Precomputed arrays that do not belong to the file they are used for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tagtrace._checks import EncoderError
from tagtrace.data import join, read_corpus
from tagtrace.tagger import Precomputed


@pytest.mark.parametrize("num_rows", [2, 4, 10])
def test_an_array_has_one_row_for_each_token(tmp_path: Path, num_rows: int) -> None:
    (tmp_path / "train.conll").write_text("a O\nb O\n\nc O\n\nd O\n")
    np.save(tmp_path / "train.conll.npy", np.zeros((num_rows, 2), np.float32))
    corpus = read_corpus(tmp_path / "train.conll")
    encoder = Precomputed(tmp_path)
    if num_rows == 4:
        encoder.check_corpus(corpus)
    else:
        with pytest.raises(EncoderError, match=f"has {num_rows} rows, but .*train.conll has 4 tokens"):
            encoder.check_corpus(corpus)


def test_sentences_that_are_not_contiguous_have_no_rows(tmp_path: Path) -> None:
    (tmp_path / "train.conll").write_text("a O\nb O\n\nc O\n\nd O\n")
    np.save(tmp_path / "train.conll.npy", np.arange(8, dtype=np.float32).reshape(4, 2))
    first, second, third = read_corpus(tmp_path / "train.conll").sentences
    encoder = Precomputed(tmp_path)
    assert encoder.prepare(join([first, second])).tolist() == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(EncoderError, match="are not contiguous"):
        encoder.prepare(join([first, third]))
