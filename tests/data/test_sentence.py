"""Sentences: how one is shown, and how several are joined."""

from __future__ import annotations

import pytest

from tagtrace.data import Sentence, join, join_documents

WORDS = tuple("abcdefghij")


def part(text: str, document: str = "d", offset: int = 0, **fields: object) -> Sentence:
    tokens = tuple(text)
    lines = tuple(range(offset + 1, offset + 1 + len(tokens)))
    labels = tuple("O" for _ in tokens)
    return Sentence(tokens, labels, f"{document}:{offset}", document, "f", lines, offset, **fields)  # pyright: ignore


@pytest.mark.parametrize(
    ("start", "stop", "around", "expected"),
    [
        (4, 6, 2, "... c d [e f] g h ..."),
        (4, 6, 4, "a b c d [e f] g h i j"),
        (4, 6, 0, "... [e f] ..."),
        (0, 1, 2, "[a] b c ..."),
        (9, 10, 2, "... h i [j]"),
        (0, 10, 2, "[a b c d e f g h i j]"),
        (2, 3, 2, "a b [c] d e ..."),
        (7, 8, 2, "... f g [h] i j"),
        (3, 4, 8, "a b c [d] e f g h i j"),
    ],
)
def test_a_segment_in_context(start: int, stop: int, around: int, expected: str) -> None:
    assert Sentence(WORDS, ()).in_context(start, stop, around) == expected


def test_by_default_eight_tokens_are_shown_on_both_sides() -> None:
    sentence = Sentence(tuple(f"w{number}" for number in range(30)), ())
    shown = sentence.in_context(12, 14).split()
    assert shown == ["...", *(f"w{t}" for t in range(4, 12)), "[w12", "w13]", *(f"w{t}" for t in range(14, 22)), "..."]


def test_joined_sentences_keep_tokens_labels_and_lines() -> None:
    first, second = part("ab", pos=("N", "V")), part("c", offset=2, pos=("N",))
    joined = join([first, second])
    assert (joined.tokens, joined.labels, joined.lines) == (("a", "b", "c"), ("O", "O", "O"), (1, 2, 3))
    assert (joined.id, joined.document, joined.path, joined.offset) == ("d", "d", "f", 0)
    assert joined.pos == ("N", "V", "N")
    assert join([first, part("c", offset=2)]).pos is None
    assert join([first, part("c", offset=3)]).offset == -1, "tokens between them were left out"


def test_only_sentences_of_one_document_are_joined() -> None:
    parts = [part("ab"), part("c", offset=2), part("d", "e", 3), part("f", "", 4), part("g", "", 5)]
    assert [s.tokens for s in join_documents(parts)] == [("a", "b", "c"), ("d",), ("f",), ("g",)]


def test_a_sentence_is_labelled_if_every_token_is() -> None:
    sentence = part("ab")
    assert sentence.is_labelled
    assert not sentence.with_labels(()).is_labelled
    assert sentence.with_labels(["B-X", "O"]).labels == ("B-X", "O")
