"""Norms and self-influences of segments and documents against dense gradients and dense inverses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tagtrace.influence import Candidates, gradient_norms, self_influence
from tagtrace.influence.curvature.operators import Hessian, Identity, Kronecker, Operator
from tagtrace.influence.curvature.solvers import Cholesky, ConjugateGradient, Direct, Solver
from tagtrace.influence.scoring import factors
from tagtrace.influence.scoring.factors import factor_parts, sentence_parts
from tagtrace.influence.scoring.norms import feature_norms
from tagtrace.tagger import Head, HeadOptions, Rows
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.objective import Objective
from tests.influence.dense import segment_gradients
from tests.strategies import HEADS, LABELS, random_rows, random_theta

OPERATORS: dict[str, Callable[[HessianProduct], Operator]] = {
    "identity": lambda product: Identity(product.head.num_parameters, 0.3),
    "kronecker": lambda product: Kronecker(product, 0.2),
    "dense": lambda product: Hessian(product, 0.1),
    "cg": Hessian,
}


def solver_of(name: str, operator: Operator) -> Solver:
    if isinstance(operator, Identity | Kronecker):
        return Direct(operator)
    return Cholesky(operator) if name == "dense" else ConjugateGradient(operator, tolerance=1e-12)


def every_segment(rows: Rows) -> Tensor:
    lengths = enumerate(rows.lengths.tolist())
    return torch.tensor([(i, a, b) for i, n in lengths for a in range(n) for b in range(a + 1, n + 1)])


def two_documents(rows: Rows) -> Candidates:
    """Sentences 0, 3 and 4 make one document, 1 and 2 another."""
    sentences = torch.arange(len(rows.lengths))
    whole = torch.stack([sentences, torch.zeros_like(sentences), rows.lengths], 1)
    return Candidates(whole, "document", torch.tensor([0, 1, 1, 0, 0]), ("first", "second"))


def wild_head(options: HeadOptions) -> Head:
    head = Head(4, LABELS, options).double()
    head.set_flat(random_theta(head))
    return head


@pytest.fixture(params=["segment", "document"])
def candidates(request: pytest.FixtureRequest) -> Candidates:
    return Candidates(every_segment(random_rows())) if request.param == "segment" else two_documents(random_rows())


def dense(head: Head, rows: Rows, candidates: Candidates) -> Tensor:
    """(K, P)"""
    gradients = segment_gradients(head, rows, candidates.segments)
    if candidates.owner is None:
        return gradients
    return torch.stack([gradients[candidates.owner == number].sum(0) for number in range(len(candidates))])


@pytest.mark.parametrize("options", HEADS)
def test_factors_are_the_gradients(options: HeadOptions) -> None:
    rows, head = random_rows(), wild_head(options)
    segments = every_segment(rows)
    found = torch.empty(len(segments), head.num_parameters, dtype=torch.float64)
    for places, part in factor_parts(head, rows, segments):
        found[places] = part.dense()
    torch.testing.assert_close(found, segment_gradients(head, rows, segments), rtol=0, atol=1e-10)


@pytest.mark.parametrize("options", HEADS)
def test_norms_are_those_of_the_gradients(options: HeadOptions, candidates: Candidates) -> None:
    rows, head = random_rows(), wild_head(options)
    expected = dense(head, rows, candidates).norm(dim=1)
    torch.testing.assert_close(gradient_norms(head, rows, candidates), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize("name", OPERATORS)
def test_self_influence_is_g_k_inverse_g(name: str, options: HeadOptions, candidates: Candidates) -> None:
    rows, head = random_rows(), wild_head(options)
    operator = OPERATORS[name](HessianProduct(Objective(head, rows, l2=0.7), head.flat()))
    solver = solver_of(name, operator)
    gradients = dense(head, rows, candidates)
    expected = (gradients * torch.linalg.solve(operator.dense(), gradients.T).T).sum(1)
    found = self_influence(head, rows, candidates, solver)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)
    if candidates.owner is None:
        torch.testing.assert_close(self_influence(head, rows, candidates.segments[3:9], solver), found[3:9])


def test_the_parts_change_nothing(candidates: Candidates, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, head = random_rows(), wild_head(HeadOptions(start_end=True))
    solver = Cholesky(Hessian(HessianProduct(Objective(head, rows, l2=0.7), head.flat())))
    whole = gradient_norms(head, rows, candidates), self_influence(head, rows, candidates, solver)
    means = feature_norms(rows, candidates, 4)
    for name, value in (("CELLS", 100), ("MAX_TOKENS", 6)):
        monkeypatch.setattr(factors, name, value)
    shuffled = torch.randperm(len(candidates), generator=torch.Generator().manual_seed(0))
    parts = candidates.select(shuffled)
    torch.testing.assert_close(gradient_norms(head, rows, parts), whole[0][shuffled])
    torch.testing.assert_close(self_influence(head, rows, parts, solver), whole[1][shuffled])
    torch.testing.assert_close(feature_norms(rows, parts, 4), means[shuffled])


def test_one_long_sentence_leaves_the_other_parts_large() -> None:
    lengths = torch.tensor([12] * 100 + [900] + [12] * 100)
    rows = Rows(torch.zeros(int(lengths.sum()), 255), torch.zeros(int(lengths.sum()), dtype=torch.long), lengths)
    whole = torch.stack([torch.arange(201), torch.zeros_like(lengths), lengths], 1)
    parts = [(places, sentences) for places, sentences, _ in sentence_parts(rows, whole, 256)]
    assert sorted(torch.cat([places for places, _ in parts]).tolist()) == list(range(201))
    assert len(parts) <= 4
    for places, sentences in parts:
        assert len(places) * int(sentences.lengths.max()) * 256 <= factors.CELLS
        assert len(sentences.lengths) * int(sentences.lengths.max()) <= factors.MAX_PADDED


@pytest.mark.parametrize(("cells", "most"), [(60, 4), (10**6, 1000)])
def test_parts_hold_no_more_than_they_may(cells: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("CELLS", cells), ("MAX_TOKENS", 9), ("MAX_PADDED", 12)):
        monkeypatch.setattr(factors, name, value)
    rows = random_rows()
    segments = every_segment(rows).flip(0)
    seen = []
    for places, sentences, local in sentence_parts(rows, segments, 3, most):
        longest = int((local[:, 2] - local[:, 1]).max())
        assert len(places) == 1 or len(places) * longest * 3 <= cells
        assert len(places) <= most
        assert len(sentences.lengths) == 1 or int(sentences.lengths.sum()) <= 9
        assert len(sentences.lengths) == 1 or len(sentences.lengths) * int(sentences.lengths.max()) <= 12
        starts = rows.lengths.cumsum(0) - rows.lengths
        for place, (number, start, stop) in zip(places.tolist(), local.tolist(), strict=True):
            first = int(sentences.lengths[:number].sum())
            row = int(starts[segments[place, 0]])
            assert segments[place, 1:].tolist() == [start, stop]
            assert torch.equal(sentences.features[first].float(), rows.features[row])
        seen += places.tolist()
    assert sorted(seen) == list(range(len(segments)))


def test_feature_norms_are_those_of_the_means(candidates: Candidates) -> None:
    rows = random_rows()
    starts = rows.lengths.cumsum(0) - rows.lengths
    expected = []
    for number in range(len(candidates)):
        parts = candidates.parts(number)
        tokens = [
            rows.features[starts[sentence_number] + start : starts[sentence_number] + stop]
            for sentence_number, start, stop in parts
        ]
        expected.append(torch.cat(tokens).double().mean(0).norm())
    torch.testing.assert_close(feature_norms(rows, candidates, 4), torch.stack(expected))


def test_a_sure_segment_keeps_its_direction() -> None:
    """Where p(y) rounds to 1 the errors are still exact, so that a cosine is of gradients and not of rounding."""
    rows, head = random_rows(3, (4,)), Head(4, LABELS).double()
    head.set_flat(torch.zeros_like(head.flat()))
    with torch.no_grad():
        head.weight[:, -1] = torch.tensor([0.0, -50.0, -52.0], dtype=torch.float64)
    rows.labels[:] = 0
    segments = torch.tensor([[0, 1, 3]])
    ((_, found),) = factor_parts(head, rows, segments)
    others = torch.tensor([-50.0, -52.0], dtype=torch.float64).exp()
    expected = torch.tensor([-float(others.sum()), *others.tolist()], dtype=torch.float64)
    torch.testing.assert_close(found.errors[0], expected.expand(2, 3), rtol=1e-10, atol=0)
    assert float(found.others["transitions"][0, 0, 0]) == pytest.approx(-4 * float(others.sum()), rel=1e-10)
