"""Text comes back as it was, whatever the characters."""

from __future__ import annotations

import random

import torch
from hypothesis import given
from hypothesis import strategies as st

from tagtrace.data.sentence import Sentence
from tagtrace.index.text import Strings, read_sentence, text_tensors

odd = st.sampled_from(
    ["\ud800", "\udfff", "\0", "\u2028", "e\u0301", "\U0001d518"]
)  # half surrogate pairs come from JSON
strings = st.lists(st.characters() | odd, max_size=8).map("".join)


@st.composite
def sentences(draw: st.DrawFn) -> Sentence:
    tokens = draw(st.lists(strings, min_size=1, max_size=5))
    names = [draw(st.sampled_from(["", "d", "é/ü"]) | strings) for _ in range(3)]
    first = draw(st.integers(1, 2**31 - 10))
    lines = draw(st.sampled_from([(), tuple(range(first, first + len(tokens))), (first,) * len(tokens)]))
    offset = draw(st.integers(0, 2**40))
    return Sentence(tuple(tokens), ("O",) * len(tokens), names[0], names[1], names[2], lines, offset)


@given(st.lists(sentences(), min_size=1, max_size=6))
def test_sentences_round_trip(sentences: list[Sentence]) -> None:
    columns = text_tensors(sentences)
    start = 0
    for number, sentence in enumerate(sentences):
        assert read_sentence(columns, number, start, sentence.labels) == sentence
        start += len(sentence)


@given(st.lists(strings, max_size=9), st.randoms(use_true_random=False))
def test_any_range_of_strings(values: list[str], rng: random.Random) -> None:
    column = Strings.of(values)
    start = rng.randint(0, len(values))
    stop = rng.randint(start, len(values))
    assert column.range(start, stop) == tuple(values[start:stop])


def test_repeated_names_are_stored_once() -> None:
    many = [Sentence(("a",), ("O",), f"s{i}", "the-document", "the-path") for i in range(100)]
    columns = text_tensors(many)
    assert bytes(columns["documents"].tolist()) == b"the-document"
    assert bytes(columns["paths"].tolist()) == b"the-path"
    assert columns["document"].tolist() == [0] * 100


def test_lines_known_of_some_tokens_only_are_left_out() -> None:
    sentence = Sentence(("a", "b"), ("O", "O"), lines=(7,))
    assert read_sentence(text_tensors([sentence]), 0, 0, ("O", "O")).lines == ()


def test_places_fit_the_text() -> None:
    assert Strings.of(["a"]).places.dtype == torch.int32
