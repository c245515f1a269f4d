"""The pass over stored tokens against gradients by autograd."""

from __future__ import annotations

import os
import signal

import pytest
import torch

from tagtrace.data import LabelSet
from tagtrace.index import Shard, token_errors
from tagtrace.influence.scoring.candidates import find_segments
from tagtrace.influence.scoring.token_pass import TokenPass
from tagtrace.tagger import Head, HeadOptions, Rows
from tagtrace.tagger.convex import products, threads
from tests.influence.dense import segment_gradients
from tests.strategies import HEADS, LABELS, random_rows, random_theta


@pytest.mark.parametrize("options", HEADS)
def test_products_and_norms_are_those_of_the_gradients(options: HeadOptions) -> None:
    rows, head = random_rows(), Head(4, LABELS, options).double()
    head.set_flat(random_theta(head))
    shard = Shard(rows.features, token_errors(head, rows).float(), rows.labels, rows.lengths, 0, 0)
    directions = torch.stack([random_theta(head, seed) for seed in (5, 6, 7)])
    dense = segment_gradients(head, rows, find_segments(rows, LABELS, "token"))  # (n, P)
    found = TokenPass(head, shard)
    torch.testing.assert_close(found.products(directions).double(), directions @ dense.T, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.norms(), dense.norm(dim=1), rtol=1e-5, atol=1e-5)
    mean = torch.tensor([0.5, -1.0, 2.0, 0.25])
    torch.testing.assert_close(found.feature_products(mean), rows.features @ mean)
    torch.testing.assert_close(found.feature_norms, rows.features.norm(dim=1))


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize("num_directions", [1, 30])
@pytest.mark.parametrize("compiled", [True, False])
def test_in_double_precision_they_are_exact(
    options: HeadOptions, num_directions: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "USE_LOOPS", compiled)
    rows, head = random_rows(4, (9, 1, 30, 2)), Head(4, LABELS, options).double()
    head.set_flat(random_theta(head))
    features = rows.features.double()
    errors = token_errors(head, Rows(features, rows.labels, rows.lengths))
    directions = torch.stack([random_theta(head, seed) for seed in range(num_directions)])
    dense = segment_gradients(head, rows, find_segments(rows, LABELS, "token"))  # (n, P)
    found = TokenPass(head, Shard(features, errors, rows.labels, rows.lengths, 0, 0), torch.float64)
    torch.testing.assert_close(found.products(directions), directions @ dense.T, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.norms(), dense.norm(dim=1), rtol=0, atol=1e-12)
    torch.testing.assert_close(found.feature_norms, features.norm(dim=1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", HEADS)
def test_products_of_pairs_of_tokens_are_those_of_their_gradients(options: HeadOptions) -> None:
    head = Head(4, LABELS, options).double()
    head.set_flat(random_theta(head))
    passes, dense = [], []
    for seed, lengths in ((4, (9, 1, 30, 2)), (5, (3, 1, 12))):
        rows = random_rows(seed, lengths)
        rows = Rows(rows.features.double(), rows.labels, rows.lengths)
        shard = Shard(rows.features, token_errors(head, rows), rows.labels, rows.lengths, 0, 0)
        passes.append(TokenPass(head, shard, torch.float64))
        dense.append(segment_gradients(head, rows, find_segments(rows, LABELS, "token")))  # (n, P)
    tokens, sizes = torch.tensor([15, 0, 3, 7, 2, 1]), torch.linspace(-2.5, 3.0, 6, dtype=torch.float64)
    found = passes[0].pair_products(passes[1], tokens, sizes)
    torch.testing.assert_close(found, (dense[1][tokens] / sizes.unsqueeze(1)) @ dense[0].T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["crf", "softmax"])
def test_one_label_teaches_nothing(kind: str) -> None:
    rows = random_rows(0, (3, 2))
    head = Head(4, LabelSet(("N",), "plain"), HeadOptions(kind)).double()  # type: ignore[arg-type]
    shard = Shard(rows.features, torch.zeros(5, 1), torch.zeros(5, dtype=torch.long), rows.lengths, 0, 0)
    found = TokenPass(head, shard)
    assert found.products(torch.stack([random_theta(head, 1), random_theta(head, 2)])).tolist() == [[0.0] * 5] * 2
    assert found.norms().tolist() == [0.0] * 5


@pytest.mark.parametrize("num_threads", [1, 2, 3])
@pytest.mark.parametrize("num_directions", [1, 40])
def test_products_do_not_depend_on_threads(num_threads: int, num_directions: int) -> None:
    rows, head = random_rows(1, (90, 1, 300, 17, 25)), Head(4, LABELS, HEADS[0]).double()
    shard = Shard(rows.features.half(), token_errors(head, rows).float(), rows.labels, rows.lengths, 0, 0)
    directions = torch.stack([random_theta(head, seed) for seed in range(num_directions)])
    whole = TokenPass(head, shard).products(directions)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(num_threads)
        found = TokenPass(head, shard).products(directions)
        assert torch.get_num_threads() == num_threads
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(found, whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("num_threads", [2, 5])
def test_every_worker_computes_by_itself(num_threads: int) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(num_threads)
        pool = threads._pool.__wrapped__(threads.WORKER, num_threads, os.getpid())
        assert torch.get_num_threads() == num_threads
        assert len(pool._threads) == num_threads, "all have started, before the setting was put back"
        pool.shutdown()
    finally:
        torch.set_num_threads(before)


def test_a_forked_process_has_workers_of_its_own() -> None:
    rows, head = random_rows(1, (90,)), Head(4, LABELS, HEADS[0]).double()
    shard = Shard(rows.features, token_errors(head, rows).float(), rows.labels, rows.lengths, 0, 0)
    directions, before = random_theta(head).unsqueeze(0), torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        expected = TokenPass(head, shard).products(directions)
        child = os.fork()
        if child == 0:
            signal.alarm(30)  # the parent's threads do not exist here: waiting for them never ends
            os._exit(0 if torch.equal(TokenPass(head, shard).products(directions), expected) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        torch.set_num_threads(before)


def test_the_norm_of_a_sure_token_does_not_underflow() -> None:
    rows, head = random_rows(0, (1,)), Head(4, LABELS, HeadOptions("softmax")).double()
    errors = torch.tensor([[-3e-24, 1e-24, 2e-24]])
    found = TokenPass(head, Shard(rows.features, errors, rows.labels, rows.lengths, 0, 0)).norms()
    expected = 14.0**0.5 * 1e-24 * (float(rows.features.double().square().sum()) + 1.0) ** 0.5
    assert float(found) == pytest.approx(expected, rel=1e-5)
