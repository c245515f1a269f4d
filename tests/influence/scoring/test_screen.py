"""First-order influence against gradients by autograd, and against retraining."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tagtrace.data import LabelSet
from tagtrace.influence import Edit, Screen
from tagtrace.influence.scoring.same_length import SameLength
from tagtrace.influence.scoring.screen import _Direction
from tagtrace.tagger import Head, HeadOptions, Rows
from tagtrace.tagger.convex import products as products_module
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


def confident_group(dtype: torch.dtype) -> tuple[SameLength, Tensor]:
    """Segments of two tokens whose labels are certain to 1e-6, and transitions of a direction, (C, C)."""
    generator, C, S = torch.Generator().manual_seed(0), 4, 50
    labels = torch.randint(0, C, (S, 2), generator=generator)

    def sides(column: int) -> Tensor:
        unlikely = 1e-6 * torch.rand(S, 1, C, generator=generator, dtype=torch.float64)
        return unlikely.scatter(2, labels[:, column].view(S, 1, 1), 1.0).to(dtype)

    nothing = torch.zeros(S, 2, C, dtype=dtype)
    reach = torch.zeros(S, C, dtype=dtype)
    reach[3] = torch.nan
    group = SameLength(
        torch.arange(S), torch.zeros(S, 2, dtype=torch.long), labels, torch.full((S,), C), torch.full((S,), C), nothing,
        sides(0), sides(1), reach, torch.ones(C, C, dtype=dtype),
    )  # fmt: skip
    return group, torch.randn(C, C, generator=generator, dtype=torch.float64)


def test_transitions_of_certain_labels_do_not_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products_module, "USE_LOOPS", False)
    labels = LabelSet(("O", "B-X", "I-X", "B-Y"), "iob2")
    head = Head(3, labels).double()
    results: list[Tensor] = []
    for dtype in (torch.float32, torch.float64):
        group, edges = confident_group(dtype)
        direction = torch.cat([torch.zeros(head.weight.numel(), dtype=torch.float64), edges.flatten()])
        moved = torch.zeros(1, head.num_labels, dtype=dtype)
        results.append(_Direction(head, direction, dtype).products(moved, group).double())
    group, edges = confident_group(torch.float64)
    given = edges[group.labels[:, 0], group.labels[:, 1]]
    pairs = group.left[:, 0].unsqueeze(2) * group.right[:, 0].unsqueeze(1)  # (S, C, C)
    expected = (pairs * (edges - given.view(-1, 1, 1))).sum((1, 2))
    torch.testing.assert_close(results[1], expected, rtol=1e-9, atol=0)
    torch.testing.assert_close(results[0], expected, rtol=1e-4, atol=1e-12)


def test_a_bound_that_is_not_a_number_leaves_nothing_out() -> None:
    head = Head(3, LabelSet(("O", "B-X", "I-X", "B-Y"), "iob2")).double()
    group, _ = confident_group(torch.float64)
    direction = _Direction(head, torch.ones(head.num_parameters, dtype=torch.float64), torch.float64)
    assert direction.reached(group, 1.0, None).places.tolist() == [3]
