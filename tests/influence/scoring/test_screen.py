"""First-order influence against gradients by autograd, and against retraining."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tagtrace.influence import Edit, Screen
from tagtrace.tagger import Head, HeadOptions, Rows
from tests.influence.dense import segment_gradients
from tests.influence.fitted import Fitted, copies_of
from tests.strategies import HEADS, LABELS, random_rows, random_theta


def segments_of(rows: Rows) -> Tensor:
    return torch.tensor(
        [(i, a, b) for i, n in enumerate(rows.lengths.tolist()) for a in range(n) for b in range(a + 1, n + 1)]
    )


@pytest.mark.parametrize("options", HEADS)
def test_screen_is_the_gradient_of_every_segment_times_the_direction(options: HeadOptions) -> None:
    rows, head = random_rows(), Head(4, LABELS, options).double()
    head.set_flat(random_theta(head))
    segments = segments_of(rows)
    directions = torch.stack([random_theta(head, seed) for seed in (5, 6)])
    for index, gradient in enumerate(segment_gradients(head, rows, segments)):
        expected = directions @ gradient / len(rows.lengths)
        found = Screen(head, rows, segments[index : index + 1]).influence(directions)[:, 0]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    together = Screen(head, rows, segments).influence(directions)
    alone = [Screen(head, rows, segments[i : i + 1]).influence(directions) for i in range(len(segments))]
    torch.testing.assert_close(together, torch.cat(alone, 1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", [HeadOptions(), HeadOptions(start_end=True), HeadOptions("softmax")])
def test_first_order_has_slope_one_for_a_tiny_share_of_the_data(options: HeadOptions) -> None:
    many = copies_of(random_rows(), 400)
    fitted = Fitted(options, many)
    query = fitted.query()
    direction = fitted.solver.solve(query.gradient(fitted.head).unsqueeze(0)).value
    for number, start, stop in ((0, 1, 2), (3, 2, 5), (2, 0, 3)):
        predicted = float(Screen(fitted.head, many, torch.tensor([[number, start, stop]])).influence(direction))
        theta = fitted.retrainer().retrain([Edit(number, start, stop)], tolerance=1e-12).theta
        actual = float((query.loss(fitted.head.at(theta)) - query.loss(fitted.head)).detach())
        assert actual == pytest.approx(predicted, rel=0.02)
        assert predicted != 0
