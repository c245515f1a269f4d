"""Predicted labels stand beside those of the file."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tagtrace._checks import DataError
from tagtrace.data import Corpus, ReadOptions, join_documents, read_corpus, write_predictions

Reader = Callable[..., Corpus]


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    def read_text(text: str, **options) -> Corpus:
        path = tmp_path / "tiny"
        path.write_bytes(text.encode())
        return read_corpus(path, ReadOptions(**options))

    return read_text


def predicted(corpus: Corpus, labels: Sequence[Sequence[str]]) -> str:
    target = corpus.path.with_name("out")
    write_predictions(corpus, labels, target)
    return target.read_bytes().decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a B-X\nb   O\n\nc O", "a B-X P\nb   O Q\n\nc O R"),
        ("\ufeffa\tB-X\r\nb\tO \t\r\n\t\r\nc\tO\r\n", "\ufeffa\tB-X\tP\r\nb\tO\tQ \t\r\n\t\r\nc\tO\tR\r\n"),
        (
            "-DOCSTART- -X- O\n\na X O\n# a b c d\nb Y O\n\n-DOCSTART-\nc Z O\n",
            "-DOCSTART- -X- O O\n\na X O P\n# a b c d\nb Y O Q\n\n-DOCSTART-\nc Z O R\n",
        ),
        (
            "# t\n1\ta\tO\n1-2\tab\t_\n2\tb\tO\n\n1\tc\tO\n",
            "# t\n1\ta\tO\tP\n1-2\tab\t_\t_\n2\tb\tO\tQ\n\n1\tc\tO\tR\n",
        ),
    ],
)
def test_a_further_column(read: Reader, text: str, expected: str):
    corpus = read(text, scheme="io")
    assert predicted(corpus, [["P", "Q"], ["R"]]) == expected
    joined = corpus.with_sentences(join_documents(corpus.sentences))
    flat = iter("PQR")
    assert predicted(joined, [[next(flat) for _ in s.tokens] for s in joined.sentences]) == expected
    again = read_corpus(corpus.path.with_name("out"), ReadOptions(scheme="io"))
    assert [s.labels for s in again.sentences] == [("P", "Q"), ("R",)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# doc\na\n# a b c\nb\n", "# doc #\na P\n# a b c\nb Q\n"),
        ("a\tB-X\n#\td\te\n# d e\nb\tO\n", "a\tB-X\tP\n#\td\te\t#\n# d e\nb\tO\tQ\n"),
        ("a O\n#b O\n# c d\n", "a O P\n#b O Q\n# c d #\n"),
    ],
)
def test_comments_stay_comments(read: Reader, text: str, expected: str):
    corpus = read(text, scheme="io", labelled="B" in text or "O" in text)
    assert predicted(corpus, [["P", "Q"]]) == expected
    again = read_corpus(corpus.path.with_name("out"), ReadOptions(scheme="io"))
    assert [s.tokens for s in again.sentences] == [s.tokens for s in corpus.sentences]
    assert again.num_comments == corpus.num_comments


def test_a_label_that_no_column_can_hold(read: Reader):
    with pytest.raises(DataError, match=r"the predicted label 'B-X Y' is empty or contains spaces; use JSON lines"):
        predicted(read("a\tO\n"), [["B-X Y"]])


def test_a_further_key(read: Reader):
    first = '{"id":1,"tokens":["a","b"],"tags":["O","B-X"] }'
    text = first + '\n\n{"tokens": [], "tags": []}\n{"tokens": ["c"], "tags": ["O"]}'
    lines = predicted(read(text), [["B-X", "I-X"], ["B-Ö"]]).split("\n")
    assert lines[0] == first.replace(" }", ', "predicted": ["B-X", "I-X"] }')
    assert lines[1:3] == ["", '{"tokens": [], "tags": [], "predicted": []}']
    assert json.loads(lines[3]) == {"tokens": ["c"], "tags": ["O"], "predicted": ["B-Ö"]}


def test_an_older_prediction_is_replaced(read: Reader):
    corpus = read('{"predicted": ["O"], "tokens": ["c"], "tags": ["O"]}\n')
    assert predicted(corpus, [["B-X"]]) == '{"predicted": ["B-X"], "tokens": ["c"], "tags": ["O"]}\n'


def test_unlabelled_files(read: Reader):
    assert predicted(read("a\nb\n", labelled=False), [["B-X", "I-X"]]) == "a B-X\nb I-X\n"
    corpus = read('{"tokens": ["a"]}', labelled=False)
    assert predicted(corpus, [["O"]]) == '{"tokens": ["a"], "predicted": ["O"]}'


def test_the_scheme_of_the_file(read: Reader):
    assert predicted(read("a S-X\nb O\n"), [["B-X", "I-X"]]) == "a S-X B-X\nb O E-X\n"
    assert predicted(read("a I-X\nb O\n"), [["O", "B-X"]]) == "a I-X O\nb O I-X\n"
    assert predicted(read("a B-X\nb O\n"), [["O", "I-X"]]) == "a B-X O\nb O I-X\n"  # as predicted


def test_gzip(tmp_path: Path):
    path = tmp_path / "tiny.gz"
    path.write_bytes(gzip.compress(b"a B-X\n"))
    write_predictions(read_corpus(path), [["O"]], path)
    assert gzip.decompress(path.read_bytes()) == b"a B-X O\n"


@pytest.mark.parametrize("text", ["a O\nb O\n\nc O\n", '{"tokens": ["a", "b"], "tags": ["O", "O"]}\n' * 2])
def test_missing_predictions_are_refused(read: Reader, text: str):
    corpus = read(text)
    with pytest.raises(DataError, match="tiny: found predictions for 1 sentences, expected 2; predict every"):
        predicted(corpus, [["O", "O"]])
    with pytest.raises(DataError, match="sentence 'tiny:0' has 2 tokens, 1 labels"):
        predicted(corpus, [["O"], ["O"]])
    part = corpus.with_sentences(corpus.sentences[:1])
    with pytest.raises(
        DataError, match=r"line [24]: found no predicted labels for this sentence; predict every sentence of the corpus"
    ):
        predicted(part, [["O", "O"]])
    assert not corpus.path.with_name("out").exists()


def test_a_file_that_changed_is_refused(read: Reader):
    corpus = read("a O\n")
    corpus.path.write_text("b O\n")
    with pytest.raises(DataError, match="the file changed since it was read"):
        predicted(corpus, [["O"]])
