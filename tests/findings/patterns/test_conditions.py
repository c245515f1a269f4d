"""Conditions of training segments, against plain loops."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tagtrace.data import Sentence
from tagtrace.findings.patterns.conditions import KINDS, NumberedText
from tests.findings.patterns.made import listed, make_finding, make_index, spell


def random_sentences(seed: int, scheme: str, num_sentences: int = 40) -> list[Sentence]:
    """Few words, so that all repeat; documents are not in one piece, and some sentences have none."""
    rng = random.Random(seed)
    made = []
    for number in range(num_sentences):
        labels: list[str] = []
        for _ in range(rng.randint(1, 7)):
            if scheme == "iob2":
                more = [f"I-{labels[-1][2:]}"] * 3 if labels and labels[-1] != "O" else []
                labels.append(rng.choice(["O", "O", "B-X", "B-Y", *more]))
            else:
                labels.append(rng.choice(["O", "X", "Y"]))
        tokens = tuple(rng.choices("abcd", k=len(labels)))
        document = f"d{number % 9}" if number % 4 else ""
        made.append(Sentence(tokens, tuple(labels), f"s{number}", document))
    return made


@pytest.mark.parametrize("scheme", ["iob2", "io", "plain"])
def test_opportunities_are_those_of_a_plain_loop(tmp_path: Path, scheme: str) -> None:
    index = make_index(tmp_path, random_sentences(0, scheme), scheme)
    assert len(index.shards) > 2
    text = NumberedText(index)
    for type_ in ("X", "Y", "O"):
        found = text.opportunities(() if type_ == "O" else (type_,), [])
        expected = listed(index, type_)
        assert len(found.starts) == len(expected) > 20
        for kind in KINDS:
            assert [found.strings[kind][code] for code in found.codes[kind]] == [one[kind] for one in expected], kind


def test_a_sentence_that_is_a_document_opens_itself(tmp_path: Path) -> None:
    sentences = [
        Sentence(("Go", "on"), ("O", "B-X"), "a:0", "a"),
        Sentence(("stop", "it"), ("B-X", "O"), "a:1", "a"),
        Sentence(("Wait", "here"), ("O", "B-X"), "b:0", "b"),
    ]
    found = NumberedText(make_index(tmp_path, sentences, unit="document")).opportunities(("X",), [])
    assert [found.strings["opening"][code] for code in found.codes["opening"]] == ["Go", "Go", "Wait"]
    assert [found.strings["before"][code] for code in found.codes["before"]] == ["Go", "on", "Wait"]


def test_unlabelled_texts_of_several_tokens(tmp_path: Path) -> None:
    """Each repetition of an unlabelled finding's text is an opportunity, unless it is labelled or cut by a border."""
    rows = [("a b c", "O O O"), ("a b", "O B-X"), ("c a", "O O"), ("b a b", "O O O"), ("a c a b c", "O O O O O")]
    sentences = [Sentence(tuple(t.split()), tuple(y.split()), f"s{n}") for n, (t, y) in enumerate(rows)]
    index = make_index(tmp_path, sentences)
    findings = [
        make_finding(index, 1, 0, 0, 2, spell("X", 2)),
        make_finding(index, 2, 4, 2, 5, spell("X", 3)),
        make_finding(index, 3, 2, 0, 1, spell("X", 1)),
    ]
    found = NumberedText(index).opportunities((), findings)
    forms = [found.strings["form"][code] for code in found.codes["form"]]
    assert forms == ["a b", "b", "c", "a", "c", "a", "b", "a b", "b", "a", "c", "a b c", "b", "c"]
