"""What conditions reach by chance: against all placements of findings, one by one, and against random errors."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from tagtrace.data import Sentence
from tagtrace.findings.patterns.chance import STAGES, Chance, ChancePool, are_significant
from tagtrace.findings.patterns.conditions import KINDS
from tagtrace.findings.patterns.g_squared import g_squared
from tagtrace.findings.patterns.pattern import find_patterns
from tests.findings.patterns.made import make_finding, make_index, spell

CODES = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
"""Of nine segments; two are not enough for a pattern."""


def make_pool(documents: np.ndarray, mass: np.ndarray, codes: np.ndarray = CODES) -> ChancePool:
    """A pool in which ``before`` tells segments apart and nothing else does."""
    alike = np.zeros_like(codes)
    return ChancePool({kind: codes if kind == "before" else alike for kind in KINDS}, documents, mass)


def best_score(found: tuple[int, ...]) -> float:
    """The highest G^2 of a condition that at least three findings meet, by a plain loop."""
    best = 0.0
    for code in (0, 1):
        inside = [place for place in range(9) if CODES[place] == code]
        k1 = sum(place in inside for place in found)
        if k1 >= 3:
            counts = np.array([[k1], [len(inside)], [len(found) - k1], [9 - len(inside)]], dtype=float)
            best = max(best, float(g_squared(*counts)[0]))
    return round(best, 6)


@pytest.mark.parametrize("documents", [np.arange(9), np.zeros(9, dtype=int)], ids=["between", "within"])
def test_findings_are_anywhere(documents: np.ndarray) -> None:
    """Nine documents of one segment, or one document of nine: the shares of all placements of four findings."""
    every = [best_score(found) for found in combinations(range(9), 4)]
    expected = {score: count / len(every) for score, count in Counter(every).items()}
    assert len(expected) == 4  # nothing; three of four; three of three; four of four
    chance = Chance(make_pool(documents, np.array([1.0, 1, 0, 0, 1, 0, 0, 0, 1])), (0,))
    drawn = chance._permute(20_000)  # pyright: ignore[reportPrivateUsage]
    found = Counter(np.round(drawn[:, KINDS.index("before")], 6).tolist())
    assert {score: count / 20_000 for score, count in found.items()} == pytest.approx(expected, abs=0.012)
    assert not drawn[:, [KINDS.index(kind) for kind in ("opening", "form", "after")]].any()


def test_documents_full_of_errors_stay_so() -> None:
    """Two of twenty documents are all wrong: a word of one document is as bad as that in one of ten permutations."""
    documents = np.repeat(np.arange(20), 6)
    codes = np.where(documents == 7, 1, 0)
    pool = make_pool(documents, np.isin(documents, [3, 11]).astype(float), codes)
    drawn = Chance(pool, (0,))._permute(4000)  # pyright: ignore[reportPrivateUsage]
    high = pool_score(pool, np.isin(documents, [3, 7]))
    reached = drawn[:, KINDS.index("before")] >= high - 1e-6
    assert float(reached.mean()) == pytest.approx(0.1, abs=0.02)


def pool_score(pool: ChancePool, is_wrong: np.ndarray) -> float:
    return ChancePool(pool.codes, pool.document, is_wrong.astype(float)).score("before", 1)


@pytest.mark.parametrize("share", [0.2, 0.9])
def test_documents_of_different_sizes(share: float) -> None:
    """Documents are bad at random; a condition that large ones meet is seldom high for its permutations."""
    rng, num_high = np.random.default_rng(0), 0
    sizes = np.where(np.arange(100) < 15, 20, 2)
    documents, codes = np.repeat(np.arange(100), sizes), np.repeat(np.arange(100) < 15, sizes).astype(int)
    for draw in range(400):
        is_bad = (rng.random(100) < 0.1)[documents]
        mass = (is_bad & (rng.random(len(documents)) < share)).astype(float)
        pool = make_pool(documents, mass, codes)
        drawn = Chance(pool, (draw,))._permute(99)[:, KINDS.index("before")]  # pyright: ignore[reportPrivateUsage]
        observed = max(pool.score("before", 0), pool.score("before", 1))
        num_high += 1 + int((drawn >= observed).sum()) <= 5
    assert num_high <= 400 * 0.05 + 2 * (400 * 0.05 * 0.95) ** 0.5


def test_more_permutations_only_where_they_matter() -> None:
    mass = np.tile(np.array([1.0, 1, 0, 0, 1, 0, 0, 0, 1]), 5)
    pool = make_pool(np.arange(45), mass, np.tile(CODES, 5))
    for excess, num, answer in ((-1.0, STAGES[0], False), (99.0, STAGES[0], True)):
        chance = Chance(pool, (0,))
        assert are_significant([(excess, [chance])]) is answer
        assert len(chance._maxima) == num  # pyright: ignore[reportPrivateUsage]
    chance = Chance(pool, (0,))
    highest = chance.highest(STAGES[1])
    assert np.array_equal(highest[: STAGES[0]], chance.highest(STAGES[0]))
    ordered = np.sort(highest)
    assert are_significant([(float(ordered[-9]), [chance])]) is bool(ordered[-10] < ordered[-9])
    assert not are_significant([(float(ordered[-10]), [chance])])
    assert not are_significant([(99.0, [chance]), (-1.0, [chance])])


def test_chance_depends_on_the_seed_only() -> None:
    pool = make_pool(np.arange(9), np.array([1.0, 1, 0, 0, 1, 0, 0, 0, 1]))
    first, again, other = (Chance(pool, (seed,)).highest(STAGES[0]) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


# In the search for patterns


def newswire(seed: int) -> list[Sentence]:
    """Persons follow a title, places "in"; each type has its own names."""
    rng = random.Random(seed)
    made = []
    for number in range(600):
        place, person = f"town{rng.randrange(60)}", f"name{rng.randrange(60)}"
        tokens = ("in", place, f"v{rng.randrange(40)}", f"title{rng.randrange(3)}", person)
        made.append(Sentence(tokens, ("O", "B-LOC", "O", "O", "B-PER"), f"s{number}", f"d{number // 6}"))
    return made


@pytest.mark.parametrize("planted", ["LOC", "O"])
def test_random_errors_are_not_a_pattern_of_what_they_really_are(tmp_path: Path, planted: str) -> None:
    """Persons labelled LOC, or not at all, by accident follow titles as other persons do."""
    found = 0
    for seed in range(12):
        rng = random.Random(seed)
        wrong = rng.sample(range(600), 25)
        sentences = [
            one.with_labels(("O", "B-LOC", "O", "O", *spell(planted if number in wrong else "PER", 1)))
            for number, one in enumerate(newswire(seed))
        ]
        index = make_index(tmp_path / f"{planted}-{seed}", sentences)
        findings = [make_finding(index, rank, number, 4, 5, ("B-PER",)) for rank, number in enumerate(wrong, start=1)]
        found += any(one.condition for one in find_patterns(index, findings)[0])
    assert found <= 1


def test_false_alarms_are_not_a_pattern_of_what_they_really_are(tmp_path: Path) -> None:
    """Places said to be persons without a reason have the names of places, which no person has."""
    found, index = 0, make_index(tmp_path, newswire(0))
    for seed in range(40):
        alarms = random.Random(seed).sample(range(600), 100)
        findings = [make_finding(index, rank, number, 1, 2, ("B-PER",)) for rank, number in enumerate(alarms, start=1)]
        found += any(one.condition for one in find_patterns(index, findings)[0])
    assert found <= 1


def test_a_mistake_under_a_condition_is_a_pattern_amid_random_errors(tmp_path: Path) -> None:
    """Half of the persons after one title are LOC, and a few others."""
    rng, sentences = random.Random(0), newswire(0)
    titled = [number for number, one in enumerate(sentences) if one.tokens[3] == "title1"]
    others = [number for number in range(600) if number not in titled]
    wrong = {*rng.sample(titled, len(titled) // 2), *rng.sample(others, 25)}
    labels = ("O", "B-LOC", "O", "O", "B-LOC")
    given = [one.with_labels(labels) if number in wrong else one for number, one in enumerate(sentences)]
    index = make_index(tmp_path, given)
    findings = [make_finding(index, rank, number, 4, 5, ("B-PER",)) for rank, number in enumerate(wrong, start=1)]
    first, *rest = find_patterns(index, findings)[0]
    assert first.condition is not None
    assert (first.change, first.condition.kind, first.condition.value) == ("LOC -> PER", "before", "title1")
    assert not any(one.condition for one in rest)


def test_an_excess_below_what_chance_reaches_is_never_clear() -> None:
    """Excesses may be negative: then twice the largest by chance is less than it."""

    class Often:
        def highest(self, num: int) -> np.ndarray:
            return np.where(np.arange(num) % 25 == 0, -0.3, -2.0)  # one in 25 is higher

    assert not are_significant([(-0.31, [Often()])])  # pyright: ignore[reportArgumentType]
