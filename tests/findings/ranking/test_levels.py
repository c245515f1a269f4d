"""Levels by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tagtrace._checks import DataError, OptionError
from tagtrace.data import Corpus, ReadOptions, Sentence
from tagtrace.findings import at_level
from tagtrace.findings.ranking.levels import aggregated
from tagtrace.index import Index, IndexOptions, build_index, open_index
from tests.findings.made import make_tagger

SENTENCES = (
    Sentence(("w0", "w1", "w2", "w3"), ("B-X", "I-X", "O", "B-Y"), "first", "d1"),
    Sentence(("w4",), ("O",), "second", "d2"),
    Sentence(("w5", "w6"), ("B-Y", "B-Y"), "third", "d1"),
    Sentence(("w7",), ("O",), "alone"),
)
SCORES = torch.tensor([1.0, 5.0, 2.0, -1.0, 7.0, 3.0, 4.0, 0.5])


def build(folder: Path, sentences: tuple[Sentence, ...] = SENTENCES) -> Index:
    corpus = Corpus(Path("train.conll"), sentences, "iob2", ReadOptions(), "made")
    build_index(make_tagger(), corpus, folder / "index", IndexOptions(shard_tokens=5))
    return open_index(folder / "index")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return build(tmp_path_factory.mktemp("levels"))


ENTITIES = ("first:0:2", "first:3:4", "third:0:1", "third:1:2")
SENTENCES = ("first", "second", "third", "alone")


@pytest.mark.parametrize(
    ("level", "aggregate", "names", "scores"),
    [
        ("entity", "mean", ENTITIES, [3, -1, 3, 4]),
        ("entity", "max", ENTITIES, [5, -1, 3, 4]),
        ("entity", "top", ENTITIES, [3, -1, 3, 4]),
        ("sentence", "mean", SENTENCES, [1.75, 7, 3.5, 0.5]),
        ("sentence", "max", SENTENCES, [5, 7, 4, 0.5]),
        ("sentence", "top", SENTENCES, [3.5, 7, 3.5, 0.5]),
        ("document", "mean", ("d1", "d2", "alone"), [14 / 6, 7, 0.5]),
        ("document", "max", ("d1", "d2", "alone"), [5, 7, 0.5]),
        ("document", "top", ("d1", "d2", "alone"), [4.5, 7, 0.5]),
    ],
)
def test_by_hand(index: Index, level: Any, aggregate: Any, names: tuple[str, ...], scores: list[float]) -> None:
    found = at_level(index, SCORES, level, aggregate, top_k=2)
    assert found.names == names
    assert found.scores.tolist() == pytest.approx(scores)


def test_tokens_and_their_order(index: Index) -> None:
    found = at_level(index, SCORES, "token")
    assert found.names[:5] == ("first:0:1", "first:1:2", "first:2:3", "first:3:4", "second:0:1")
    assert found.scores.tolist() == SCORES.tolist()
    assert found.ranked(3) == [("second:0:1", 7.0), ("first:1:2", 5.0), ("third:1:2", 4.0)]
    assert found.candidates.parts(4) == [(1, 0, 1)]
    equal = at_level(index, torch.zeros(8), "sentence")
    assert [name for name, _ in equal.ranked()] == list(SENTENCES)


def test_top_1_is_the_largest_and_top_many_the_mean() -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(50, generator=generator, dtype=torch.float64)
    owner = torch.cat([torch.arange(7), torch.randint(0, 7, (43,), generator=generator)])
    for top_k, other in ((1, "max"), (50, "mean")):
        torch.testing.assert_close(
            aggregated(values, owner, 7, "top", top_k),
            aggregated(values, owner, 7, other, 1),  # type: ignore[arg-type]
        )
    expected = [sorted(values[owner == group].tolist())[-3:] for group in range(7)]
    found = aggregated(values, owner, 7, "top", 3)
    assert found.tolist() == pytest.approx([sum(part) / len(part) for part in expected])


def test_no_labelled_segment(tmp_path: Path) -> None:
    index = build(tmp_path, (Sentence(("w0", "w1"), ("O", "O"), "s"),))
    found = at_level(index, torch.ones(2), "entity", "max")
    assert found.names == ()
    assert found.ranked() == []
    with pytest.raises(DataError, match="names no documents"):
        at_level(index, torch.ones(2), "document")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "paragraph"}, "level 'paragraph': expected one of token, entity, sentence, document"),
        ({"aggregate": "sum"}, "aggregate 'sum': expected one of mean, max, top"),
        ({"top_k": 0}, "top_k 0: must be at least 1"),
        ({"scores": torch.zeros(7)}, r"scores of shape \(7,\) do not fit 8 tokens"),
        ({"scores": torch.full((8,), torch.nan)}, "8 of the scores are NaN"),
    ],
)
def test_refusals(index: Index, options: dict[str, Any], message: str) -> None:
    with pytest.raises((OptionError, DataError), match=message):
        at_level(index, **{"scores": SCORES, "level": "sentence", **options})
