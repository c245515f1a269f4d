"""The curvature of an index by name: every exact kind against a dense solve."""

from __future__ import annotations

import pytest
import torch

from tagtrace._checks import OptionError
from tagtrace.index import Index
from tagtrace.influence import Explainer
from tagtrace.influence.curvature import choice, operators
from tagtrace.influence.curvature.choice import index_solver, make_solver
from tagtrace.influence.curvature.solvers import Cholesky
from tagtrace.tagger.convex import preconditioner
from tests.influence.curvature.systems import expected, index_objective, right_of


@pytest.mark.parametrize("kind", ["auto", "dense", "cg"])
@pytest.mark.parametrize("damping", [0.0, 0.01])
def test_every_exact_curvature_solves_the_same_system(index: Index, kind: choice.Curvature, damping: float) -> None:
    objective = index_objective(index)
    solvers = [make_solver(kind, objective, index.head, damping)]
    solvers += [index_solver(index, kind, damping, lambda: objective) for _ in range(2)]  # the last from the folder
    for solver in solvers:
        found = solver.solve(right_of(index))
        scale = float(expected(index, damping).abs().max())
        tolerance = 1e-3 if found.status == "converged" else 1e-8
        torch.testing.assert_close(found.value, expected(index, damping), rtol=0, atol=tolerance * scale)


def test_progress_reaches_the_explainer(index: Index) -> None:
    seen: list[tuple[int, int]] = []
    assert isinstance(Explainer(index, progress=lambda *place: seen.append(place)).exact, Cholesky)
    assert seen[-1] == (index.num_sentences, index.num_sentences)


def test_large_heads_balance_the_biases_and_the_commonest_transitions(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    C, D = index.head.weight.shape
    monkeypatch.setattr(preconditioner, "MAX_BALANCED", C + 5)
    monkeypatch.setattr(operators, "MAX_MATRIX", 10)
    solver = make_solver("cg", index_objective(index), index.head)
    coordinates = solver.precondition.coordinates  # type: ignore[attr-defined]
    assert len(coordinates) == C + 5
    pairs = [divmod(int(place) - C * D, C) for place in coordinates[C:]]
    (outside,) = index.labels.encode(["O"])
    assert (outside, outside) in pairs, "O O is the commonest transition"
    scale = float(expected(index).abs().max())
    torch.testing.assert_close(solver.solve(right_of(index)).value, expected(index), rtol=0, atol=1e-3 * scale)


def test_an_unknown_curvature_is_refused(index: Index) -> None:
    with pytest.raises(OptionError, match="expected one of"):
        index_solver(index, "newton", 0.0, lambda: index_objective(index))  # type: ignore[arg-type]
