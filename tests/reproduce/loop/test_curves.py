"""Orders and curves, on a small index: what is looked at first, and what it leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tagtrace._checks import DataError, OptionError
from tagtrace.data import Sentence
from tagtrace.findings import Probabilities, assess, gain, head_opinions
from tagtrace.index import Index, IndexOptions, build_index
from tagtrace.reproduce.loop.curves import ReviewState, f1_curve, follow, head_f1, whole_f1
from tagtrace.reproduce.loop.orders import ORDERS, order_places
from tagtrace.reproduce.loop.places import Place
from tagtrace.reproduce.loop.reviewers import Reviewer
from tagtrace.tagger import TrainOptions
from tests.findings.made import LABELS, make_corpus, make_sentences, make_tagger


@pytest.fixture(scope="module")
def opinions(index: Index) -> list[Probabilities]:
    return head_opinions(index, num_folds=3)


def given_probability(index: Index, opinion: Probabilities, place: Place) -> float:
    """The least probable label of a place."""
    first = int(index.starts[place.sentence_number])
    rows = range(first + place.start, first + place.stop)
    return min(float(opinion.marginals[row, opinion.labels[row]]) for row in rows)


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_has_every_place_once(name: str, index: Index, opinions: list[Probabilities]) -> None:
    if name == "cleanlab":
        pytest.importorskip("cleanlab")
    places = order_places(name, index, opinions)
    tokens = [(one.sentence_number, t) for one in places for t in range(one.start, one.stop)]
    assert len(tokens) == len(set(tokens))
    if name != "audit":  # which leaves out tokens that have no other label
        assert len(tokens) == index.num_tokens
    assert order_places(name, index, opinions, most=3) == places[:3]


@pytest.mark.parametrize(("name", "judge"), [("cleanlab", 1), ("loss", 0)])
def test_improbable_labels_come_first(name: str, judge: int, index: Index, opinions: list[Probabilities]) -> None:
    if name == "cleanlab":
        pytest.importorskip("cleanlab")
    values = [given_probability(index, opinions[judge], place) for place in order_places(name, index, opinions)]
    assert values == sorted(values)
    with pytest.raises(DataError, match=f"no {opinions[judge].sample} opinion"):
        order_places(name, index, [opinions[1 - judge]])


def test_the_order_of_an_audit_is_that_of_its_findings(index: Index, opinions: list[Probabilities]) -> None:
    findings = assess(index, opinions).findings
    places = order_places("audit", index, opinions)
    assert places == [Place(one.sentence_number, one.start, one.stop, one.proposed) for one in findings]


def test_random_sentences_depend_on_the_seed(index: Index, opinions: list[Probabilities]) -> None:
    orders = [order_places("sentences", index, opinions, seed=seed) for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    with pytest.raises(OptionError, match="no order 'none'; expected one of cleanlab"):
        order_places("none", index, opinions)


TRUE = [Sentence(("a", "b", "c"), ("B-X", "I-X", "O")), Sentence(("d", "e"), ("O", "B-Y"))]
NOISY = [TRUE[0].with_labels(("O", "B-X", "O")), TRUE[1].with_labels(("B-X", "B-Y"))]


def test_states_count_what_is_left() -> None:
    places = [Place(0, 0, 1), Place(0, 1, 2), Place(0, 2, 3), Place(1, 0, 2)]
    states = follow(NOISY, iter(places), Reviewer(TRUE, ("X", "Y")), (0, 1, 2, 9))
    assert [(one.num_decisions, one.num_wrong, one.num_read) for one in states] == [
        (0, 3, 0), (1, 1, 2), (2, 1, 3), (3, 0, 5)
    ]  # fmt: skip
    assert states[0].sentences == tuple(NOISY)
    assert states[-1].sentences == tuple(TRUE)


def test_places_may_depend_on_earlier_decisions() -> None:
    reviewer, seen = Reviewer(TRUE, ("X", "Y")), list[int]()

    def places():
        for place in (Place(0, 0, 3), Place(1, 0, 1), Place(1, 1, 2)):
            seen.append(reviewer.num_decisions)
            yield place

    follow(NOISY, places(), reviewer, (2,))
    assert seen == [0, 1], "no place is asked for before it is needed"


def test_the_f1_of_the_head_is_that_of_a_gain(tmp_path: Path) -> None:
    """Against head_gain, which retrains before and after a change in another way."""
    before = make_corpus(30, seed=2)
    test = replace(make_corpus(12, seed=3), path=Path("test.conll"))
    after = before.with_sentences(make_sentences(30, seed=2)[:20] + tuple(
        one.with_labels(["O"] * len(one)) for one in make_sentences(30, seed=2)[20:]
    ))  # fmt: skip
    tagger = make_tagger()
    index = build_index(tagger, before, tmp_path / "index", IndexOptions(dtype="float32", shard_tokens=20, l2=0.1))
    states = [ReviewState(n, 0, 0, corpus.sentences) for n, corpus in enumerate((before, after))]
    found = f1_curve(states, head_f1(index, tagger, test.sentences))
    expected = gain(index, before, after, test).f1
    assert [number for number, _ in found] == [0, 1]
    assert [value for _, value in found] == pytest.approx([expected.before, expected.after])
    assert found[0][1] != found[1][1]


def test_the_whole_tagger_can_be_trained() -> None:
    torch.manual_seed(0)
    sentences = make_sentences(12)
    f1 = whole_f1("lexical", LABELS, sentences, TrainOptions(epochs=30, dropout=0.0, keep="last"))
    assert f1(sentences) > f1([one.with_labels(["O"] * len(one)) for one in sentences])
