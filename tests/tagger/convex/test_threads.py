"""Work that is shared by threads, and shared again inside them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tagtrace.tagger import Head
from tagtrace.tagger.convex import objective as objective_module
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.nearby import nearby_gradients
from tagtrace.tagger.convex.objective import Objective
from tagtrace.tagger.convex.threads import alone, share
from tests.strategies import LABELS, random_rows, random_theta


@pytest.fixture
def threads() -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield 3
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_every_number_is_worked_on_once_also_inside_a_thread() -> None:
    def work(some: range) -> list[int]:
        assert not torch.is_grad_enabled()
        return [n for part in share(lambda part: [*part], len(some)) for n in (some[place] for place in part)]

    parts = share(work, 10)
    assert len(parts) == 3
    assert [n for part in parts for n in part] == list(range(10))


def test_on_a_gpu_one_thread_does_everything(threads: int) -> None:
    assert share(len, 10, is_cuda=True) == [10]
    assert len(share(len, 10)) == threads


def test_alone_torch_has_one_thread_and_share_those_of_the_caller(threads: int) -> None:
    def work() -> tuple[int, int, bool]:
        assert alone(lambda: len(share(len, 12))) == threads, "also inside"
        return torch.get_num_threads(), len(share(len, 12)), torch.is_grad_enabled()

    assert alone(work) == (1, threads, False)
    assert torch.get_num_threads() == threads
    assert torch.is_grad_enabled()
    with ThreadPoolExecutor(1) as other:
        assert other.submit(torch.get_num_threads).result() == threads, "new threads are not affected"


def test_alone_raises_what_was_raised() -> None:
    def work() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        alone(work)


def test_threads_change_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objective_module, "CHUNK", 12)
    head = Head(4, LABELS)
    theta, vectors = random_theta(head), torch.stack([random_theta(head, seed) for seed in range(9)])

    def results() -> list[torch.Tensor]:
        objective = Objective(head, random_rows(3, (7, 2, 11, 9, 1, 5)), l2=0.1)
        where = objective.evaluate(theta)
        return [where.gradient, HessianProduct(objective, where)(vectors), nearby_gradients(objective, where, vectors)]

    alone = results()
    torch.set_num_threads(3)
    try:
        together = results()
    finally:
        torch.set_num_threads(1)
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


def test_threads_may_evaluate_one_objective_at_different_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objective_module, "CHUNK", 12)
    head = Head(4, LABELS)
    objective = Objective(head, random_rows(), l2=0.7)
    places = [random_theta(head) * number for number in range(1, 9)]
    expected = [objective.evaluate(theta) for theta in places]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for found, one in zip(pool.map(objective.evaluate, places), expected, strict=True):
                assert found.value == pytest.approx(one.value, rel=1e-12)
                torch.testing.assert_close(found.gradient, one.gradient)
