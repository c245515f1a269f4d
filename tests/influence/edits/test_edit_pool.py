"""The edits that may flip a prediction, and their first-order effects against gradients and retraining."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tagtrace.data import LabelSet
from tagtrace.influence import Edit
from tagtrace.influence.edits.edit_pool import Pool, relabel_effects, relabellings, removals
from tagtrace.influence.edits.margin import Gap, Margin
from tagtrace.tagger import Head, HeadOptions, Rows, crf
from tagtrace.tagger.rows import pad_rows
from tests.influence.edits.two_types import L2, TWO_TYPES, all_edits, fit, make_query, make_rows, retrained
from tests.influence.fitted import copies_of
from tests.strategies import HEADS, random_theta


@pytest.mark.parametrize("options", HEADS)
def test_first_order_of_relabelling_is_the_change_of_gradient(options: HeadOptions) -> None:
    rows = make_rows(1, (5, 1, 4))
    head = Head(3, TWO_TYPES, options).double()
    head.set_flat(random_theta(head))
    direction = random_theta(head, 7)
    pool = relabellings(rows, TWO_TYPES, Gap(1.0, (1, 2, 0), (3, 4, 1)))
    pool = Pool(torch.cat([pool.segments, torch.tensor([[0, 0, 5], [1, 0, 1]])]),
                torch.cat([torch.nn.functional.pad(pool.labels, (0, 5 - pool.labels.shape[1])),  # type: ignore[arg-type]
                           torch.tensor([[1, 2, 0, 3, 4], [1, 0, 0, 0, 0]])]))  # fmt: skip
    assert pool.labels is not None
    found = relabel_effects(head, rows, pool.segments, pool.labels, direction)
    for index, edit in enumerate(all_edits(pool)):
        labels = rows.labels.clone()
        first = int(rows.lengths[: edit.sentence_number].sum())
        labels[first + edit.start : first + edit.stop] = torch.tensor(edit.labels)
        old, new = (joint_gradient(head, rows, some) for some in (rows.labels, labels))
        assert float(found[index]) == pytest.approx(float(direction @ (old - new)) / 3, abs=1e-10)
    assert found.abs().max() > 0.1


def joint_gradient(head: Head, rows: Rows, labels: Tensor) -> Tensor:
    """The gradient of the sum of joint losses, (P,)."""
    scores = head(rows.features.double(), rows.lengths)
    loss = crf.joint_loss(scores, pad_rows(labels, rows.lengths)).sum()
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(head.parameters()))])


@pytest.mark.parametrize("edit", ["remove", "relabel"])
def test_first_order_is_the_change_of_margin_for_a_tiny_share_of_the_data(edit: str) -> None:
    copies = 300
    many = copies_of(make_rows(2, (4, 3, 2)), copies)
    fitted = fit(many, l2=L2 * copies)
    margin = Margin(make_query(3), fitted.head)
    gap = margin.at(fitted.head)
    direction = fitted.solver.solve(margin.gradient(gap, fitted.head)[None]).value[0]
    pool = removals(many, TWO_TYPES, "entity") if edit == "remove" else relabellings(many, TWO_TYPES, gap)
    pool = pool.take(torch.arange(4))
    for one, predicted in zip(all_edits(pool), pool.effects(fitted.head, many, direction).tolist(), strict=True):
        moved = retrained(fitted, [one])
        rival, keep = (margin.query.with_labels(torch.tensor(labels)) for labels in (gap.rival, gap.keep))
        actual = float((rival.loss(moved) - keep.loss(moved)).detach()) - gap.value
        assert actual == pytest.approx(predicted, rel=0.05, abs=1e-6)
        assert abs(predicted) > 1e-7


def test_relabellings_follow_the_rival_and_keep_the_scheme() -> None:
    rows = make_rows(0, (7,))
    rows.labels[:] = torch.tensor([1, 2, 0, 1, 3, 4, 0])  # B-X I-X O B-X B-Y I-Y O

    def edits(keep: tuple[int, ...], rival: tuple[int, ...]) -> set[tuple[int, int, tuple[int, ...] | None]]:
        pool = relabellings(rows, TWO_TYPES, Gap(1.0, keep, rival))
        return {(edit.start, edit.stop, edit.labels) for edit in all_edits(pool)}

    assert edits((1,), (3,)) == {(0, 2, (3, 4)), (3, 4, (3,))}  # X becomes Y
    assert edits((1, 2), (3, 4)) == edits((1,), (3,))
    assert edits((3, 4), (0, 0)) == {(4, 6, (0, 0))}  # Y becomes nothing
    assert edits((0,), (1,)) == {(2, 3, (1,)), (6, 7, (1,))}  # single tokens outside
    assert edits((0,), (2,)) == {(2, 3, (2,)), (6, 7, (1,))}  # I-X only where it continues an X
    assert edits((2,), (1,)) == {(1, 2, (1,))}  # the same type: split
    assert edits((1,), (2,)) == set()  # the same type: join; no X follows an X here
    assert edits((1, 0), (3, 3)) == edits((1,), (3,)) | {(2, 3, (3,)), (6, 7, (3,))}
    plain = LabelSet(("a", "b", "c", "d", "e"), "plain")
    pool = relabellings(rows, plain, Gap(1.0, (0,), (4,)))
    assert all_edits(pool) == [Edit(0, 2, 3, (4,)), Edit(0, 6, 7, (4,))]
