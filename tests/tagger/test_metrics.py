"""Segment F1 equals seqeval's, and the rest equals what one counts by hand."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import accuracy_score, classification_report

from tagtrace.data import normalise
from tagtrace.tagger import F1Score, score_labels

LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-a-b", "I-a-b")


@st.composite
def label_pairs(draw: st.DrawFn) -> tuple[list[list[str]], list[list[str]]]:
    """Gold and predicted labels of up to four sentences, ill-formed ones included."""
    lengths = draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))

    def some(length: int) -> list[str]:
        return draw(st.lists(st.sampled_from(LABELS), min_size=length, max_size=length))

    gold = [some(length) for length in lengths]
    copied = draw(st.booleans())  # or nothing would ever be right
    return gold, [labels[:-1] + some(1) if copied else some(len(labels)) for labels in gold]


@given(label_pairs())
def test_segment_scores_are_seqevals(pair: tuple[list[list[str]], list[list[str]]]) -> None:
    gold, predicted = pair
    card = score_labels(gold, predicted, "iob2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not card.by_type:  # seqeval cannot report on no segment at all
            assert card.segments == F1Score(0, 0, 0)
            return
        report = classification_report(gold, predicted, output_dict=True, zero_division=0)  # pyright: ignore
    assert isinstance(report, dict)
    names = set(report) - {"micro avg", "macro avg", "weighted avg"}
    assert set(card.by_type) == names
    for score, expected in [(card.segments, report["micro avg"]), *((card.by_type[n], report[n]) for n in names)]:
        found = (score.precision, score.recall, score.f1, score.num_gold)
        wanted = tuple(expected[name] for name in ("precision", "recall", "f1-score", "support"))
        assert found == pytest.approx(wanted)
    assert card.accuracy == pytest.approx(accuracy_score(gold, predicted))


def test_the_data_frame_has_the_numbers_of_the_card() -> None:
    card = score_labels([["B-PER", "O", "B-LOC"]], [["B-PER", "B-LOC", "B-LOC"]], "iob2")
    frame = card.to_pandas().set_index("type")
    assert list(frame.index) == ["LOC", "PER", "all segments", "tokens"]
    assert frame.loc["LOC", "precision"] == 0.5
    assert frame.loc["all segments", "f1"] == card.segments.f1


@given(label_pairs())
def test_gold_and_predicted_change_places_as_precision_and_recall(pair: tuple[list, list]) -> None:
    gold, predicted = pair
    card, swapped = score_labels(gold, predicted, "iob2"), score_labels(predicted, gold, "iob2")
    for left, right in ((card.segments, swapped.segments), (card.tokens, swapped.tokens)):
        assert (left.precision, left.recall, left.f1) == (right.recall, right.precision, right.f1)
    assert card.accuracy == swapped.accuracy


@given(label_pairs())
def test_repairing_labels_changes_no_segment(pair: tuple[list, list]) -> None:
    gold, predicted = pair
    mended, also_mended = ([normalise(labels, "iob2") for labels in side] for side in pair)
    assert score_labels(gold, predicted, "iob2").segments == score_labels(mended, also_mended, "iob2").segments


def test_precision_and_recall_by_hand() -> None:
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["B-LOC", "O", "O", "O"]]
    predicted = [["B-PER", "I-PER", "O", "B-PER"], ["O", "O", "O", "O"]]
    card = score_labels(gold, predicted, "iob2")
    assert card.segments == F1Score(num_correct=1, num_predicted=2, num_gold=3)
    assert (card.segments.precision, card.segments.recall) == (1 / 2, 1 / 3)
    assert card.segments.f1 == pytest.approx(2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3))
    assert card.by_type == {"LOC": F1Score(0, 0, 2), "PER": F1Score(1, 2, 1)}
    assert card.tokens == F1Score(num_correct=2, num_predicted=3, num_gold=4)
    assert card.accuracy == 6 / 8


def test_a_boundary_missed_is_a_segment_missed_but_not_its_tokens() -> None:
    card = score_labels([["B-a-b", "I-a-b", "O"]], [["O", "B-a-b", "I-a-b"]], "iob2")
    assert card.segments == F1Score(0, 1, 1)
    assert card.tokens == F1Score(num_correct=1, num_predicted=2, num_gold=2)
    assert card.accuracy == 0
    renamed = score_labels([["B-PER", "I-PER"]], [["B-PER", "B-PER"]], "iob2")
    assert renamed.segments == F1Score(0, 2, 1)
    assert renamed.tokens == F1Score(2, 2, 2), "B- and I- are not told apart in tokens"
    assert renamed.accuracy == 0.5


def test_io_labels_are_runs_of_one_type() -> None:
    card = score_labels([["POP", "POP", "O", "INT"]], [["POP", "POP", "INT", "INT"]], "io")
    assert card.by_type == {"INT": F1Score(0, 1, 1), "POP": F1Score(1, 1, 1)}
    assert card.segments == F1Score(1, 2, 2)
    assert card.tokens == F1Score(num_correct=3, num_predicted=4, num_gold=3)
    hyphened = score_labels([["B-PER", "B-LOC"]], [["B-PER", "I-LOC"]], "io")
    assert hyphened.tokens == F1Score(1, 2, 2), "in io a hyphen is part of the type"


def test_plain_labels_are_one_segment_each() -> None:
    card = score_labels([["NOUN", "NOUN", "VERB"]], [["NOUN", "VERB", "VERB"]], "plain")
    assert card.by_type == {"NOUN": F1Score(1, 1, 2), "VERB": F1Score(1, 2, 1)}
    assert card.segments == card.tokens == F1Score(2, 3, 3)
    assert card.segments.f1 == card.accuracy == 2 / 3


def test_nothing_found_and_nothing_to_find() -> None:
    for gold, predicted in ([], []), ([["O", "O"]], [["O", "O"]]):
        card = score_labels(gold, predicted, "iob2")
        assert card.segments == card.tokens == F1Score(0, 0, 0)
        assert card.by_type == {}
        assert (card.segments.precision, card.segments.recall, card.segments.f1) == (0, 0, 0)
        assert card.accuracy == (1 if gold else 0)


def test_sequences_of_other_lengths_are_refused() -> None:
    for gold, predicted in ([["O"]], []), ([["O", "O"]], [["O"]]):
        with pytest.raises(ValueError, match="argument"):
            score_labels(gold, predicted, "iob2")


def test_a_scorecard_as_json() -> None:
    card = score_labels([["B-PER", "O"]], [["B-PER", "B-PER"]], "iob2").to_json()
    score = {"num_correct": 1, "num_predicted": 2, "num_gold": 1, "precision": 0.5, "recall": 1.0, "f1": 2 / 3}
    assert card == {"segment": score, "by_type": {"PER": score}, "token": score, "accuracy": 0.5}
