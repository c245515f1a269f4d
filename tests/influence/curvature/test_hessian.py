"""The dense Hessian against Hessian products."""

from __future__ import annotations

import pytest
import torch

from tagtrace.influence.curvature import hessian as hessian_module
from tagtrace.influence.curvature.hessian import dense_hessian
from tagtrace.influence.curvature.operators import Hessian
from tagtrace.tagger import Head, HeadOptions
from tagtrace.tagger.convex import objective as objective_module
from tagtrace.tagger.convex import products
from tagtrace.tagger.convex.block_cg import block_cg
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.objective import Objective
from tests.strategies import HEADS, LABELS, random_rows, random_theta


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize("cells", [1, 200, 10**6])
def test_dense_hessian_equals_hessian_products(
    options: HeadOptions, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hessian_module, "CELLS", cells)
    head = Head(4, LABELS, options)
    product = HessianProduct(Objective(head, random_rows(), l2=0.7), random_theta(head))
    eye = torch.eye(head.num_parameters, dtype=torch.float64)
    torch.testing.assert_close(dense_hessian(product), product(eye), rtol=0, atol=1e-11)


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize("scale", [0.5, 12.0])
@pytest.mark.parametrize("compiled", [True, False])
def test_long_sentences_are_exact(
    options: HeadOptions, scale: float, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few pairs of tokens are added together."""
    monkeypatch.setattr(products, "USE_LOOPS", compiled)
    head = Head(4, LABELS, options)
    rows = random_rows(3, (70, 2, 41, 9, 10, 1))
    product = HessianProduct(Objective(head, rows, l2=0.01), scale * random_theta(head))
    whole = dense_hessian(product)
    monkeypatch.setattr(hessian_module, "WAITING", 7)
    found = dense_hessian(product)
    eye = torch.eye(head.num_parameters, dtype=torch.float64)
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-11)
    torch.testing.assert_close(found, product(eye), rtol=0, atol=1e-11)


def test_a_coarse_matrix_preconditions_well() -> None:
    head = Head(4, LABELS)
    product = HessianProduct(Objective(head, random_rows(4, (30, 12, 25) * 6), l2=0.1), 4.0 * random_theta(head))
    hessian = Hessian(product)
    right = torch.randn(3, hessian.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    coarse, plain = (
        block_cg(hessian, precondition, right, 1e-8).num_steps
        for precondition in (hessian.coarse_inverse(), hessian.preconditioner)
    )
    assert coarse < plain


def test_sure_tokens_are_left_out_and_nothing_is_lost() -> None:
    head = Head(4, LABELS)
    product = HessianProduct(Objective(head, random_rows(2, (6, 4, 9, 5, 7)), l2=1e-3), 12.0 * random_theta(head))
    eye = torch.eye(head.num_parameters, dtype=torch.float64)
    torch.testing.assert_close(dense_hessian(product), product(eye), rtol=0, atol=1e-11)


def test_progress_counts_every_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objective_module, "CHUNK", 4)
    head = Head(4, LABELS)
    product = HessianProduct(Objective(head, random_rows(), l2=0.7), random_theta(head))
    seen: list[tuple[int, int]] = []
    dense_hessian(product, lambda done, total: seen.append((done, total)))
    assert [total for _, total in seen] == [5] * len(seen)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert len(seen) > 1
    assert seen[-1] == (5, 5)
