"""Data that cannot be indexed is refused before any work is done, and leaves nothing behind."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tagtrace._checks import DataError, EncoderError, OptionError, TrainingError
from tagtrace.data import Corpus, ReadOptions
from tagtrace.index import IndexFolderError, IndexOptions, build_index
from tagtrace.tagger import HeadOptions
from tests.index.test_build import make_corpus, make_tagger


def test_no_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(IndexFolderError, match=r"needs about .* MB free; free some space"):
        build_index(make_tagger(), make_corpus(), tmp_path / "index")
    assert not list(tmp_path.iterdir())


def test_refuses_an_existing_folder_unless_told(tmp_path: Path) -> None:
    first = build_index(make_tagger(), make_corpus(), tmp_path / "index")
    with pytest.raises(OptionError, match="exists already"):
        build_index(make_tagger(), make_corpus(seed=1), tmp_path / "index")
    second = build_index(make_tagger(), make_corpus(seed=1), tmp_path / "index", overwrite=True)
    assert second.num_tokens != first.num_tokens
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(OptionError, match="not replaced"):
        build_index(make_tagger(), make_corpus(), tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "x"


def test_features_too_large_for_float16(tmp_path: Path) -> None:
    tagger = make_tagger(scale=1e5)
    with pytest.raises(IndexFolderError, match="do not fit float16; use bfloat16"):
        build_index(tagger, make_corpus(), tmp_path / "index")
    assert not list(tmp_path.iterdir())
    build_index(tagger, make_corpus(), tmp_path / "index", IndexOptions("bfloat16", refit=False))


def test_refuses_labels_the_tagger_cannot_learn(tmp_path: Path) -> None:
    corpus, tagger = make_corpus(), make_tagger(head=HeadOptions(constrained=True))
    bad = corpus.sentences[0]
    wrong = [(["I-X"] * len(bad), "line 1: I-X is forbidden"), ([], "no labels"), (["B-Y"] * len(bad), "unknown label")]
    for labels, message in wrong:
        with pytest.raises(DataError, match=message):
            build_index(tagger, corpus.with_sentences([bad.with_labels(labels)]), tmp_path / "index")
    other = Corpus(corpus.path, corpus.sentences, "plain", ReadOptions(), "0")
    with pytest.raises(DataError, match="labels are plain"):
        build_index(tagger, other, tmp_path / "index")
    assert not list(tmp_path.iterdir())


def test_refuses_data_the_encoder_cannot_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tagger, corpus = make_tagger(), make_corpus()

    def refuse(found: Corpus) -> None:
        assert found is corpus
        raise EncoderError("too few rows")

    monkeypatch.setattr(tagger.encoder, "check_corpus", refuse)
    with pytest.raises(EncoderError, match="too few rows"):
        build_index(tagger, corpus, tmp_path / "index")
    assert not list(tmp_path.iterdir())


def test_refuses_a_head_that_diverged(tmp_path: Path) -> None:
    tagger = make_tagger()
    with torch.no_grad():
        tagger.head.weight.fill_(torch.nan)
    with pytest.raises(TrainingError, match="no finite loss"):
        build_index(tagger, make_corpus(), tmp_path / "index", IndexOptions(refit=False))
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("wrong", [{"dtype": "int8"}, {"shard_tokens": 0}, {"l2": 0.0}, {"tolerance": -1.0}])
def test_options_that_cannot_work(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        IndexOptions(**wrong)
