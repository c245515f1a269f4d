"""Read options check themselves."""

from __future__ import annotations

from typing import Any

import pytest

from tagtrace._checks import OptionError
from tagtrace.data import ReadOptions


def test_aliases_and_lists_are_settled():
    options = ReadOptions(scheme="BILUO", labels=["O", "X"])
    assert options.scheme == "bilou"
    assert options.labels == ("O", "X")
    hash(options)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"format": "xml"}, "unknown format 'xml'; choose one of auto, conll, jsonl"),
        ({"scheme": "iob"}, "unknown label scheme 'iob'"),
        ({"token_column": "1"}, "token_column must be a whole number"),
        ({"label_column": True}, "label_column must be a whole number"),
        ({"token_column": 1, "label_column": 1}, "token_column and label_column are both 1; they must differ"),
        ({"label_column": -1, "pos_column": -1}, "label_column and pos_column are both -1"),
        ({"labels": "O"}, "labels must be a list of names; got 'O'"),
        ({"labels": ["O", 1]}, "labels must be a list of names"),
        ({"labels": ["O", "O"]}, "labels must be distinct"),
        ({"labels": ["O", "\udcff"]}, r"labels: '\\udcff' is not UTF-8"),
        ({"tokens_key": "\udcff"}, r"tokens_key: '\\udcff' is not UTF-8"),
        ({"tokens_key": ""}, "tokens_key must be the name of a key"),
        ({"labels_key": 3}, "labels_key must be the name of a key; got 3"),
        ({"labels_key": "tokens"}, "tokens_key and labels_key are both 'tokens'"),
    ],
)
def test_impossible_options_are_refused(wrong: dict[str, Any], message: str):
    with pytest.raises(OptionError, match=message):
        ReadOptions(**wrong)
