"""Dosages in invented text."""

from __future__ import annotations

import pytest

from tagtrace.data import Sentence
from tagtrace.reproduce.experiments.dosage_regex import (
    PRINTED,
    READINGS,
    RELEASED,
    DosageTokens,
    dosages_of,
    find_dosages,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("take 10 mg daily", ["10 mg"]),
        ("take 10mg daily", ["10mg"]),
        ("take 2.5-mg doses", ["2.5-mg"]),
        ("1,000 mg and 1,000.5 units", ["1,000 mg", "1,000.5 units"]),
        ("10 to 20 mg", ["10 to 20 mg"]),
        ("10-20 mg , 10 - 20 mg , 3 to4 g", ["10-20 mg", "10 - 20 mg", "3 to4 g"]),
        ("5 / 10 mg", ["10 mg"]),
        ("5/10 mg", ["5/10 mg"]),
        ("5 mg/kg and 5 mg/ml and 1 g/l", ["5 mg/kg", "5 mg/ml", "1 g/l"]),
        ("5 mg/kg/day", ["5 mg/kg/day"]),  # a token is taken whole, though the match ends before its slash
        ("0.9 % , 95% , 20-30 %", ["0.9 %", "95%", "20-30 %"]),
        ("two tablespoons or one to two units", ["two tablespoons", "one to two units"]),
        ("half teaspoon , eleven units", ["half teaspoon"]),  # eleven is not on the list
        ("100 IU , 100 iu , 100 Iu", ["100 IU", "100 iu"]),  # as printed, the case counts
        ("10 MG , Two units", []),
        ("10 mgs , 10 mmol , 10 ml , mg", []),  # no such units; no number
        ("B12 units", []),  # the number does not begin at a boundary
        ("", []),
    ],
)
def test_the_expressions_of_the_appendix(text: str, expected: list[str]) -> None:
    tokens = text.split()
    assert [" ".join(tokens[start:stop]) for start, stop in find_dosages(tokens)] == expected


def test_matches_do_not_overlap_and_stay_in_order() -> None:
    assert find_dosages(["5", "mg", "10", "mg", "to", "20", "%", "of", "3", "g"]) == [(0, 2), (2, 4), (5, 7), (8, 10)]


def test_tokens_of_any_length_are_found_again() -> None:
    assert find_dosages(["", "x" * 30, "10", "", "mg"]) == [(2, 5)]  # two blanks: one or more are allowed


def test_the_released_code_drops_percentages_and_words() -> None:
    tokens = ["two", "units", "5", "mg", "10", "%", "20%"]
    assert find_dosages(tokens) == [(0, 2), (2, 4), (4, 6), (6, 7)]
    assert find_dosages(tokens, percentages=False) == [
        (0, 2),
        (2, 4),
        (6, 7),
    ]  # "20%" does not count
    assert find_dosages(tokens, words=False) == [(2, 4), (4, 6), (6, 7)]
    assert list(READINGS) == ["released", "printed"]


def labelled(text: str) -> Sentence:
    """Words with ``/INT`` behind those that are interventions."""
    pairs = [word.partition("/") for word in text.split()]
    return Sentence(tuple(p[0] for p in pairs), tuple(p[2] or "O" for p in pairs))


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("gap", [8, 9, 10])
def test_an_intervention_must_be_within_ten_tokens(gap: int, before: bool) -> None:
    words = ["drug/INT", *["then"] * gap, "5", "mg"] if before else ["5", "mg", *["then"] * gap, "drug/INT"]
    sentence = labelled(" ".join(words))
    start = gap + 1 if before else 0
    assert dosages_of(sentence, PRINTED, "INT") == [(start, start + 2)]
    assert dosages_of(sentence, RELEASED, "INT") == ([(start, start + 2)] if gap < 10 else [])


def test_outside_and_inside_interventions() -> None:
    documents = [
        labelled("drug/INT at 5/INT mg/INT , then 6 mg"),
        labelled("nothing here"),
        labelled("drug/INT 7 mg/INT"),  # inside, by one of its tokens; the other belongs to neither
    ]
    found = DosageTokens.of(documents, RELEASED, "INT")
    assert found.inside.nonzero().flatten().tolist() == [2, 3, 12]
    assert found.outside.nonzero().flatten().tolist() == [6, 7]
    assert len(found.inside) == len(found.outside) == 13
