"""The gradient of a query's loss: against autograd, and where its labels are so sure that p rounds to 1."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from tagtrace.index import Shard, token_errors
from tagtrace.influence import Candidates, Query
from tagtrace.influence.scoring.scorer import Scorer
from tagtrace.influence.scoring.token_pass import TokenPass
from tagtrace.tagger import Head, HeadOptions, Rows
from tests.strategies import HEADS, LABELS, random_rows, random_theta


def sure_head(margin: float) -> Head:
    """A softmax head under which every token is label 0, by ``margin`` and ``margin + 1``."""
    head = Head(4, LABELS, HeadOptions("softmax")).double()
    head.set_flat(torch.zeros_like(head.flat()))
    with torch.no_grad():
        head.weight[:, -1] = torch.tensor([0.0, -margin, -margin - 1.0], dtype=torch.float64)
    return head


def sure_rows() -> Rows:
    rows = random_rows(3, (4,))
    return Rows(rows.features.double(), torch.zeros_like(rows.labels), rows.lengths)


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize(("start", "stop"), [(0, 1), (3, 4), (2, 5), (0, 8), (6, 8)])
def test_the_gradient_is_that_of_the_loss(options: HeadOptions, start: int, stop: int) -> None:
    head = Head(4, LABELS, options).double()
    head.set_flat(random_theta(head))
    rows = random_rows(2, (8,))
    query = Query(rows.features, rows.labels, start, stop)
    expected = torch.cat([part.flatten() for part in torch.autograd.grad(query.loss(head), list(head.parameters()))])
    torch.testing.assert_close(query.gradient(head), expected, rtol=0, atol=1e-12)
    assert float(expected.norm()) > 1e-3
    single = query.gradient(head.float())
    assert single.dtype == torch.float64
    torch.testing.assert_close(single, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("margin", [5.0, 37.0, 100.0, 290.0])
def test_a_sure_query_keeps_its_direction(margin: float) -> None:
    rows = sure_rows()
    found = Query(rows.features, rows.labels, 1, 2).gradient(sure_head(margin))
    others = torch.tensor([-margin, -margin - 1.0], dtype=torch.float64).exp()
    errors = torch.cat([-others.sum().unsqueeze(0), others]) / (1.0 + others.sum())
    expected = torch.outer(errors, torch.cat([rows.features[1], rows.features.new_ones(1)])).flatten()
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("margin", [20.0, 37.0, 60.0])
def test_a_sure_token_is_most_like_itself(margin: float) -> None:
    """The product of two gradients of 1e-26 is nothing in float32."""
    rows, head = sure_rows(), sure_head(margin)
    shard = Shard(rows.features, token_errors(head, rows).float(), rows.labels, rows.lengths, 0, 0)
    segments = torch.tensor([(0, t, t + 1) for t in range(4)])

    def never() -> object:
        raise AssertionError("a cosine needs no curvature")

    index = SimpleNamespace(head=head, num_sentences=1)
    scorer = Scorer(index, Candidates(segments, "token"), [TokenPass(head, shard)], never, never)  # type: ignore[arg-type]
    _, values = scorer.score(Query(rows.features, rows.labels, 1, 2), "cosine", torch.arange(4), 4)
    torch.testing.assert_close(values, _cosines(rows.features), rtol=0, atol=1e-5)


def _cosines(features: Tensor) -> Tensor:
    """The errors are all alike, so the cosines are those of the features with 1 at their end."""
    extended = torch.cat([features, features.new_ones(len(features), 1)], 1)
    return torch.cosine_similarity(extended, extended[1:2])
