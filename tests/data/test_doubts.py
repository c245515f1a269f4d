"""Columns that cannot be guessed safely: what was guessed is right where it can be, and what is doubtful is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tagtrace.data import Corpus, ReadOptions, read_corpus

Reader = Callable[..., Corpus]


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    def reader(text: str, **options: object) -> Corpus:
        path = tmp_path / "tiny.conll"
        path.write_text(text, encoding="utf-8")
        return read_corpus(path, ReadOptions(**options))  # pyright: ignore[reportArgumentType]

    return reader


def numbered(sentences: Sequence[Sequence[str]], numbers: Sequence[Sequence[object]]) -> str:
    """A file whose first column has these numbers."""
    return "\n".join(
        "".join(f"{number}\t{token}\tDT\tO\n" for number, token in zip(some, tokens, strict=True))
        for some, tokens in zip(numbers, sentences, strict=True)
    )


def tokens(corpus: Corpus) -> list[list[str]]:
    return [list(sentence.tokens) for sentence in corpus.sentences]


SENTENCES = (("the", "grey", "sea"), ("it", "rains"))


@pytest.mark.parametrize(
    "numbers",
    [
        ((1, 2, 3), (1, 2)),
        ((0, 1, 2), (0, 1)),
        ((1, 2, 3), (4, 5)),
        ((0, 1, 2), (3, 4)),
    ],
)
def test_numbers_that_count(read: Reader, numbers: Sequence[Sequence[int]]):
    corpus = read(numbered(SENTENCES, numbers))
    assert tokens(corpus) == [list(some) for some in SENTENCES]
    assert corpus.doubts == ()


@pytest.mark.parametrize(
    ("numbers", "line", "there", "before"),
    [
        (((1, 2, 4), (1, 2)), 3, 4, 2),
        (((0, 1, 2), (1, 2)), 5, 1, 2),
        (((1, 2, 2), (1, 2)), 3, 2, 2),
    ],
)
def test_a_numbering_with_a_gap(read: Reader, numbers: Sequence[Sequence[int]], line: int, there: int, before: int):
    corpus = read(numbered(SENTENCES, numbers))
    assert tokens(corpus) == [list(some) for some in SENTENCES]
    (doubt,) = corpus.doubts
    assert f"in line {line}, the first column has {there} after {before}; it was read as numbers" in doubt
    assert doubt.endswith("choose token_column 0")
    assert read(numbered(SENTENCES, numbers), token_column=1).doubts == ()
    assert tokens(read(numbered(SENTENCES, numbers), token_column=0))[0] == [str(n) for n in numbers[0]]


def test_numbers_that_do_not_count(read: Reader):
    corpus = read(numbered(SENTENCES, ((7, 7, 9), (3, 1))))
    assert tokens(corpus)[0] == ["7", "7", "9"]
    (doubt,) = corpus.doubts
    assert "it was read as the tokens" in doubt
    assert doubt.endswith("choose token_column 1")


def test_a_label_column_that_is_not_the_last(read: Reader):
    corpus = read("Orla\tB-PER\tn1\nsang\tO\tv2\n\nTam\tB-PER\tn1\n")
    (doubt,) = corpus.doubts
    assert "column 2, the last, was read as the label, but column 1 has labels such as 'B-PER'" in doubt
    assert doubt.endswith("choose label_column 1")
    assert read("Orla\tB-PER\tn1\nsang\tO\tv2\n", label_column=1).doubts == ()


def test_labels_that_are_all_different(read: Reader):
    (doubt,) = read("".join(f"w{k}\tO\tlemma{k}\n" for k in range(30))).doubts
    assert "column 2 was read as the label, but has 30 different values in the first 30 tokens" in doubt


def test_a_heading(read: Reader):
    (doubt,) = read("Token\tTag\nOrla\tO\nsang\tO\n").doubts
    assert "line 1 looks like a heading ('Token Tag')" in doubt


def test_nothing_is_doubtful_about_ordinary_files(read: Reader):
    for corpus in (
        read("Orla\tNNP\tB-PER\nsang\tVBD\tO\n"),
        read("cat\tNOUN\nsits\tVERB\n"),
        read("1999\tO\nwas\tO\n"),
    ):
        assert corpus.doubts == ()
