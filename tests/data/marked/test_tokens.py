"""The rule of tokens and sentences: it loses nothing, never looks at labels, and fits scripts without spaces."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagtrace.data.marked.tokens import sentence_ends, tokenise


def words(text: str) -> list[str]:
    return [text[start:stop] for start, stop in tokenise(text)]


def sentences(text: str) -> list[str]:
    tokens, found, begin = tokenise(text), list[str](), 0
    for end in sentence_ends(text, tokens, ()):
        found.append(text[tokens[begin][0] : tokens[end][1]])
        begin = end + 1
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ada's cat, 1,000.5 kg.", ["Ada", "'", "s", "cat", ",", "1,000.5", "kg", "."]),
        ("well-known x_y e-mail", ["well", "-", "known", "x_y", "e", "-", "mail"]),
        ("caf\xe9 e\u0301t\xe9", ["caf\xe9", "e\u0301t\xe9"]),
        ("\u6211\u7231\u5317\u4eac\u3002", ["\u6211", "\u7231", "\u5317", "\u4eac", "\u3002"]),
        ("\u30ab\u3099 GPU\u3067", ["\u30ab\u3099", "GPU", "\u3067"]),
        ("\u0643\u062a\u0628 \u0645\u062d\u0645\u062f.", ["\u0643\u062a\u0628", "\u0645\u062d\u0645\u062f", "."]),
        ("\u0928\u092e\u0938\u094d\u0924\u0947", ["\u0928\u092e\u0938\u094d\u0924\u0947"]),
        ("a\u200bb", ["a", "b"]),
        ("\U0001f468\u200d\U0001f469\u200d\U0001f467!", ["\U0001f468\u200d\U0001f469\u200d\U0001f467", "!"]),
        ("\U0001f44d\U0001f3fd", ["\U0001f44d\U0001f3fd"]),
        (" \t\n", []),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She left. He stayed!", ["She left.", "He stayed!"]),
        ("At 3 p.m. it rained. \u201cWhy?\u201d he asked.", ["At 3 p.m. it rained.", "\u201cWhy?\u201d he asked."]),
        ("J. R. Smith met A. Jones.", ["J. R. Smith met A. Jones."]),
        ("A title\nIts text", ["A title", "Its text"]),
        ("\u597d\u3002\u662f\uff01\u201d\u5bf9", ["\u597d\u3002", "\u662f\uff01\u201d", "\u5bf9"]),
        ("\u0643\u062a\u0628. \u0630\u0647\u0628", ["\u0643\u062a\u0628.", "\u0630\u0647\u0628"]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_no_sentence_ends_inside_a_mark() -> None:
    text = "We saw Dr. No. It rained."
    tokens = tokenise(text)
    assert sentence_ends(text, tokens, ()) == [3, 5, 8]
    assert sentence_ends(text, tokens, {2, 3}) == [5, 8]


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_tokens_are_in_order_and_nothing_that_can_be_seen_is_left_out(text: str) -> None:
    tokens, place = tokenise(text), 0
    for start, stop in (*tokens, (len(text), len(text))):
        assert place <= start <= stop
        assert all(c.isspace() or unicodedata.category(c)[0] in "CZ" for c in text[place:start])
        place = stop
    assert all(start < stop for start, stop in tokens)
    ends = sentence_ends(text, tokens, ())
    assert ends == sorted(set(ends))
    assert ends[-1:] == ([len(tokens) - 1] if tokens else [])
