"""The paired bootstrap against explicit loops and against the list of all resamples."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from tagtrace._checks import DataError, OptionError
from tagtrace.findings.gains import bootstrap
from tagtrace.findings.gains.bootstrap import (
    Difference,
    Floats,
    draw_weights,
    mean_f1,
    paired_bootstrap,
    paired_bootstraps,
)
from tagtrace.tagger import F1Score


def random_counts(num_runs: int, num_units: int, seed: int) -> Floats:
    """(S, U, 3): true positives are at most what is predicted and gold; the gold is that of run 0."""
    rng = np.random.default_rng(seed)
    gold = np.random.default_rng(0).integers(0, 5, size=num_units)
    counts = np.zeros((num_runs, num_units, 3))
    for run in range(num_runs):
        predicted = rng.integers(0, 5, size=num_units)
        correct = [rng.integers(0, min(p, g) + 1) for p, g in zip(predicted, gold, strict=True)]
        counts[run] = np.stack([correct, predicted, gold], 1)
    return counts


def looped_f1(counts: Floats, units: list[int]) -> float:
    """The mean over runs of the F1 of these units, some of them several times."""
    scores = []
    for run in counts:
        totals = [0, 0, 0]
        for unit in units:
            for column in range(3):
                totals[column] += int(run[unit, column])
        scores.append(F1Score(*totals).f1)
    return sum(scores) / len(scores)


def multiset(weights: Floats) -> list[int]:
    return [unit for unit, times in enumerate(weights.astype(int).tolist()) for _ in range(times)]


@pytest.mark.parametrize("num_runs", [1, 3])
def test_every_figure_is_that_of_explicit_loops(num_runs: int) -> None:
    before, after = random_counts(num_runs, 7, 1), random_counts(num_runs, 7, 2)
    found = paired_bootstrap(before, after, samples=200, seed=5)
    drawn = draw_weights(7, 200, np.random.default_rng(5))
    differences = [looped_f1(after, units) - looped_f1(before, units) for units in map(multiset, drawn)]
    everything = list(range(7))
    assert found.before == pytest.approx(looped_f1(before, everything))
    assert found.after == pytest.approx(looped_f1(after, everything))
    ordered = np.sort(differences)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(ordered, [0.025, 0.975])))
    assert found.share_not_better == sum(one <= 0 for one in differences) / 200
    assert found.low < found.difference < found.high


def test_resamples_are_those_of_drawing_units_with_replacement() -> None:
    """With 3 units there are 27 equally likely resamples: their differences, listed, are the true distribution."""
    before, after = random_counts(1, 3, 3), random_counts(1, 3, 4)
    exact = [
        looped_f1(after, list(units)) - looped_f1(before, list(units))
        for units in itertools.product(range(3), repeat=3)
    ]
    weights = draw_weights(3, 40_000, np.random.default_rng(0))
    assert weights.sum(1).tolist() == [3.0] * 40_000
    found = mean_f1(after, weights) - mean_f1(before, weights)
    values = sorted(set(np.round(exact, 12)))
    assert 4 < len(values) < 27
    for value in values:
        assert np.isclose(found, value).mean() == pytest.approx(np.isclose(exact, value).mean(), abs=0.01)
    summary = paired_bootstrap(before, after, samples=40_000)
    assert summary.share_not_better == pytest.approx(np.mean(np.array(exact) <= 0), abs=0.01)


def test_equal_predictions_have_no_difference() -> None:
    counts = random_counts(2, 9, 1)
    found = paired_bootstrap(counts, counts)
    assert (found.difference, found.low, found.high, found.share_not_better) == (0.0, 0.0, 0.0, 1.0)


def test_exchanging_the_sides_negates_the_interval() -> None:
    before, after = random_counts(2, 9, 1), random_counts(2, 9, 2)
    there, back = paired_bootstrap(before, after), paired_bootstrap(after, before)
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low), abs=1e-14)
    assert back.difference == -there.difference


def test_both_sides_get_the_same_units() -> None:
    """A constant gap in every unit is a constant gap in every resample, however much the units vary."""
    right = np.arange(1, 11)
    before = np.stack([right, 20 * np.ones(10), 20 * np.ones(10)], 1)
    after = before + np.array([2, 0, 0])
    found = paired_bootstrap(before, after)
    assert (found.low, found.high) == pytest.approx((0.1, 0.1))
    assert found.share_not_better == 0.0


def test_a_right_share_is_the_f1_of_right_total_total() -> None:
    right, total = np.array([3, 1, 0]), np.array([4, 4, 2])
    found = paired_bootstrap(np.stack([right, total, total], 1), np.stack([total, total, total], 1))
    assert (found.before, found.after) == (0.4, 1.0)


def test_blocks_change_nothing_but_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = random_counts(2, 9, 1), random_counts(2, 9, 2)
    whole = paired_bootstrap(before, after, samples=100)
    monkeypatch.setattr(bootstrap, "MAX_WEIGHTS", 9 * 7)
    assert paired_bootstrap(before, after, samples=100) == whole
    assert paired_bootstrap(before, after, samples=100, seed=1) != whole


def test_several_kinds_share_their_resamples() -> None:
    before, after = random_counts(1, 9, 1), random_counts(1, 9, 2)
    found = paired_bootstraps({"a": before, "b": after}, {"a": after, "b": before})
    assert found["a"] == paired_bootstrap(before, after)
    assert found["b"].low == pytest.approx(-found["a"].high)


def test_nothing_predicted_and_nothing_gold_is_zero() -> None:
    assert paired_bootstrap([[0, 0, 0]], [[0, 0, 0]]) == Difference(0.0, 0.0, 0.0, 0.0, 1.0)


def test_three_thousand_units_are_quick() -> None:
    before, after = random_counts(3, 3000, 1), random_counts(3, 3000, 2)
    start = time.perf_counter()
    paired_bootstrap(before, after, samples=1000)
    assert time.perf_counter() - start < 5


def test_bad_input_is_refused() -> None:
    with pytest.raises(OptionError, match="samples 0"):
        paired_bootstrap([[1, 1, 1]], [[1, 1, 1]], samples=0)
    with pytest.raises(OptionError, match="1 and 2 units"):
        paired_bootstrap([[1, 1, 1]], [[1, 1, 1], [1, 1, 1]])
    with pytest.raises(OptionError, match=r"shape \(1, 2\)"):
        paired_bootstrap([[1, 1]], [[1, 1, 1]])
    with pytest.raises(DataError, match="no sentences"):
        paired_bootstrap(np.zeros((0, 3)), np.zeros((0, 3)))
