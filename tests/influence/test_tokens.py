"""The pass over stored tokens against gradients by autograd, and the candidates against their definition."""

from __future__ import annotations

import pytest
import torch

from tagtrace._checks import OptionError
from tagtrace.index import Shard, token_errors
from tagtrace.influence.candidates import candidates
from tagtrace.influence.tokens import TokenPass
from tagtrace.tagger import Head, HeadOptions, crf
from tagtrace.tagger.rows import pad_rows
from tests.strategies import HEADS, LABELS, random_rows, random_theta


@pytest.mark.parametrize("options", HEADS)
def test_products_and_norms_are_those_of_the_gradients(options: HeadOptions) -> None:
    rows, head = random_rows(), Head(4, LABELS, options).double()
    head.set_flat(random_theta(head))
    shard = Shard(rows.features, token_errors(head, rows).float(), rows.labels, rows.lengths, 0, 0)
    directions = torch.stack([random_theta(head, seed) for seed in (5, 6, 7)])
    tokens = candidates(rows, LABELS, "token")
    scores = head(rows.features.double(), rows.lengths)
    losses = crf.conditional_loss(scores, pad_rows(rows.labels, rows.lengths), tokens)
    gradients = []
    for loss in losses:
        parts = torch.autograd.grad(loss, list(head.parameters()), retain_graph=True, allow_unused=True)
        dense = [torch.zeros_like(p) if g is None else g for g, p in zip(parts, head.parameters(), strict=True)]
        gradients.append(torch.cat([part.flatten() for part in dense]))
    dense = torch.stack(gradients)  # (n, P)
    found = TokenPass(head, shard)
    torch.testing.assert_close(found.products(directions).double(), directions @ dense.T, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.norms().double(), dense.norm(dim=1), rtol=1e-5, atol=1e-5)


def test_candidates() -> None:
    rows = random_rows(0, (3, 1))
    rows.labels[:] = torch.tensor([1, 2, 0, 1])  # B-X I-X O | B-X
    assert candidates(rows, LABELS, "token").tolist() == [[0, 0, 1], [0, 1, 2], [0, 2, 3], [1, 0, 1]]
    assert candidates(rows, LABELS, "entity").tolist() == [[0, 0, 2], [1, 0, 1]]
    assert candidates(rows, LABELS, "chain").tolist() == [[0, 0, 3], [1, 0, 1]]
    two = candidates(rows, LABELS, "segment", max_length=2).tolist()
    assert two == [[0, 0, 1], [0, 0, 2], [0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 0, 1]]
    with pytest.raises(OptionError, match="expected one of"):
        candidates(rows, LABELS, "word")  # type: ignore[arg-type]
