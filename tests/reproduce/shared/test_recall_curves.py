"""Curves and measures of rankings."""

from __future__ import annotations

import pytest
import torch

from tagtrace.reproduce.shared.recall_curves import area, chance_area, curve, measures, ranks


def test_curves_and_measures_on_numbers() -> None:
    wrong = torch.tensor([True, False, True, False, False])
    assert ranks(torch.tensor([3.0, 1.0, 2.0, 5.0, 4.0]), wrong) == [3, 4]
    assert ranks(torch.zeros(5), wrong) == [1, 3], "equal scores in the order of the data"
    assert curve([3, 4], 5) == [0.0, 0.0, 0.5, 1.0, 1.0]
    assert area([3, 4], 5) == pytest.approx(sum(curve([3, 4], 5)) / 5)
    found = measures([3, 4], 5)
    assert found["AP"] == pytest.approx((1 / 3 + 2 / 4) / 2)
    assert found["recall at 20"] == 1.0
    assert measures([1, 30, 60], 100)["recall at 50"] == pytest.approx(2 / 3)
    every_place = [area([rank], 7) for rank in range(1, 8)]
    assert chance_area(7) == pytest.approx(sum(every_place) / 7)


def test_a_curve_has_a_value_for_every_number_of_documents() -> None:
    for size in (1, 2, 3, 50, 879):
        found = curve([size], size)
        assert found == [0.0] * (size - 1) + [1.0]
