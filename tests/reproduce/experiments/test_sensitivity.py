"""The sensitivity experiment: its parts on invented numbers, and the quick run on real data."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from tagtrace.reproduce.experiments import sensitivity
from tagtrace.reproduce.experiments.sensitivity import (
    agreement,
    agreement_of_rankings,
    difference,
    null_changes,
    on_targets,
    shared,
)
from tagtrace.reproduce.shared.experiment import run_seed
from tagtrace.reproduce.shared.setting import Setting
from tests.places import DATA


def test_shared_counts_members_not_places() -> None:
    first = torch.tensor([[5.0, 4.0, 3.0, 0.0], [0.0, 1.0, 2.0, 3.0]])
    second = torch.tensor([[3.0, 4.0, 5.0, 0.0], [3.0, 2.0, 1.0, 0.0]])
    assert shared(first, second, 2) == pytest.approx((1 / 2 + 0) / 2)
    assert shared(first, second, 3) == pytest.approx((1 + 2 / 3) / 2)
    assert shared(first, second, 9) == 1.0  # no more than all tokens


def test_rankings_agree_with_themselves_and_not_with_their_opposite() -> None:
    exact = torch.randn(3, 50, dtype=torch.float64)
    assert agreement_of_rankings(exact, 2 * exact, 5) == pytest.approx(
        {"spearman": 1.0, "supporters": 1.0, "opposers": 1.0}
    )
    found = agreement_of_rankings(exact, -exact, 5)
    assert found == pytest.approx({"spearman": -1.0, "supporters": 0.0, "opposers": 0.0})


GROUPS = [
    {"name": "supporters", "targets": [1], "first order": [1.0, 3.0], "actual": [2.0, 6.0]},
    {"name": "opposers", "targets": [0, 1], "first order": [-1.0, -2.0], "actual": [-2.0, 1.0]},
    {"name": "random", "targets": [], "first order": [0.0, 0.5], "actual": [0.5, 3.0]},
]


def test_agreement_of_changes() -> None:
    found = agreement(GROUPS, "first order")
    assert found["signs"] == pytest.approx(4 / 6)
    assert found["spearman"] == pytest.approx(1 - 6 * (1 + 0 + 1 + 4 + 1 + 1) / (6 * 35))
    assert agreement(GROUPS, "actual") == pytest.approx(dict.fromkeys(found, 1.0))


def test_within_ignores_changes_that_all_groups_have_in_common() -> None:
    shifted = [[first + 100.0, second - 50.0] for first, second in (group["first order"] for group in GROUPS)]
    groups = [{**group, "actual": values} for group, values in zip(GROUPS, shifted, strict=True)]
    found = agreement(groups, "first order")
    assert found["within"] == pytest.approx(1.0)
    assert abs(found["pearson"]) < 0.2


def test_changes_on_the_queries_a_group_was_chosen_for() -> None:
    assert on_targets(GROUPS, "supporters", "actual") == 6.0
    assert on_targets(GROUPS, "opposers", "actual") == -0.5
    assert on_targets(GROUPS, "random", "actual") == 1.75


def test_every_pair_of_group_and_query_has_the_same_weight() -> None:
    groups = [
        {"name": "supporters", "targets": [0, 1, 2], "actual": [1.0, 2.0, 3.0]},
        {"name": "supporters", "targets": [0], "actual": [10.0, 50.0, 50.0]},
        {"name": "opposers", "targets": [0, 1, 2], "actual": [0.0, 0.0, -3.0]},
        {"name": "random", "targets": [], "actual": [5.0, 5.0, 5.0]},
    ]
    assert on_targets(groups, "supporters", "actual") == 4.0
    assert difference(groups, "actual") == 5.0
    assert null_changes({"groups": groups, "other seeds": [[7.0] * 3]}) == [[7.0] * 3, [5.0] * 3]


@pytest.mark.skipif(not (DATA / "conll2003_corrected").is_dir(), reason=f"no CoNLL in {DATA}; set TAGTRACE_DATA")
def test_the_quick_run_has_the_expected_direction(tmp_path: Path) -> None:
    found = run_seed(sensitivity.EXPERIMENT, Setting(DATA, tmp_path, quick=True, report=lambda _: None), 0)
    assert sensitivity.check([found]) == []
    assert "| head retrained | 1.00 ± 0.00 | 1.00 ± 0.00 | 1.00 ± 0.00 |" in sensitivity.table([found, found])
    assert max(abs(value) for value in found["removals"]["other seeds"][0]) < 1e-3  # the head does not depend on it
    reversed_ = copy.deepcopy(found)
    reversed_["curvature"]["identity"] = {"spearman": 0.99, "supporters": 1.0, "opposers": 1.0}
    for group in reversed_["removals"]["groups"]:
        group["actual"] = [-value for value in group["actual"]]
    assert len(sensitivity.check([reversed_])) == 3
