"""Arguments of the wrong type, such as a path where data is expected: one line says what to give instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tagtrace as tt
from tests.influence.small_index import small_index


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> tt.Index:
    return small_index(tmp_path_factory.mktemp("made"), dtype="float32")


def _first_misprediction(index: tt.Index, data: tt.Corpus) -> Any:
    return tt.mispredictions(index.tagger(), data)[0]


PATH: Any = "a.conll"
CALLS: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "train": (lambda _index, _data: tt.train(PATH), "corpus is of type str, not Corpus; give read_corpus"),
    "build_index": (
        lambda index, _data: tt.build_index(index.tagger(), PATH, "new"),
        "corpus is of type str, not Corpus; give read_corpus",
    ),
    "make_query": (lambda index, _data: tt.make_query(index.tagger(), PATH, 0, 1), "sentence is of type str"),
    "make_queries": (lambda index, _data: tt.make_queries(index.tagger(), PATH), "corpus is of type str"),
    "Explainer": (lambda _index, _data: tt.Explainer(PATH), "index is of type str, not Index; give open_index"),
    "curvature": (lambda index, _data: tt.Explainer(index, PATH), "curvature 'a.conll'"),
    "explain": (
        lambda index, data: tt.Explainer(index).explain(_first_misprediction(index, data)),
        "query is of type Misprediction, not Query; make one with make_query",
    ),
    "what_if": (lambda index, data: tt.Explainer(index).what_if(data, []), "query is of type Corpus, not Query"),
    "flip": (lambda index, data: tt.Explainer(index).flip(data), "query is of type Corpus, not Query"),
    "run_audit": (lambda index, _data: tt.run_audit(index, PATH), "trusted is the path a.conll; give read_corpus"),
    "truth": (lambda index, _data: tt.run_audit(index, truth=PATH), "truth is of type str, not Corpus"),
    "fix": (lambda _index, _data: tt.fix(PATH, []), "corpus is of type str, not Corpus"),
    "gain": (lambda index, data: tt.gain(index, data, data, PATH), "test is of type str, not Corpus"),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments_get_one_line(index: tt.Index, name: str) -> None:
    call, message = CALLS[name]
    data = tt.read_corpus(index.folder.parent / "dev.conll")
    with pytest.raises(tt.TagtraceError, match=message) as raised:
        call(index, data)
    assert "\n" not in str(raised.value)


def test_what_a_user_would_guess_is_accepted(index: tt.Index) -> None:
    data = tt.read_corpus(index.folder.parent / "dev.conll")
    (query,) = tt.make_queries(index.tagger(), data, most=1)
    explainer = tt.Explainer(index)
    best = explainer.explain(query).supporters[0]
    edit = tt.make_edit(index, best.sentence, best.start, best.stop)
    assert edit == tt.make_edit(index, best.sentence.id, best.start, best.stop) == best.edits()[0]
    assert explainer.what_if(query, edit).best.change == explainer.what_if(query, [edit]).best.change


def test_data_and_indexes_are_shown_in_one_line(index: tt.Index) -> None:
    data = tt.read_corpus(index.folder.parent / "dev.conll")
    assert repr(data) == f"<Corpus {data.path}: {len(data.sentences)} sentences, {data.num_tokens} tokens, iob2>"
    assert repr(index).startswith(f"<Index {index.folder}: ")


def test_labels_of_other_schemes_are_explained(index: tt.Index) -> None:
    with pytest.raises(tt.TagtraceError, match=r"unknown label 'S-LOC'; labels are B- and I- here.*give LOC or B-LOC"):
        tt.make_edit(index, 0, 0, 1, "S-LOC")


def test_folders_that_are_no_index(index: tt.Index, tmp_path: Path) -> None:
    for folder, message in (
        (tmp_path / "new", "new: does not exist; give a folder that an index was built in"),
        (index.folder.parent / "tagger", "tagger: a tagger, not an index; build an index of it"),
        (tmp_path, r"not an index \(no manifest.json\)"),
    ):
        with pytest.raises(tt.TagtraceError, match=message):
            tt.open_index(folder)
