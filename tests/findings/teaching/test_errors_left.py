"""The estimate of wrong labels left: unbiased for any model, and with intervals that hold."""

from __future__ import annotations

import numpy as np
import pytest

from tagtrace._checks import OptionError
from tagtrace.findings.teaching.errors_left import LEAST, Draws, errors_left, expected_wrong
from tests.findings.teaching.made import made


def made_errors(num_sentences: int = 400) -> tuple[list[int], list[int]]:
    """Lengths, and numbers of wrong labels that are clustered in some sentences."""
    random = np.random.default_rng(5)
    lengths = random.integers(3, 30, num_sentences)
    rates = np.where(random.random(num_sentences) < 0.2, 0.3, 0.01)
    return lengths.tolist(), random.binomial(lengths, rates).tolist()


@pytest.mark.parametrize("model", ["good", "bad", "none"])
def test_the_estimate_is_unbiased_and_its_interval_holds_whatever_the_model(model: str) -> None:
    lengths, wrong = made_errors()
    random = np.random.default_rng(1)
    noise = random.uniform(0.5, 1.5, len(wrong))
    models = {"good": noise * wrong, "bad": random.permutation(wrong) + 1.0, "none": np.zeros(len(wrong))}
    expected = {i: float(value) for i, value in enumerate(models[model]) if value}
    estimates, inside = list[float](), 0
    for seed in range(300):
        draws = Draws.of(lengths, expected, seed)
        seen = {i: wrong[i] for i in draws.first(60)}
        found = errors_left(draws, seen, expected, 0)
        assert found.num_draws >= 60
        estimates.append(found.count)
        inside += abs(found.count - sum(wrong)) <= found.margin
    error = np.std(estimates) / len(estimates) ** 0.5
    assert np.mean(estimates) == pytest.approx(sum(wrong), abs=4 * error)
    assert inside / 300 > 0.85  # 60 draws of skewed numbers: a little below 95 %
    if model == "good":
        assert np.std(estimates) < 0.15 * sum(wrong)


def test_corrected_labels_are_not_left() -> None:
    lengths, wrong = made_errors()
    draws = Draws.of(lengths, {}, 0)
    seen = {i: wrong[i] for i in draws.first(200)}
    before, after = errors_left(draws, seen, {}, 0), errors_left(draws, seen, {}, 50)
    assert before.count - after.count == pytest.approx(50)
    assert errors_left(draws, seen, {}, 10**6).count == 0.0


def test_only_draws_up_to_the_first_unchecked_one_count() -> None:
    draws = Draws.of([4] * 50, {}, 3)
    order = draws.first(10)
    assert draws.first(4) == order[:4]
    seen = {i: 1 for i in order if i != order[3]}
    assert errors_left(draws, seen, {}, 0).num_draws == order.index(order[3])
    nothing = errors_left(draws, {}, {2: 7.5}, 0)
    assert (nothing.count, nothing.margin) == (7.5, float("inf"))
    assert str(nothing) == "the number of wrong labels is not known yet"


def test_a_text_names_the_interval() -> None:
    draws = Draws.of([10] * 100, {}, 0)
    found = errors_left(draws, dict.fromkeys(range(100), 1), {}, 0)
    assert str(found) == "about 100 ± 0 wrong labels left"


def test_expected_labels_of_findings_are_summed_by_sentence() -> None:
    findings = [made(0, "Varn Holt"), made(0, "Varn"), made(3, "Varn", given="B-ORG")]
    assert expected_wrong(findings, [0.5, 0.25, 0.9]) == {0: 1.25, 3: 0.0}


def test_draws_need_tokens() -> None:
    with pytest.raises(OptionError, match="no tokens to draw from"):
        Draws.of([0, 0], {})


def test_few_draws_say_nothing_and_a_checked_corpus_everything() -> None:
    draws = Draws.of([5] * 300, {}, 0)
    some = dict.fromkeys(draws.first(LEAST - 1), 0)
    assert len(draws.checked(some)) < LEAST
    assert str(errors_left(draws, some, {}, 0)) == "the number of wrong labels is not known yet"
    rare = errors_left(draws, dict.fromkeys(draws.first(3 * LEAST), 0), {}, 0)
    assert rare.count == 0.0
    assert 5.0 < rare.margin < 30.0  # none was seen, and a few may be left
    every = errors_left(draws, dict.fromkeys(range(300), 2), {}, 590)
    assert (every.count, every.margin) == (10.0, 0.0)
