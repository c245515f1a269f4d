"""The dense Hessian against Hessian products."""

from __future__ import annotations

import pytest
import torch

from tagtrace.influence.curvature import hessian as hessian_module
from tagtrace.influence.curvature.covariance import label_covariances
from tagtrace.influence.curvature.hessian import dense_hessian
from tagtrace.tagger import Head, HeadOptions
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.objective import Objective
from tagtrace.tagger.recursions import ScaledRun
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
    torch.testing.assert_close(dense_hessian(product), product(eye), rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize("scale", [0.5, 12.0])
def test_long_sentences_are_exact_in_bounded_memory(
    options: HeadOptions, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences above the limit take the recursion over tokens; only the pairs of the others are in memory."""
    head = Head(4, LABELS, options)
    product = HessianProduct(
        Objective(head, random_rows(3, (70, 2, 41, 9, 10, 1)), l2=0.01), scale * random_theta(head)
    )
    whole = dense_hessian(product)
    monkeypatch.setattr(hessian_module, "CELLS", 30**2)  # up to 10 tokens of 3 labels
    seen: list[torch.Size] = []

    def recording(sentences: ScaledRun) -> torch.Tensor:
        covariances = label_covariances(sentences)
        seen.append(covariances.shape)
        return covariances

    monkeypatch.setattr(hessian_module, "label_covariances", recording)
    found = dense_hessian(product)
    assert max(shape.numel() for shape in seen) <= 30**2
    assert sum(shape[0] for shape in seen) == 4
    eye = torch.eye(head.num_parameters, dtype=torch.float64)
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-11)
    torch.testing.assert_close(found, product(eye), rtol=0, atol=1e-11)


def test_sure_tokens_are_left_out_and_nothing_is_lost() -> None:
    head = Head(4, LABELS)
    product = HessianProduct(Objective(head, random_rows(2, (6, 4, 9, 5, 7)), l2=1e-3), 12.0 * random_theta(head))
    eye = torch.eye(head.num_parameters, dtype=torch.float64)
    torch.testing.assert_close(dense_hessian(product), product(eye), rtol=0, atol=1e-12)


def test_progress_counts_every_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hessian_module, "CELLS", 200)
    head = Head(4, LABELS)
    product = HessianProduct(Objective(head, random_rows(), l2=0.7), random_theta(head))
    seen: list[tuple[int, int]] = []
    dense_hessian(product, lambda done, total: seen.append((done, total)))
    assert [total for _, total in seen] == [5] * len(seen)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert len(seen) > 1
    assert seen[-1] == (5, 5)
