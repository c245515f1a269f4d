"""The logits of sentences as coordinates, against Jacobians and Hessian products."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tagtrace.influence.edits.logit_space import LogitSpace
from tagtrace.tagger import Head, HeadOptions, Rows
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.objective import Objective
from tests.strategies import HEADS, LABELS, random_rows, random_theta


@pytest.mark.parametrize("options", HEADS)
def test_logit_space_is_the_chain_rule(options: HeadOptions) -> None:
    rows, head = random_rows(1, (3, 2, 4)), Head(4, LABELS, options).double()
    head.set_flat(random_theta(head))
    space = LogitSpace(head, rows.features.double(), rows.lengths, torch.tensor([2, 1]))
    eye = torch.eye(head.num_parameters, dtype=torch.float64)
    jacobian = torch.stack([space.seen_from(unit.expand(2, -1)) for unit in eye], 2)  # B (G, M, P)
    parts = (Rows(rows.features[:5], rows.labels[:5], rows.lengths[:2]), rows.sentence(2))
    for group, part in enumerate(parts):
        hessian = HessianProduct(Objective(head, part, l2=1e-300), head.flat())(eye) * len(part.lengths)
        found = jacobian[group].T @ space.curvature()[group] @ jacobian[group]
        torch.testing.assert_close(found, hessian, rtol=0, atol=1e-12)
    metric = random_metric(head)
    torch.testing.assert_close(space.gram(metric), jacobian @ metric @ jacobian.mT, rtol=0, atol=1e-10)
    logits = space.gram(metric)[:, 0]
    torch.testing.assert_close(space.gathered(logits), (logits.unsqueeze(1) @ jacobian).squeeze(1), rtol=0, atol=1e-10)


def random_metric(head: Head) -> Tensor:
    """A symmetric positive definite matrix (P, P)."""
    half = torch.stack([random_theta(head, seed) for seed in range(head.num_parameters)])
    return half @ half.T / head.num_parameters
