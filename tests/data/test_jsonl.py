"""JSONL files: keys, numbers as labels, ids and documents, errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagtrace._checks import DataError
from tagtrace.data import Corpus, ReadOptions, read_corpus
from tagtrace.data.jsonl import documents_of, name_rows
from tagtrace.data.source import Row

Reader = Callable[..., Corpus]


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    def read_rows(*rows: object, **options) -> Corpus:
        path = tmp_path / "tiny.jsonl"
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return read_corpus(path, ReadOptions(**options))

    return read_rows


def row(labels: list | None = None, **more: object) -> dict[str, object]:
    return {"tokens": ["Orla", "sang"], "ner_tags": ["B-PER", "O"] if labels is None else labels, **more}


def test_rows_are_sentences(read: Reader):
    corpus = read(row(id="x"), "  ", {"tokens": ["sea"], "ner_tags": ["O"], "id": 7})
    assert [s.tokens for s in corpus.sentences] == [("Orla", "sang"), ("sea",)]
    assert [s.labels for s in corpus.sentences] == [("B-PER", "O"), ("O",)]
    assert [s.lines for s in corpus.sentences] == [(1, 1), (3,)]
    assert [s.id for s in corpus.sentences] == ["x", "7"]
    assert [s.offset for s in corpus.sentences] == [0, 2]
    assert (corpus.format, corpus.scheme, corpus.options.labels_key) == ("jsonl", "iob2", "ner_tags")


@pytest.mark.parametrize("key", ["labels", "tags", "pos_tags"])
def test_usual_keys_are_found(read: Reader, key: str):
    corpus = read({"tokens": ["sea"], key: ["NOUN"]})
    assert corpus.sentences[0].labels == ("NOUN",)
    assert corpus.options.labels_key == key


def test_keys_in_their_order_and_by_choice(read: Reader):
    rows = {"words": ["sea"], "tags": ["A"], "ner_tags": ["B"], "mine": ["C"]}
    assert read(rows, tokens_key="words").sentences[0].labels == ("B",)
    assert read(rows, tokens_key="words", labels_key="mine").sentences[0].labels == ("C",)


def test_numbers_have_names(read: Reader):
    corpus = read(row([1, 0]), row(["I-PER", 0]), labels=["O", "B-PER", "I-PER"])
    assert [s.labels for s in corpus.sentences] == [("B-PER", "O"), ("B-PER", "O")]
    assert [line for line, _ in corpus.violations] == [2]


def test_unlabelled_rows_need_no_labels(read: Reader):
    corpus = read({"tokens": ["sea"]}, row([1.5]), labelled=False)
    assert [s.labels for s in corpus.sentences] == [(), ()]
    assert corpus.scheme == "none"


def test_empty_rows_are_listed(read: Reader):
    corpus = read(row(), {"tokens": [], "ner_tags": []}, row())
    assert corpus.skipped == ((2, "a row without tokens"),)
    assert [s.lines[0] for s in corpus.sentences] == [1, 3]


class TestNames:
    def documents(self, corpus: Corpus) -> list[str]:
        return [s.document for s in corpus.sentences]

    def ids(self, corpus: Corpus) -> list[str]:
        return [s.id for s in corpus.sentences]

    def test_own_keys(self, read: Reader):
        assert self.documents(read(row(document="a"), row(doc_id=3), row())) == ["a", "3", ""]

    def test_numbered_ids(self, read: Reader):
        corpus = read(*(row(id=name) for name in ("n_1_0", "n_1_2", "n_2_0")))
        assert self.documents(corpus) == ["n_1", "n_1", "n_2"]

    @pytest.mark.parametrize(
        "ids",
        [
            ["n_0", "n_1", "n_2"],  # one beginning: the numbers count documents
            ["a_0", "b_0", "a_1"],  # not together
            ["a_1", "a_0", "b_0"],  # not rising
            ["a_0", "a_0", "b_0"],
            ["a_0", "b_0", "c"],
            ["_0", "_1", "a_1"],
        ],
    )
    def test_other_ids_are_documents(self, read: Reader, ids: list[str]):
        assert self.documents(read(*(row(id=name) for name in ids))) == ids

    def test_without_ids_there_are_no_documents(self, read: Reader):
        corpus = read(row(), row(id=None))
        assert self.documents(corpus) == ["", ""]
        assert self.ids(corpus) == ["tiny:0", "tiny:1"]

    def test_repeated_ids_become_unique(self, read: Reader):
        corpus = read(row(id="a"), row(id="a"), row(id="a#2"), row(id="a"), row(id="tiny:5"), row())
        assert self.ids(corpus) == ["a", "a#3", "a#2", "a#4", "tiny:5", "tiny:5#2"]

    @given(st.lists(st.sampled_from(["a", "a#2", "a#3", "f:1", "f:1#2", ""]), min_size=1, max_size=9))
    def test_ids_are_always_unique(self, names: list[str]):
        rows = [Row(("w",), (), (1,), id=name) for name in names]
        name_rows(rows, Path("f.jsonl"))
        assert len({row.id for row in rows}) == len(rows)
        for name in set(names) - {""}:
            assert rows[names.index(name)].id == name

    def test_long_numbers_are_no_sentence_numbers(self):
        assert documents_of([f"a_{'9' * 5000}", "b_1"]) is None


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([row(), "{broken"], {}, "line 2: '{broken\\n' is not valid JSON (Expecting property name"),
        (['{"tokens": ' + "[" * 100_000], {}, "is not valid JSON (a value is too deep or too long)"),
        (
            ['{"id": ' + "9" * 5000 + "}"],
            {},
            "is not valid JSON (a value is too deep or too long); write one object per line",
        ),
        ([row(), "[1]"], {}, "line 2: found '[1]', expected an object with tokens and labels"),
        ([{"words": ["a"]}], {}, "line 1: found no key 'tokens', only 'words'; add it, or name another"),
        ([row(), {"tokens": ["a"]}], {}, "line 2: found no key 'ner_tags', only 'tokens'; add it, or name another"),
        ([{"tokens": ["a"], "x": 1}], {}, "line 1: found no labels among the keys 'tokens, x'; set labels_key"),
        ([{"tokens": "a b"}], {}, "line 1: found '\"a b\"' under 'tokens', expected a list; give one item per token"),
        ([row(["O"])], {}, "line 1: found 2 tokens and 1 labels; give each token one label"),
        ([{"tokens": [], "tags": ["O"]}], {}, "line 1: found 0 tokens and 1 labels; give"),
        ([{"tokens": ["a", 3]}], {}, "line 1: found the token '3', expected a string; put it in quotes"),
        ([{"tokens": ["a", None]}], {}, "line 1: found the token 'null', expected a string; put it in quotes"),
        ([row([1, 0])], {}, "line 1: found the label 1, a number; give the names of all labels"),
        ([row([5, 0])], {"labels": ["O"]}, "line 1: found the label 5, expected 0 to 0; give the names of all labels"),
        (
            [row([-1, 0])],
            {"labels": ["O"]},
            "line 1: found the label -1, expected 0 to 0; give the names of all labels",
        ),
        ([row([True, 0])], {"labels": ["O"]}, "line 1: found the label 'true', expected a string or a whole number"),
        ([row([[], 0])], {"labels": ["O"]}, "line 1: found the label list, expected a string or a whole number"),
        ([row(["", "O"])], {}, "line 1: found the label '\"\"', expected a string or a whole number; rename it"),
        ([row(id=["x"])], {}, "line 1: found list under 'id', expected a string or a number; change it"),
        ([row(doc_id=True)], {}, "line 1: found 'true' under 'doc_id', expected a string or a number; change it"),
        (['{"tokens": ["\\ud800"], "tags": ["O"]}'], {}, "line 1: found half a surrogate pair in '\\ud800'; fix"),
        ([row(["B-X", "X"])], {}, "line 1: label 'X' does not belong to the scheme iob2; expected O, B-TYPE"),
        ([{"tokens": [], "tags": []}], {}, "found no sentences; check"),
    ],
)
def test_errors_say_what_where_and_what_to_try(read: Reader, rows: list, options: dict, message: str):
    with pytest.raises(DataError) as caught:
        read(*rows, format="jsonl", **options)
    shown = str(caught.value)
    assert message in shown
    assert "tiny.jsonl" in shown
    assert "\n" not in shown
    assert len(shown) < 400
