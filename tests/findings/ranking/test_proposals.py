"""Proposals against a list of all well-formed labellings, and the findings made of them."""

from __future__ import annotations

import math
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tagtrace._checks import DataError, OptionError
from tagtrace.data import LabelSet, Sentence
from tagtrace.data.schemes import differences, normalise, segments
from tagtrace.findings.finding import Finding
from tagtrace.findings.patterns.group_effect import pattern_edits
from tagtrace.findings.ranking.proposals import CONTEXT, best_labels, propose
from tagtrace.index import Index
from tests.findings.made import sentence_tokens
from tests.findings.ranking.test_suspicion import SETS, beliefs, certain, given_labels, index_of, sentences_of

Labels = tuple[str, ...]
TINY = {
    "iob2": LabelSet(("B-X", "O", "I-X"), "iob2"),
    "two types": SETS["iob2"],
    "no outside": LabelSet(("I-X", "B-X", "B-Y"), "iob2"),
    "io": SETS["io"],
    "plain": LabelSet(("A", "B", "C", "D"), "plain"),
    "one": LabelSet(("O",), "iob2"),
}


def all_labellings(labels: LabelSet, length: int) -> list[Labels]:
    """The well-formed ones: those that reading leaves as they are."""
    every = product(labels.labels, repeat=length)
    return [each for each in every if normalise(each, labels.scheme) == each]


def log_probability(believed: Tensor, labels: LabelSet, each: Labels) -> float:
    return sum(math.log(max(float(believed[t, labels.index(label)]), 1e-30)) for t, label in enumerate(each))


def best_of(believed: Tensor, labels: LabelSet, without: tuple[int, str] | None = None) -> Labels:
    """The likeliest well-formed labelling, or that in which a token does not have a label; empty if none is left."""
    found = [each for each in all_labellings(labels, len(believed)) if not without or each[without[0]] != without[1]]
    return max(found, key=lambda each: log_probability(believed, labels, each), default=())


def random_beliefs(seed: int, length: int, labels: LabelSet, sharpness: float) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = sharpness * torch.randn(length, len(labels), generator=generator, dtype=torch.float64)
    return values.softmax(1)


@given(st.sampled_from(sorted(TINY)), st.integers(0, 10_000), st.integers(1, 4), st.sampled_from([1.0, 5.0, 400.0]))
def test_best_labels_are_the_likeliest_of_all(name: str, seed: int, length: int, sharpness: float) -> None:
    labels = TINY[name]
    believed = random_beliefs(seed, length, labels, sharpness)  # very sharp ones are 0 and 1
    found = best_labels(believed, labels)
    assert found in all_labellings(labels, length)
    expected = log_probability(believed, labels, best_of(believed, labels))
    assert log_probability(believed, labels, found) == pytest.approx(expected)
    for place, label in enumerate(found):
        ruled_out = torch.zeros(length, len(labels), dtype=torch.bool)
        ruled_out[place, labels.index(label)] = True
        other, wanted = best_labels(believed, labels, ruled_out), best_of(believed, labels, (place, label))
        assert bool(other) == bool(wanted)
        if wanted:
            assert other in all_labellings(labels, length)
            assert other[place] != label
            expected = log_probability(believed, labels, wanted)
            assert log_probability(believed, labels, other) == pytest.approx(expected)


# Stretches


@st.composite
def two_labellings(draw: st.DrawFn) -> tuple[Labels, Labels, str]:
    scheme = draw(st.sampled_from(sorted(SETS)))
    one = st.sampled_from(SETS[scheme].labels)
    pairs = draw(st.lists(st.tuples(one, one, st.booleans()), min_size=1, max_size=9))
    given_ = normalise([a for a, _, _ in pairs], scheme)
    proposed = normalise([b if differs else a for a, (_, b, differs) in zip(given_, pairs, strict=True)], scheme)
    return given_, proposed, scheme


def slow_stretches(given_: Labels, proposed: Labels, scheme: str) -> list[tuple[int, int]]:
    """Tokens that differ or are in a segment that only one labelling has, connected by those segments."""
    changed = [] if scheme == "plain" else set(segments(given_, scheme)) ^ set(segments(proposed, scheme))
    inside = [{t for t in range(len(given_)) if one.start <= t < one.stop} for one in changed]
    inside += [{t} for t in range(len(given_)) if given_[t] != proposed[t]]
    while True:
        pair = next(((a, b) for a in inside for b in inside if a is not b and a & b), None)
        if pair is None:
            return sorted((min(one), max(one) + 1) for one in inside)
        inside = [one for one in inside if one is not pair[0] and one is not pair[1]] + [pair[0] | pair[1]]


@settings(max_examples=300)
@given(two_labellings(), st.randoms(use_true_random=False))
def test_stretches_can_be_changed_one_by_one(case: tuple[Labels, Labels, str], rng: Any) -> None:
    given_, proposed, scheme = case
    found = differences(given_, proposed, scheme)
    assert found == slow_stretches(given_, proposed, scheme)
    inside = [t for start, stop in found for t in range(start, stop)]
    assert len(inside) == len(set(inside)), "disjoint"
    assert all(given_[t] == proposed[t] for t in range(len(given_)) if t not in inside)
    assert all(given_[start:stop] != proposed[start:stop] for start, stop in found)
    some = list(given_)
    for start, stop in found:
        alone = (*given_[:start], *proposed[start:stop], *given_[stop:])
        assert normalise(alone, scheme) == alone, "well-formed with one change alone"
        if rng.random() < 0.5:
            some[start:stop] = proposed[start:stop]
    assert normalise(some, scheme) == tuple(some), "and with any of them"
    assert differences(given_, given_, scheme) == []


# Findings


@pytest.fixture(params=list(SETS), scope="module")
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Index:
    labels = SETS[request.param]
    found = index_of(tmp_path_factory.mktemp("made") / "index", sentences_of(labels, 14, seed=4), labels)
    assert len(found.shards) > 2
    return found


def sentence_beliefs(index: Index, believed: Tensor, sentence_number: int) -> Tensor:
    return believed[
        int(index.starts[sentence_number]) : int(index.starts[sentence_number] + index.lengths[sentence_number])
    ]


@pytest.mark.parametrize("seed", [0, 1])
def test_the_proposal_for_every_token(index: Index, seed: int) -> None:
    """One token at a time: its stretch of the likeliest labelling, else of the likeliest with another label."""
    believed, places, kinds = beliefs(index, seed, 2.0), sentence_tokens(index), set[bool]()
    for row, (number, t) in enumerate(places):
        scores = torch.full((index.num_tokens,), -torch.inf)
        scores[row] = 0.5
        (found,) = propose(index, believed, scores)
        some, given_ = sentence_beliefs(index, believed, number), index.sentence(number).labels
        options = [best_of(some, index.labels), best_of(some, index.labels, (t, given_[t]))]
        around = [
            (start, stop, each[start:stop])
            for each in options
            for start, stop in differences(given_, each, index.labels.scheme)
            if start <= t < stop
        ]
        assert (found.start, found.stop, found.proposed) == around[0]
        assert found.sentence_number == number
        assert found.given == given_[found.start : found.stop]
        kinds.add(options[0][t] == given_[t])
    assert kinds == {True, False}


def check_findings(index: Index, believed: Tensor, scores: Tensor, found: list[Finding]) -> None:
    """What is true of any findings."""
    assert [one.rank for one in found] == list(range(1, len(found) + 1))
    assert all(a.score >= b.score for a, b in pairwise(found))
    tokens = [(one.sentence_number, t) for one in found for t in range(one.start, one.stop)]
    assert len(tokens) == len(set(tokens)), "disjoint"
    for one in found:
        sentence, first = index.sentence(one.sentence_number), int(index.starts[one.sentence_number])
        rows = range(first + one.start, first + one.stop)
        assert one.score == pytest.approx(max(float(scores[row]) for row in rows))
        assert (one.sentence, one.document) == (sentence.id, sentence.document)
        assert one.line == sentence.lines[one.start]
        assert one.tokens == sentence.tokens[one.start : one.stop]
        assert (*one.before, *one.tokens, *one.after) == sentence.tokens[
            max(one.start - CONTEXT, 0) : one.stop + CONTEXT
        ]
        assert one.given == sentence.labels[one.start : one.stop] != one.proposed
        expected = min(
            float(believed[row, index.labels.index(label)]) for row, label in zip(rows, one.proposed, strict=True)
        )
        assert one.confidence == pytest.approx(expected)
    pattern_edits(index, found)  # raises where they cannot be fixed together


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.integers(1, 60), st.sampled_from([1.0, 4.0]))
def test_findings_are_disjoint_ranked_and_explained(index: Index, seed: int, most: int, sharpness: float) -> None:
    believed = beliefs(index, seed, sharpness)
    scores = torch.randint(-3, 4, (index.num_tokens,), generator=torch.Generator().manual_seed(seed)).double()
    scores[scores == -3] = -torch.inf  # and many ties
    found = propose(index, believed, scores, most, {"first": believed[:, 0]})
    check_findings(index, believed, scores, found)
    assert all(one.score > -torch.inf for one in found)
    everything = propose(index, believed, scores, 1000)
    assert len(found) == min(most, len(everything))
    assert [one.proposed for one in found] == [one.proposed for one in everything[:most]]
    for one in found:
        first = int(index.starts[one.sentence_number])
        assert one.scores == {"first": float(believed[first + one.start : first + one.stop, 0].max())}


@pytest.mark.parametrize("seed", range(4))
def test_all_that_the_likeliest_labels_change_is_found(index: Index, seed: int) -> None:
    """With scores that make the changed tokens the most suspicious, and the others left out."""
    believed = beliefs(index, seed, 3.0)
    wanted: set[tuple[int, int, int, Labels]] = set()
    scores = torch.full((index.num_tokens,), -torch.inf)
    for number, labels in enumerate(given_labels(index)):
        best = best_of(sentence_beliefs(index, believed, number), index.labels)
        for start, stop in differences(labels, best, index.labels.scheme):
            wanted.add((number, start, stop, best[start:stop]))
            scores[int(index.starts[number]) + stop - 1] = float(start)
    found = propose(index, believed, scores)
    assert {(one.sentence_number, one.start, one.stop, one.proposed) for one in found} == wanted


def test_an_alternative_that_is_not_listed_hides_nothing(tmp_path: Path) -> None:
    """The second token's other labels reach into the first finding; the third token's own error is still listed."""
    sentences = [Sentence(("a", "b", "c"), ("B-X", "O", "O"), "s:0", lines=(1, 2, 3))]
    index = index_of(tmp_path / "index", sentences, SETS["iob2"])
    believed = torch.tensor([[0, 0.1, 0, 0.9, 0], [0.6, 0, 0, 0, 0.4], [0.1, 0, 0, 0.4, 0.5]], dtype=torch.float64)
    assert best_of(believed, index.labels) == ("B-Y", "O", "B-Y")
    assert best_of(believed, index.labels, (1, "O")) == ("B-Y", "I-Y", "I-Y")
    found = propose(index, believed, torch.tensor([3.0, 2.0, 1.0]))
    assert [(one.start, one.stop, one.proposed) for one in found] == [(0, 1, ("B-Y",)), (2, 3, ("B-Y",))]


def test_a_token_without_doubt_gets_another_label_all_the_same(tmp_path: Path) -> None:
    """Where every other label has probability 0, and where the one at hand makes its neighbour impossible too."""
    sentences = [Sentence(("a", "b", "c"), ("B-X", "I-X", "O"), "s:0", lines=(1, 2, 3))]
    index = index_of(tmp_path / "index", sentences, LabelSet(("I-X", "B-X", "O"), "iob2"))
    for row in range(3):
        scores = torch.full((3,), -torch.inf)
        scores[row] = 1.0
        (found,) = propose(index, certain(index, given_labels(index)), scores)
        assert found.start <= row < found.stop
        assert found.proposed[row - found.start] != found.given[row - found.start]
        assert found.confidence == 0.0


def test_where_there_is_nothing_to_propose(tmp_path: Path) -> None:
    one_label = LabelSet(("O",), "iob2")
    index = index_of(tmp_path / "one", [Sentence(("a", "b"), ("O", "O"), "s:0")], one_label)
    assert propose(index, torch.ones(2, 1), torch.ones(2)) == []
    no_outside = LabelSet(("B-X", "I-X"), "iob2")
    index = index_of(tmp_path / "none", [Sentence(("a", "b"), ("B-X", "I-X"), "s:0")], no_outside)
    believed = torch.tensor([[0.5, 0.5], [0.4, 0.6]])  # the first token can be B-X only
    assert propose(index, believed, torch.tensor([1.0, -torch.inf])) == []
    assert propose(index, believed, torch.full((2,), -torch.inf)) == []
    (found,) = propose(index, believed, torch.tensor([-torch.inf, 1.0]))
    assert (found.start, found.stop, found.proposed) == (0, 2, ("B-X", "B-X"))


def test_lines_that_are_not_known_are_0(tmp_path: Path) -> None:
    index = index_of(tmp_path / "index", [Sentence(("a", "b"), ("O", "O"), "s:0")], SETS["iob2"])
    found = propose(index, certain(index, [["B-X", "O"]]), torch.tensor([1.0, -torch.inf]))
    assert [one.line for one in found] == [0]


def test_refusals(index: Index) -> None:
    believed, scores = beliefs(index, 0), torch.zeros(index.num_tokens)
    with pytest.raises(OptionError, match="most 0"):
        propose(index, believed, scores, 0)
    with pytest.raises(DataError, match="the probabilities were computed on different data"):
        propose(index, believed[1:], scores)
    for wrong in (scores[1:], scores.index_fill(0, torch.tensor([2]), torch.nan)):
        with pytest.raises(DataError, match="not one number for each token"):
            propose(index, believed, wrong)
