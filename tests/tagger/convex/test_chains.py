"""Every kind of chain against the padded recursions, and chains in which certain tokens do not move."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tagtrace.tagger import Head, HeadOptions
from tagtrace.tagger.convex import products
from tagtrace.tagger.convex.chains import (
    SAFE_SINGLE,
    CompiledChain,
    Directions,
    Independent,
    PaddedChain,
    make_chain,
)
from tests.strategies import HEADS, LABELS, random_theta

LENGTHS = torch.tensor([5, 1, 8, 2, 3])
C, Q = 3, 4


def wild(options: HeadOptions) -> Head:
    head = Head(4, LABELS, options).double()
    head.set_flat(random_theta(head))
    return head


def emissions(scale: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return scale * torch.randn(int(LENGTHS.sum()), C, generator=generator, dtype=torch.float64)


def directions(count: int) -> tuple[Tensor, Directions]:
    generator = torch.Generator().manual_seed(4)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, count, generator=generator, dtype=torch.float64)

    return draw(int(LENGTHS.sum()), C), Directions(draw(C, C), draw(C), draw(C))


def padded(head: Head, given: Tensor) -> PaddedChain:
    edges, start, end = (part.detach().double() for part in head.edge_scores())
    return PaddedChain((edges, start, end), given, LENGTHS)


@pytest.mark.parametrize("options", [one for one in HEADS if one.kind == "crf"])
@pytest.mark.parametrize("count", [1, Q])
@pytest.mark.parametrize(("dtype", "precision"), [(torch.float64, 1e-12), (torch.float32, 1e-4)])
def test_compiled_chains_are_the_padded_ones(
    options: HeadOptions, count: int, dtype: torch.dtype, precision: float
) -> None:
    head, (moved, given) = wild(options), directions(count)
    found, expected = make_chain(head, emissions(), LENGTHS), padded(head, emissions())
    assert isinstance(found, CompiledChain)
    torch.testing.assert_close(found.nodes, expected.nodes, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.log_z, expected.log_z, rtol=0, atol=1e-11)
    torch.testing.assert_close(found.edge_sum(), expected.edge_sum(), rtol=0, atol=1e-12)
    left, right, matrix = found.edge_factors()
    theirs = expected.edge_factors()
    inside = torch.ones(len(left), dtype=torch.bool)
    inside[found.first_rows] = False
    ours = (left.roll(1, 0).unsqueeze(2) * matrix * right.unsqueeze(1))[inside]
    other = (theirs[0].roll(1, 0).unsqueeze(2) * theirs[2] * theirs[1].unsqueeze(1))[inside]
    torch.testing.assert_close(ours, other, rtol=0, atol=1e-12)
    one, two = found.tangent(moved.to(dtype, copy=True), given), expected.tangent(moved.clone(), given)
    for name in ("nodes", "edges", "first", "last"):
        torch.testing.assert_close(getattr(one, name).double(), getattr(two, name), rtol=0, atol=precision)


def test_independent_tokens_are_a_chain_without_edges() -> None:
    head, (moved, given) = wild(HeadOptions("softmax")), directions(Q)
    found, expected = make_chain(head, emissions(), LENGTHS), padded(head, emissions())
    assert isinstance(found, Independent)
    still = Directions(*(torch.zeros_like(part) for part in (given.edges, given.start, given.end)))
    torch.testing.assert_close(found.nodes, expected.nodes, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.log_z, expected.log_z, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        found.tangent(moved.clone(), given).nodes, expected.tangent(moved.clone(), still).nodes, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("count", [1, Q])
def test_certain_tokens_can_be_left_out(
    options: HeadOptions, compiled: bool, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens 2 of the first sentence, 0, 3, 4 and 7 of the third, and the whole of the second are certain."""
    monkeypatch.setattr(products, "USE_LOOPS", compiled)
    head, (moved, given) = wild(options), directions(count)
    sure = torch.zeros(len(moved), dtype=torch.bool)
    sure[[2, 5, 6, 9, 10, 13]] = True
    logits = emissions()
    logits[sure] = torch.tensor([60.0, 0.0, 0.0], dtype=torch.float64)
    whole = make_chain(head, logits, LENGTHS)
    expected = whole.tangent(moved.clone(), given)
    chain, places, rows = whole.restricted(~sure, torch.float64)
    assert rows.tolist() == (~sure).nonzero().squeeze(1).tolist()
    part = moved.new_zeros(len(chain.nodes), C, count)
    part[slice(None) if places is None else places] = moved[rows]
    found = chain.tangent(part.clone(), given)
    nodes = found.nodes if places is None else found.nodes[places]
    torch.testing.assert_close(nodes, expected.nodes[rows], rtol=0, atol=1e-9)
    for name in ("edges", "first", "last"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-9)
    assert len(chain.nodes) < len(moved)


@pytest.mark.parametrize("compiled", [True, False])
def test_scores_that_are_far_apart_have_the_marginals_of_the_log_space(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "USE_LOOPS", compiled)
    head = wild(HeadOptions())
    found, expected = make_chain(head, emissions(400.0), LENGTHS), padded(head, emissions(400.0))
    assert found.is_scaled
    assert not expected.is_scaled
    torch.testing.assert_close(found.nodes, expected.nodes, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.log_z, expected.log_z, rtol=1e-14, atol=0)
    torch.testing.assert_close(found.edge_sum(), expected.edge_sum(), rtol=0, atol=1e-11)


@pytest.mark.parametrize("compiled", [True, False])
def test_scores_that_are_needed_though_far_below_others_take_the_log_space(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the label that is 700 below the likeliest may come before the next one: it must not be raised."""
    monkeypatch.setattr(products, "USE_LOOPS", compiled)
    head = Head(4, LABELS, HeadOptions(constrained=True)).double()  # O, B, I; no I after O
    head.set_flat(torch.zeros(head.num_parameters, dtype=torch.float64))
    given = torch.tensor([[0.0, -700.0, -700.0], [-torch.inf, -torch.inf, 0.0]], dtype=torch.float64)
    found = make_chain(head, given, torch.tensor([2]))
    assert not found.is_scaled
    torch.testing.assert_close(found.nodes[0], torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64))
    assert float(found.log_z[0]) == pytest.approx(-700.0)


@pytest.mark.parametrize("compiled", [True, False])
def test_two_poor_steps_in_a_row_do_not_hide_a_raised_label(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """No step keeps too little alone, but the only likely path goes through labels 600 and 400 below others."""
    monkeypatch.setattr(products, "USE_LOOPS", compiled)
    head = Head(4, LABELS, HeadOptions(constrained=True)).double()  # no I after O
    head.set_flat(torch.zeros(head.num_parameters, dtype=torch.float64))
    given = torch.tensor([[0.0, -600.0, -600.0], [-115.0, -400.0, 0.0], [-250.0, -250.0, 0.0]], dtype=torch.float64)
    lengths = torch.tensor([3])
    found, expected = make_chain(head, given, lengths), _log_space(head, given, lengths)
    torch.testing.assert_close(found.log_z, expected.log_z, rtol=1e-12, atol=0)
    torch.testing.assert_close(found.nodes, expected.nodes, rtol=0, atol=1e-12)


def _log_space(head: Head, given: Tensor, lengths: Tensor) -> PaddedChain:
    edges, start, end = (part.detach().double() for part in head.edge_scores())
    found = PaddedChain((edges, start, end), given, lengths)
    assert not found.is_scaled
    return found


@pytest.mark.parametrize("count", [1, Q])
def test_improbable_labels_do_not_spoil_a_tangent(count: int) -> None:
    """A label that is forbidden after the only probable one is then certain: its sums are far below 1e-30."""
    edges, nothing = torch.zeros(C, C, dtype=torch.float64), torch.zeros(C, dtype=torch.float64)
    edges[0, 2] = -torch.inf
    given = torch.tensor([[0.0, -100.0, -100.0], [0.0, 0.0, 100.0], [0.0, 1.0, 0.0]], dtype=torch.float64)
    tables, lengths = (edges, nothing, nothing), torch.tensor([3])
    moved, along = directions(count)
    found, expected = (kind(tables, given, lengths) for kind in (CompiledChain, PaddedChain))
    assert 0 < found.smallest < SAFE_SINGLE
    one, two = (chain.tangent(moved[:3].clone(), along) for chain in (found, expected))
    for name in ("nodes", "edges", "first", "last"):
        torch.testing.assert_close(getattr(one, name), getattr(two, name), rtol=0, atol=1e-9)
