"""Patterns: counts against plain loops, G^2 against the textbook's table, and a planted mistake amid scattered ones."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tagtrace._checks import DataError, OptionError
from tagtrace._documents import parse_document
from tagtrace._table import fact_table
from tagtrace.data import Sentence
from tagtrace.data.invented import generate
from tagtrace.data.schemes import segments
from tagtrace.findings.finding import Finding
from tagtrace.findings.patterns.conditions import Condition
from tagtrace.findings.patterns.g_squared import g_squared
from tagtrace.findings.patterns.group_effect import GroupEffect, TrustedFit
from tagtrace.findings.patterns.pattern import Pattern, find_patterns
from tagtrace.index import Index
from tests.findings.patterns.made import listed, make_finding, make_index, spell

TYPES = ("LOC", "ORG", "PER")


# The statistic


def test_g_squared_is_that_of_the_table() -> None:
    """2 sum O log(O / E) over the four cells."""
    for k1, n1, k2, n2 in [(5, 5, 1, 20), (3, 40, 2, 300), (2.5, 7, 0, 90), (1, 1, 1, 50), (9, 10, 0.3, 1)]:
        table = np.array([[k1, n1 - k1], [k2, n2 - k2]])
        expected = np.outer(table.sum(1), table.sum(0)) / table.sum()
        terms = [o * math.log(o / e) for o, e in zip(table.flat, expected.flat, strict=True) if o > 0]
        found = g_squared(*np.array([[k1], [n1], [k2], [n2]], dtype=float))
        assert found == pytest.approx(2 * sum(terms))
        assert float(found[0]) > 0
        assert g_squared(*np.array([[k2], [n2], [k1], [n1]], dtype=float)) == 0  # the lower rate


# Patterns


def newswire(seed: int, num_documents: int = 150) -> list[Sentence]:
    """Documents that open with one of ten words; a third with RUGBY. Every sentence has a LOC, an ORG and a PER."""
    rng, openings = random.Random(seed), [f"Topic{number}" for number in range(9)]
    made = []
    for number in range(num_documents):
        made.append(
            Sentence(
                ("RUGBY" if number % 3 == 0 else rng.choice(openings), "-"), ("O", "O"), f"{number}:0", f"{number}"
            )
        )
        for line in range(1, 9):
            tokens, labels = [f"v{rng.randrange(20)}"], ["O"]
            for type_ in rng.sample(TYPES, 3):
                tokens += [f"{type_.lower()}{rng.randrange(40)}", f"v{rng.randrange(20)}"]
                labels += [f"B-{type_}", "O"]
            made.append(Sentence(tuple(tokens), tuple(labels), f"{number}:{line}", f"{number}"))
    return made  # fmt: skip


def planted_amid_scattered(index: Index, seed: int, times: int = 8) -> tuple[list[Finding], set[int]]:
    """LOC -> ORG in 15 RUGBY documents, at confidence 0.6; ``times`` as many, often -> PER, anywhere, at 0.9."""
    rng = random.Random(seed)
    places = [
        (sentence_number, one)
        for sentence_number in range(index.num_sentences)
        for one in segments(index.sentence(sentence_number).labels, "iob2")
    ]
    rugby = {f"{number}" for number in range(0, 45, 3)}
    planted = [(c, one) for c, one in places if one.type == "LOC" and index.sentence(c).document in rugby]
    others = [place for place in places if place not in planted]
    scattered = rng.sample(others, times * len(planted))
    found = [(c, one, "ORG", 0.6) for c, one in planted]
    found += [
        (c, one, rng.choice([t for t in ("PER", "PER", *TYPES, "O") if t != one.type]), 0.9) for c, one in scattered
    ]
    rng.shuffle(found)
    findings = [
        make_finding(index, rank, c, one.start, one.stop, spell(new, one.stop - one.start), confidence)
        for rank, (c, one, new, confidence) in enumerate(found, start=1)
    ]
    ranks = {rank for rank, one in enumerate(found, start=1) if one[3] == 0.6}
    return findings, ranks  # fmt: skip


def test_a_planted_mistake_comes_first_amid_eight_times_as_many_scattered(tmp_path: Path) -> None:
    index = make_index(tmp_path, newswire(0))
    findings, planted = planted_amid_scattered(index, 0)
    patterns, numbered = find_patterns(index, findings)
    first = patterns[0]
    assert (first.change, first.condition) == ("LOC -> ORG", Condition("opening", "RUGBY"))
    assert planted <= set(first.findings)
    assert max(len(pattern.findings) for pattern in patterns) > len(first.findings)  # a count would not do
    assert [pattern for pattern in patterns if pattern.condition] == [first]  # scattered errors are not a pattern
    assert len(patterns) == 10  # and the rest of each change: nine, as LOC -> ORG has some left
    assert all(pattern.score == 0 and pattern.number > 1 for pattern in patterns[1:])
    owner = {rank: pattern.number for pattern in patterns for rank in pattern.findings}
    assert [one.pattern for one in numbered] == [owner.get(one.rank) for one in findings]
    assert [replace(one, pattern=None) for one in numbered] == findings


def test_the_numbers_of_a_pattern(tmp_path: Path) -> None:
    index = make_index(tmp_path, newswire(1))
    findings, _ = planted_amid_scattered(index, 1)
    first = find_patterns(index, findings)[0][0]
    members = [one for one in findings if one.rank in first.findings]
    assert {one.change for one in members} == {"LOC -> ORG"}
    assert list(first.findings) == sorted(one.rank for one in members)
    rugby = {f"{number}" for number in range(0, 150, 3)}
    assert {one.document for one in members} <= rugby
    assert set(first.documents) == {one.document for one in members}
    inside = [one for one in listed(index, "LOC") if one["opening"] == "RUGBY"]
    assert (first.num_segments, first.opportunities) == (len(members), len(inside))
    assert dict(first.forms) == Counter(one.text for one in members)
    assert [count for _, count in first.forms] == sorted((count for _, count in first.forms), reverse=True)
    assert first.confidence == pytest.approx(np.mean([one.confidence for one in members]))
    mass = sum(one.confidence for one in members)
    others = sum(one.confidence for one in findings if one.change == "LOC -> ORG") - mass
    rest = len(listed(index, "LOC")) - len(inside)
    g_2 = g_squared(*np.array([[mass], [len(inside)], [others], [rest]]))[0]
    phi = dispersion(index, [one for one in findings if one.change == "LOC -> ORG"], "RUGBY")
    assert phi > 1
    assert first.score == pytest.approx(g_2 / phi)
    shown = ", ".join(form for form, _ in first.forms[:5])
    assert first.description == (
        f"{len(members)} of {len(inside)} LOC segments in documents that begin with RUGBY are probably ORG: "
        f"{shown}, ... ({len(first.documents)} documents)"
    )


def dispersion(index: Index, findings: Sequence[Finding], opening: str) -> float:
    """phi of LOC findings, document by document."""
    rows = [(str(one["document"]), one["opening"] == opening) for one in listed(index, "LOC")]
    begins = dict(rows)
    counts = Counter(rows)
    wrong = Counter[tuple[str, bool]]()
    for one in findings:
        wrong[one.document, begins[one.document]] += one.confidence  # type: ignore[assignment]
    total = 0.0
    for side in (True, False):
        some = [key for key in counts if key[1] is side]
        rate = sum(wrong[key] for key in some) / sum(counts[key] for key in some)
        total += sum((wrong[key] - counts[key] * rate) ** 2 / (counts[key] * rate * (1 - rate)) for key in some)
    return max(1.0, total / (len(counts) - 2))


def test_documents_full_of_errors_are_not_a_pattern(tmp_path: Path) -> None:
    """Errors that depend on the document and not on how it begins: almost never a pattern of its beginning."""
    made = [
        Sentence(
            (f"w{d % 5}" if n == 0 else f"o{d}", f"p{d}-{n}", f"q{d}-{n}"), ("O", "O", "B-LOC"), f"{d}:{n}", f"{d}"
        )
        for d in range(100)
        for n in range(20)
    ]
    index = make_index(tmp_path, made)
    found = 0
    for seed in range(30):
        draw = random.Random(seed)
        bad = set(draw.sample(range(100), 10))
        sentences = [number for number in range(2000) if number // 20 in bad and draw.random() < 0.9]
        findings = [make_finding(index, n + 1, number, 2, 3, ("B-ORG",), 0.9) for n, number in enumerate(sentences)]
        kinds = [one.condition.kind for one in find_patterns(index, findings)[0] if one.condition]
        found += "opening" in kinds
    assert found <= 2


def test_the_order_of_findings_does_not_matter(tmp_path: Path) -> None:
    index = make_index(tmp_path, newswire(2))
    findings, _ = planted_amid_scattered(index, 2, times=2)
    mixed = random.Random(0).sample(findings, len(findings))
    assert find_patterns(index, findings)[0] == find_patterns(index, mixed)[0]


@pytest.mark.parametrize("seed", [0, 1])
def test_the_invented_newswire(tmp_path: Path, seed: int) -> None:
    """Clubs that are LOC in reports that open with HANDBALL, amid eight times as many random errors."""
    corpus = generate(seed, 250, systematic_share=0.25, random_share=0.35)
    kinds = Counter(error.kind for error in corpus.errors)
    assert kinds["random"] > 8 * kinds["systematic"] > 8 * 30
    index = make_index(tmp_path, corpus.train)
    sentences = {name: number for number, name in enumerate(index.ids)}
    rng = random.Random(seed)
    findings = [
        make_finding(index, rank, sentences[one.sentence], one.start, one.stop, one.true_labels, rng.uniform(0.4, 1.0))
        for rank, one in enumerate(corpus.errors, start=1)
    ]
    first = find_patterns(index, findings)[0][0]
    assert (first.change, first.condition) == ("LOC -> ORG", Condition("opening", "HANDBALL"))
    planted = {rank for rank, one in enumerate(corpus.errors, start=1) if one.kind == "systematic"}
    assert planted <= set(first.findings)


# Conditions one by one


def background(number: int) -> Sentence:
    """A sentence with a LOC that nothing is wrong with."""
    tokens = (f"o{number}", f"p{number}", f"q{number}", f"r{number}", f"s{number}")
    return Sentence(tokens, ("O", "O", "B-LOC", "O", "O"), f"b{number}", f"b{number}")


def patterns_of(
    folder: Path, special: Sequence[Sentence], proposed: str = "ORG", wrong: Sequence[int] = range(4)
) -> list[Pattern]:
    """Of findings about ``2:3`` in the ``special`` sentences that are ``wrong``, among 200 others."""
    index = make_index(folder, [*special, *(background(number) for number in range(200))])
    findings = [make_finding(index, n + 1, n, 2, 3, spell(proposed, 1), 0.9) for n in wrong]
    return find_patterns(index, findings)[0]


@pytest.mark.parametrize(
    ("place", "condition", "text"),
    [
        (0, Condition("opening", "=="), "in documents that begin with == are probably ORG: x0, x1, x2, x3"),
        (1, Condition("before", "=="), 'right after "==" are probably ORG: x0, x1, x2, x3'),
        (2, Condition("form", "=="), 'that read "==" are probably ORG: =='),
        (3, Condition("after", "=="), 'right before "==" are probably ORG: x0, x1, x2, x3'),
    ],
)  # fmt: skip
def test_each_condition(tmp_path: Path, place: int, condition: Condition, text: str) -> None:
    special = []
    for number in range(5):  # the fifth is right
        tokens = [f"t{number}", f"u{number}", f"x{number}", f"y{number}", f"z{number}"]
        tokens[place] = "=="
        special.append(Sentence(tuple(tokens), ("O", "O", "B-LOC", "O", "O"), f"a{number}", f"a{number}"))
    (found,) = patterns_of(tmp_path, special)
    assert (found.condition, found.num_segments, found.opportunities) == (condition, 4, 5)
    assert found.description == f"4 of 5 LOC segments {text} (4 documents)"
    assert found.score == pytest.approx(g_squared(*np.array([[3.6], [5.0], [0.0], [200.0]]))[0])


def opened_alike(num_documents: int) -> list[Sentence]:
    """Six sentences in so many documents, all of which open with the same word."""
    made = []
    for number in range(6):
        opening = "==" if number < num_documents else f"t{number}"
        tokens = (opening, f"u{number}", f"x{number}", f"y{number}", f"z{number}")
        made.append(Sentence(tokens, ("O", "O", "B-LOC", "O", "O"), f"a{number}", f"a{number % num_documents}"))
    return made


def test_a_beginning_must_be_that_of_three_documents(tmp_path: Path) -> None:
    (three,) = patterns_of(tmp_path / "three", opened_alike(3))
    assert three.condition == Condition("opening", "==")
    (two,) = patterns_of(tmp_path / "two", opened_alike(2))
    assert two.condition is None
    assert two.description == "4 of 206 LOC segments are probably ORG: x0, x1, x2, x3 (2 documents)"


def test_two_findings_are_not_a_pattern(tmp_path: Path) -> None:
    assert patterns_of(tmp_path / "two", opened_alike(2), wrong=[0, 1]) == []
    assert len(patterns_of(tmp_path / "three", opened_alike(2), wrong=[0, 1, 2])) == 1


def test_without_documents_sentences_open(tmp_path: Path) -> None:
    special = [replace(one, tokens=("==", *one.tokens[1:]), document="") for one in opened_alike(2)]
    index = make_index(tmp_path, [*special, *(replace(background(n), document="") for n in range(200))])
    findings = [make_finding(index, n + 1, n, 2, 3, ("O",)) for n in range(6)]
    (found,) = find_patterns(index, findings)[0]
    assert found.documents == tuple(f"a{n}" for n in range(6))
    assert found.description == (
        "6 of 6 LOC segments in sentences that begin with == are probably O: x0, x1, x2, x3, x4, ... (6 sentences)"
    )


def test_unlabelled_and_boundaries(tmp_path: Path) -> None:
    special = [Sentence(("a", "New", "Town", "c"), ("O",) * 4, f"a{n}", f"a{n}") for n in range(4)]
    special += [Sentence(("the", f"x{n}", "of"), ("B-LOC", "I-LOC", "O"), f"c{n}", f"c{n}") for n in range(4)]
    index = make_index(tmp_path, [*special, *(background(number) for number in range(200))])
    findings = [make_finding(index, n + 1, n, 1, 3, spell("LOC", 2)) for n in range(4)]
    findings += [make_finding(index, n + 1, n, 0, 2, ("O", "B-LOC")) for n in range(4, 8)]
    found = {one.change: one for one in find_patterns(index, findings)[0]}
    missing, boundaries = found["O -> LOC"], found["LOC -> LOC"]
    assert missing.condition == Condition("form", "New Town")
    assert boundaries.condition == Condition("opening", "the")
    assert missing.opportunities == 4
    assert missing.description == (
        '4 unlabelled segments that read "New Town" are probably LOC: New Town (4 documents)'
    )
    assert boundaries.description.startswith("4 of 4 LOC segments in documents that begin with the probably have other")


def test_the_rest_is_counted_without_what_is_explained(tmp_path: Path) -> None:
    """Two conditions of one change: the second is judged without the first's segments, and says "other"."""
    special = []
    for number in range(12):
        opening, before = ("==", f"u{number}") if number < 8 else (f"t{number}", "near")
        tokens = (opening, "near" if number == 7 else before, f"x{number}", f"y{number}", f"z{number}")
        special.append(Sentence(tokens, ("O", "O", "B-LOC", "O", "O"), f"a{number}", f"a{number}"))
    first, second = patterns_of(tmp_path, special, wrong=range(12))
    assert (first.condition, first.findings) == (Condition("opening", "=="), tuple(range(1, 9)))
    assert (second.condition, second.findings) == (Condition("before", "near"), (9, 10, 11, 12))
    assert second.opportunities == 4
    assert second.description.startswith('4 of 4 other LOC segments right after "near" are probably ORG')
    assert second.score == pytest.approx(g_squared(*np.array([[3.6], [4.0], [0.0], [200.0]]))[0])


def test_after_several_unlabelled_tokens(tmp_path: Path) -> None:
    special = [Sentence((f"u{n}", f"v{n}", f"w{n}", "=="), ("O",) * 4, f"a{n}", f"a{n}") for n in range(5)]
    index = make_index(tmp_path, [*special, *(background(number) for number in range(200))])
    (found,) = find_patterns(index, [make_finding(index, n + 1, n, 1, 3, spell("LOC", 2)) for n in range(4)])[0]
    assert (found.condition, found.num_segments, found.opportunities) == (Condition("after", "=="), 4, 5)


def test_a_smaller_pattern_comes_first_where_it_explains_more(tmp_path: Path) -> None:
    """20 of 100 LOC in some documents, none of 200 elsewhere; 12 of 12 ORG before one word, none of 200 elsewhere."""
    loc = [Sentence(("==", f"x{n}"), ("O", "B-LOC"), f"a{n}", f"a{n}") for n in range(100)]
    org = [Sentence((f"t{n}", f"x{n}", "near"), ("O", "B-ORG", "O"), f"c{n}", f"c{n}") for n in range(12)]
    others = [background(number) for number in range(200)]
    right = [replace(one, labels=("O", "O", "B-ORG", "O", "O"), id=f"r{one.id}") for one in others]
    index = make_index(tmp_path, [*loc, *org, *others, *right])
    findings = [make_finding(index, n + 1, n, 1, 2, ("B-PER",), 1.0) for n in (*range(20), *range(100, 112))]
    first, second = find_patterns(index, findings)[0]
    assert (first.condition, len(first.findings)) == (Condition("after", "near"), 12)
    assert (second.condition, len(second.findings)) == (Condition("opening", "=="), 20)
    assert first.score > second.score > 30


def test_confidence_counts(tmp_path: Path) -> None:
    index = make_index(tmp_path, [*opened_alike(3), *(background(number) for number in range(200))])
    sure, unsure = ([make_finding(index, n + 1, n, 2, 3, ("B-ORG",), p) for n in range(6)] for p in (0.9, 0.05))
    assert find_patterns(index, sure)[0][0].condition is not None
    assert find_patterns(index, unsure)[0][0].condition is None


def test_a_pattern_shows_itself_as_a_table() -> None:
    forms = (("<b>Oslo", 1_200), *((f"town {number}", 2) for number in range(5)))
    shown = Pattern(
        3, "LOC -> ORG", None, 1_210, 5_000, (1, 4), forms, ("d 1", "d 2"), 0.876, 12.3456, "<i>LOC</i> segments",
    )  # fmt: skip
    line, table = shown.describe()
    assert line == shown.description
    facts = {
        "change": "LOC -> ORG",
        "segments": "1,210",
        "opportunities": "5,000",
        "texts": "<b>Oslo (1,200), town 0 (2), town 1 (2), town 2 (2), town 3 (2), ...",
        "documents": "2",
        "mean confidence": "0.88",
        "score": "12.35",
        "trusted loss if fixed": "not computed",
    }
    assert table == fact_table("pattern 3", facts)
    page = shown._repr_html_()
    assert "<p>&lt;i&gt;LOC&lt;/i&gt; segments</p>" in page
    assert "<td>&lt;b&gt;Oslo (1,200), town 0 (2)," in page
    assert "<b>" not in page
    assert "<i>" not in page


def test_most_and_json(tmp_path: Path) -> None:
    index = make_index(tmp_path, newswire(3, 60))
    findings, _ = planted_amid_scattered(index, 3, times=2)
    patterns, numbered = find_patterns(index, findings, most=2)
    assert [pattern.number for pattern in patterns] == [1, 2]
    assert {one.pattern for one in numbered} == {None, 1, 2}
    effect = GroupEffect(3, 4, 20, TrustedFit(1.5, 3), TrustedFit(1.25, 2), None)
    for pattern in (*patterns, replace(patterns[0], effect=effect)):
        assert parse_document(pattern.to_line(), Pattern) == pattern
    with_all = replace(effect, verified=TrustedFit(1.125, 1), loss_interval=(-0.5, -0.25), wrong_interval=(-3.0, 1.0))
    assert parse_document(json.dumps(with_all.to_json()), GroupEffect) == with_all


def test_no_findings_and_bad_input(tmp_path: Path) -> None:
    index = make_index(tmp_path, [background(number) for number in range(5)])
    assert find_patterns(index, []) == ([], [])
    with pytest.raises(OptionError, match="most 0: must be at least 1"):
        find_patterns(index, [], most=0)
    good = make_finding(index, 7, 1, 2, 3, ("B-LOC",))
    for bad in (replace(good, sentence_number=99), replace(good, start=0, stop=1), replace(good, given=("O",))):
        with pytest.raises(DataError, match=r"finding 7: .* give the index that was audited"):
            find_patterns(index, [bad])


@pytest.mark.parametrize("change", [{"number": 2**63}, {"opportunities": -1}, {"findings": (1, 2**53 + 1)}])
def test_a_number_that_nothing_can_hold_is_refused(change: dict[str, Any]) -> None:
    one = Pattern(1, "", None, 0, 0, (), (), (), 0.9, 0.0, "")
    with pytest.raises(DataError, match=r"must be from 0 to 2\*\*53"):
        parse_document(json.dumps(asdict(one) | change), Pattern)
