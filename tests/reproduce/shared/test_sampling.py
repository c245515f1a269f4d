"""Random samples."""

from __future__ import annotations

from random import Random

from tagtrace.reproduce.shared.sampling import at_most


def test_a_sample_keeps_the_order_of_the_items() -> None:
    chosen = at_most(range(30), 5, Random(0))
    assert chosen == sorted(chosen)
    assert len(set(chosen)) == 5
    assert at_most(range(30), 5, Random(0)) == chosen
    assert at_most(range(30), 5, Random(1)) != chosen


def test_zero_or_a_large_number_means_all_items() -> None:
    assert at_most("abc", 0, Random(0)) == at_most("abc", 99, Random(0)) == ["a", "b", "c"]
