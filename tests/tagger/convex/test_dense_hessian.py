"""The dense Hessian against Hessian products."""

from __future__ import annotations

import pytest
import torch

from tagtrace.tagger import Head, HeadOptions
from tagtrace.tagger.convex import coarse_inverse as coarse_module
from tagtrace.tagger.convex import dense_hessian as hessian_module
from tagtrace.tagger.convex import hessian_product as product_module
from tagtrace.tagger.convex import objective as objective_module
from tagtrace.tagger.convex import products
from tagtrace.tagger.convex.block_cg import block_cg
from tagtrace.tagger.convex.coarse_inverse import CoarseInverse, factor_in_place
from tagtrace.tagger.convex.dense_hessian import Precision, dense_hessian
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.objective import Objective
from tagtrace.tagger.convex.preconditioner import balanced_kronecker
from tests.strategies import HEADS, LABELS, random_rows, random_theta


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize("size", [1, 3, 10**6])
def test_dense_hessian_equals_hessian_products(
    options: HeadOptions, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BLOCK", "STRIPE"):
        monkeypatch.setattr(hessian_module, name, size)
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


@pytest.mark.parametrize("options", HEADS)
def test_small_weights_in_float32_change_little(options: HeadOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    head = Head(4, LABELS, options)
    product = HessianProduct(Objective(head, random_rows(3, (70, 2, 41)), l2=0.01), 4.0 * random_theta(head))
    expected = dense_hessian(product)
    monkeypatch.setattr(hessian_module, "EXACT_SMALL", Precision(1e-9, 1e-2))
    torch.testing.assert_close(dense_hessian(product), expected, rtol=0, atol=1e-6)


def test_a_coarse_matrix_preconditions_well() -> None:
    head = Head(4, LABELS)
    product = HessianProduct(Objective(head, random_rows(4, (30, 12, 25) * 6), l2=0.01), 8.0 * random_theta(head))
    right = torch.randn(3, head.num_parameters, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    coarse, plain = (
        block_cg(product, precondition, right, 1e-8).num_steps
        for precondition in (CoarseInverse(product), balanced_kronecker(product))
    )
    assert coarse < plain


@pytest.mark.parametrize("options", HEADS)
def test_a_coarse_inverse_without_omissions_is_the_inverse(
    options: HeadOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CERTAIN", "CERTAIN_ALONE"):
        monkeypatch.setattr(coarse_module, name, 1e-12)
    monkeypatch.setattr(coarse_module, "ROUNDING", 0.0)
    head = Head(4, LABELS, options)
    product = HessianProduct(Objective(head, random_rows(), l2=0.7), random_theta(head))
    eye = torch.eye(head.num_parameters, dtype=torch.float64)
    expected = torch.linalg.inv(product(eye) + 0.2 * eye)
    torch.testing.assert_close(CoarseInverse(product, 0.2)(eye), expected, rtol=0, atol=1e-5)


def test_a_matrix_that_is_not_positive_definite_is_refused() -> None:
    with pytest.raises(ValueError, match="not positive definite"):
        factor_in_place([-torch.eye(5)[:, :3], -torch.eye(2)])


def test_sure_tokens_are_left_out_and_nothing_is_lost() -> None:
    head = Head(4, LABELS)
    product = HessianProduct(Objective(head, random_rows(2, (6, 4, 9, 5, 7)), l2=1e-3), 12.0 * random_theta(head))
    eye = torch.eye(head.num_parameters, dtype=torch.float64)
    torch.testing.assert_close(dense_hessian(product), product(eye), rtol=0, atol=1e-11)


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize("count", [1, 30])
@pytest.mark.parametrize("most", [0.0, 2.0])
def test_large_data_are_multiplied_in_two_precisions(
    options: HeadOptions, count: int, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels of small variance in float32, one label at a time or together, in several chunks: the same products."""
    monkeypatch.setattr(objective_module, "CHUNK", 40)
    monkeypatch.setattr(product_module, "MOST", most)
    head = Head(4, LABELS, options)
    objective = Objective(head, random_rows(3, (70, 2, 41, 9, 1)), l2=0.01)
    where = objective.evaluate(3.0 * random_theta(head))
    vectors = torch.randn(count, head.num_parameters, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = HessianProduct(objective, where)(vectors)
    monkeypatch.setattr(product_module, "SMALL", 0)
    found = HessianProduct(objective, where)
    assert {some.dtype for block in found.blocks for some in block.moving(count)} == {torch.float32, torch.float64}
    scale = float(expected.abs().max())
    torch.testing.assert_close(found(vectors), expected, rtol=0, atol=1e-7 * scale)
    rough = HessianProduct(objective, where, torch.float32, 1e-7)
    torch.testing.assert_close(rough(vectors), expected, rtol=0, atol=5e-3 * scale)


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
