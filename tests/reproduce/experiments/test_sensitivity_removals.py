"""The choice of groups of training sentences."""

from __future__ import annotations

import torch

from tagtrace.reproduce.experiments.sensitivity_removals import choose_groups


def test_groups_are_chosen_for_all_queries_and_then_for_one() -> None:
    influence = torch.tensor([[9.0, -9.0, 0.0, 1.0, 0.0], [0.0, 0.0, 30.0, 29.0, -60.0]])
    groups = choose_groups(influence, 6, 2, seed=0)
    assert [group.name for group in groups] == ["supporters", "opposers", "random"] * 2
    assert [group.targets for group in groups] == [[0, 1], [0, 1], [], [0], [0], []]
    assert [set(group.sentences) for group in groups[:2]] == [
        {0, 3},
        {1, 4},
    ]  # 30 does not outweigh 9
    assert set(groups[3].sentences) == {0, 3}
    assert groups[4].sentences[0] == 1
    assert len(set(groups[2].sentences)) == 2
    assert choose_groups(influence, 4, 2, seed=0) == groups[:4]
