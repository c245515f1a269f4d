"""Predicted and actual changes: the measures on numbers, the bench on invented text."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from tagtrace.data import LabelSet, Sentence
from tagtrace.data.invented import generate
from tagtrace.reproduce.shared.retraining_bench import (
    Bench,
    Edits,
    agreement,
    agreement_per_query,
    choose,
    mispredicted,
    spearman,
    training_segments,
)
from tagtrace.tagger import Lexical, LexicalOptions, RefitOptions, Tagger, new_tagger, refit_tagger


def points(predicted: list[float], actual: list[float], queries: list[int] | None = None) -> list[dict[str, Any]]:
    rows = zip(predicted, actual, queries or [0] * len(actual), strict=True)
    return [{"query": query, "guess": guess, "actual": value} for guess, value, query in rows]


def test_agreement_of_a_line_with_slope_two() -> None:
    found = agreement(points([0.0, 1.0, 2.0, -1.0], [0.5, 2.5, 4.5, -1.5]), "guess")
    assert found == pytest.approx({"pearson": 1.0, "spearman": 1.0, "slope": 2.0, "largest_error": 2.5, "range": 6.0})


def test_slope_is_of_actual_on_predicted_and_not_the_reverse() -> None:
    # covariance 2/3, variance of predicted 8/3, of actual 2/3: the reverse slope would be 1
    found = agreement(points([-2.0, 0.0, 2.0], [-1.0, 1.0, 0.0]), "guess")
    assert found["slope"] == pytest.approx(0.25)
    assert found["pearson"] == pytest.approx(0.5)
    assert found["largest_error"] == pytest.approx(2.0)


def test_spearman_depends_on_the_order_only() -> None:
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0, 100.0])) == pytest.approx(1.0)
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([3.0, 1.0, 2.0])) == pytest.approx(-0.5)


def test_agreement_per_query_is_the_mean_within_queries() -> None:
    predicted, actual = [1.0, 2.0, 3.0, 11.0, 12.0, 13.0], [1.0, 2.0, 3.0, 13.0, 12.0, 11.0]
    some = points(predicted, actual, [0, 0, 0, 7, 7, 7])
    assert agreement_per_query(some, "guess") == pytest.approx(0.0)
    assert agreement(some, "guess")["spearman"] > 0.7  # over all points it looks much better


def test_choose_takes_the_largest_absolute_values_or_groups_of_them() -> None:
    influence = torch.tensor([0.1, -5.0, 3.0, 0.0, -0.2])
    assert choose(influence, Edits(top=3), random.Random(0)) == [[1], [2], [4]]
    groups = choose(influence, Edits("group", top=4, group=2, pool=3), random.Random(0))
    assert len(groups) == 4
    assert all(len(set(group)) == 2 and set(group) <= {1, 2, 4} for group in groups)


def made(labels: str) -> Sentence:
    parts = tuple(labels.split())
    return Sentence(tuple(f"word{number}" for number in range(len(parts))), parts)


def test_training_segments() -> None:
    sentences = [made("B-PER I-PER B-LOC"), made("O B-ORG")]
    assert training_segments(sentences, "token").tolist() == [[0, 0, 1], [0, 1, 2], [0, 2, 3], [1, 0, 1], [1, 1, 2]]
    assert training_segments(sentences, "entity").tolist() == [[0, 0, 2]]


@pytest.fixture(scope="module")
def small() -> tuple[Tagger, list[Sentence], list[Sentence]]:
    """A tagger on frozen random features whose head is optimal on a few invented sentences."""
    corpus = generate(num_documents=40, random_share=0.1)
    train, dev = list(corpus.train[:60]), list(corpus.dev[:20])
    torch.manual_seed(0)
    encoder = Lexical(LexicalOptions(buckets=128, width=6, hidden=6))
    tagger = new_tagger(encoder, LabelSet.from_sentences([*train, *dev], "iob2"))
    refit_tagger(tagger, train, RefitOptions(l2=1.0, tolerance=1e-10))
    return tagger, train, dev


def test_queries_are_the_tokens_predicted_with_another_label(
    small: tuple[Tagger, list[Sentence], list[Sentence]],
) -> None:
    tagger, _, dev = small
    queries = mispredicted(tagger, dev)
    wrong = [
        (tagger.labels.index(gold), t)
        for sentence, path in zip(dev, tagger.predict(dev), strict=True)
        for t, (gold, predicted) in enumerate(zip(sentence.labels, path, strict=True))
        if gold != predicted
    ]
    assert [(int(query.labels[query.start]), query.start) for query in queries] == wrong
    assert wrong


def test_the_bench_predicts_what_retraining_finds(small: tuple[Tagger, list[Sentence], list[Sentence]]) -> None:
    tagger, train, dev = small
    lines: list[str] = []
    found = Bench(tagger, train).run(mispredicted(tagger, dev)[:3], Edits(top=4), random.Random(0), lines.append)
    assert (found["points_kept"], len(lines)) == (12, 3)
    assert found["retrain_worst_max_gradient"] <= 1e-8
    assert found["refine"]["pearson"] > max(0.99, found["first_order"]["pearson"])
    assert found["refine"]["slope"] == pytest.approx(1.0, abs=0.1)
    assert found["refine"]["largest_error"] < found["first_order"]["largest_error"]
    assert {point["query"] for point in found["points"]} == {0, 1, 2}


def test_groups_add_up_and_relabelling_has_no_first_order(
    small: tuple[Tagger, list[Sentence], list[Sentence]],
) -> None:
    tagger, train, dev = small
    bench = Bench(tagger, train, refined={"refine": 2})
    query = mispredicted(tagger, dev)[0]
    (group,) = bench.compare(0, query, Edits("group", top=1, group=3, pool=6), random.Random(0))
    single = bench.compare(0, query, Edits(top=6), random.Random(0))
    parts = [point["first_order"] for point in single if point["segments"][0] in group["segments"]]
    assert len(parts) == 3
    assert group["first_order"] == pytest.approx(sum(parts))
    (relabelled,) = bench.compare(0, query, Edits("relabel", top=1), random.Random(0))
    assert "first_order" not in relabelled
    assert relabelled["actual"] != pytest.approx(single[0]["actual"])
    assert relabelled["refine"] == pytest.approx(relabelled["actual"], abs=0.1 * abs(relabelled["actual"]))
