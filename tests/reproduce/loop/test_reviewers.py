"""Simulated reviewers: a perfect one never makes a label wrong, an erring one errs as often as asked."""

from __future__ import annotations

from random import Random

import pytest

from tagtrace._checks import DataError, OptionError
from tagtrace.data import Sentence, segments, violations
from tagtrace.reproduce.loop.curves import SimulatedReview
from tagtrace.reproduce.loop.noise_kinds import NOISES, make_noise
from tagtrace.reproduce.loop.places import Place, places_of, segment_of, widened
from tagtrace.reproduce.loop.reviewers import Reviewer
from tests.reproduce.loop.made_noise import true_sentences

TYPES = ("LOC", "MISC", "ORG", "PER")


def random_place(sentences: list[Sentence], random: Random) -> Place:
    number = random.choice([n for n, one in enumerate(sentences) if len(one)])
    length = len(sentences[number])
    start = random.randrange(length)
    stop = random.randint(start + 1, min(length, start + 4))
    proposed = [random.choice(["O", "B-LOC", "I-PER", "I-LOC"]) for _ in range(start, stop)]
    return Place(number, start, stop, tuple(proposed))


@pytest.mark.parametrize("noise", NOISES)
def test_a_perfect_reviewer_never_makes_a_label_wrong(noise: str) -> None:
    true, random = list(true_sentences()), Random(0)
    review = SimulatedReview(make_noise(noise, true, 0), Reviewer(true, TYPES))
    for _ in range(400):
        place = random_place(true, random)
        before = review.sentences[place.sentence_number].labels
        decision = review.look(place)
        after, right = review.sentences[place.sentence_number].labels, true[place.sentence_number].labels
        assert not violations(after, "iob2")
        assert all(new in (old, label) for old, new, label in zip(before, after, right, strict=True))
        assert after[place.start : place.stop] == right[place.start : place.stop]
        assert decision is None or decision.is_right
    assert review.reviewer.num_errors == 0
    for number, one in enumerate(true):
        if len(one):
            review.look(Place(number, 0, len(one)))
    assert review.state().num_wrong == 0


def test_an_erring_reviewer_errs_as_often_as_asked_and_stays_well_formed() -> None:
    true, random = list(true_sentences()), Random(0)
    noisy = make_noise("boundaries", true, 0)
    reviewer, wrong = Reviewer(true, TYPES, error_rate=0.05, seed=1), 0
    for _ in range(6000):
        place = random_place(true, random)
        given, right = noisy[place.sentence_number].labels, true[place.sentence_number].labels
        decision = reviewer.decide(place, given)
        labels = decision.applied(given)
        assert not violations(labels, "iob2")
        is_wrong = labels[decision.start : decision.stop] != right[decision.start : decision.stop]
        assert is_wrong != decision.is_right
        wrong += is_wrong
    assert (reviewer.num_decisions, reviewer.num_errors) == (6000, wrong)
    assert wrong / 6000 == pytest.approx(0.05, abs=0.01)  # three standard deviations


def test_the_mistakes_are_the_given_labels_the_proposal_and_another_type() -> None:
    true = [Sentence(("a", "b", "c"), ("B-X", "I-X", "O"))]
    reviewer = Reviewer(true, ("X", "Y"), error_rate=1.0)
    place, given = Place(0, 0, 2, ("O", "B-Y")), ("O", "B-X", "I-X")
    answers = {reviewer.decide(place, given).applied(given) for _ in range(60)}
    assert answers == {given, ("O", "B-Y", "B-X"), ("B-Y", "I-Y", "O")}
    right = {reviewer.decide(Place(0, 0, 2), true[0].labels).labels for _ in range(60)}
    assert right == {("B-Y", "I-Y")}, "what is right is no mistake"
    single = Reviewer(true, ("X",), error_rate=1.0)
    assert {single.decide(Place(0, 0, 2), true[0].labels).labels for _ in range(20)} == {("O", "O")}
    assert {single.decide(Place(0, 2, 3), true[0].labels).labels for _ in range(20)} == {("B-X",)}


def test_the_same_seed_makes_the_same_mistakes() -> None:
    true = list(true_sentences())
    places = [random_place(true, Random(number)) for number in range(200)]
    decided = [
        [reviewer.decide(place, true[place.sentence_number].labels) for place in places]
        for reviewer in (Reviewer(true, TYPES, 0.3, seed) for seed in (1, 1, 2))
    ]
    assert decided[0] == decided[1] != decided[2]


def test_a_stretch_is_widened_until_it_cuts_nothing() -> None:
    """Against the smallest of all stretches that cut no segment."""
    random = Random(3)
    for _ in range(300):
        labellings = [_labels(random, 6) for _ in range(2)]
        start = random.randrange(6)
        stop = random.randint(start + 1, 6)
        whole = [(a, b) for a in range(start + 1) for b in range(stop, 7) if not _cuts(a, b, labellings)]
        assert widened(start, stop, *labellings) == min(whole, key=lambda pair: pair[1] - pair[0])


def _cuts(start: int, stop: int, labellings: list[list[str]]) -> bool:
    found = [range(one.start, one.stop) for labels in labellings for one in segments(labels, "iob2")]
    inside = set(range(start, stop))
    return any(inside.intersection(one) and not inside.issuperset(one) for one in found)


def _labels(random: Random, length: int) -> list[str]:
    labels = list[str]()
    for _ in range(length):
        labels.append(random.choice(["O", "B-X", *(["I-X"] * 2 if labels and labels[-1] != "O" else [])]))
    return labels


def test_a_token_stands_for_its_segment() -> None:
    sentences = [Sentence(("a", "b"), ("O", "B-X")), Sentence(("c", "d", "e"), ("B-X", "I-X", "O"))]
    assert segment_of(sentences[1], 1) == (0, 2)
    found = places_of(sentences, [3, 2, 4, 1, 0], 3)
    assert found == [Place(1, 0, 2), Place(1, 2, 3), Place(0, 1, 2)]


def test_places_outside_the_data_are_refused() -> None:
    reviewer = Reviewer([Sentence(("a",), ("O",))], ("X",))
    with pytest.raises(DataError, match="sentence 0 has 1 tokens"):
        reviewer.decide(Place(0, 0, 2), ("O",))
    with pytest.raises(OptionError, match="must be from 0 to 1"):
        Reviewer([], (), error_rate=2.0)
