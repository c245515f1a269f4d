"""What-if on a small index: each rung against the definition, and edits that make no sense."""

from __future__ import annotations

import pytest
import torch

from tagtrace._checks import OptionError
from tagtrace.influence import Edit, Explainer, Query
from tagtrace.influence.edits import refine as module
from tagtrace.influence.edits.what_if import check_edits
from tagtrace.tagger import Head, HeadOptions, RefitOptions, Rows, refit_head
from tests.influence.small_index import small_index
from tests.strategies import LABELS, random_rows

L2 = 20.0


@pytest.fixture(scope="module")
def explainer(tmp_path_factory: pytest.TempPathFactory) -> Explainer:
    folder = tmp_path_factory.mktemp("what-if")
    return Explainer(small_index(folder, dtype="float32", l2=L2, tolerance=1e-9))


def make(explainer: Explainer, sentence_number: int = 3, start: int = 0, stop: int = 2) -> Query:
    rows = explainer.index.sentence_rows(sentence_number, torch.float64)
    return Query(rows.features, rows.labels, start, stop)


def test_relabelling_is_training_on_other_labels(explainer: Explainer) -> None:
    query, rows = make(explainer), explainer.rows.joined()
    edits = [Edit(3, 0, 2, (1, 2)), Edit(7, 1, 2, (0,))]
    found = explainer.what_if(query, edits, "verify")
    labels = rows.labels.clone()
    for edit in edits:
        first = int(rows.lengths[: edit.sentence_number].sum())
        labels[first + edit.start : first + edit.stop] = torch.tensor(edit.labels)
    options = RefitOptions(L2, tolerance=1e-9)
    expected = refit_head(explainer.head, Rows(rows.features, labels, rows.lengths), options).head
    verified, refined = found.effects["verify"], found.effects["refine"]
    assert found.best is verified
    assert found.edits == tuple(edits)
    torch.testing.assert_close(verified.probabilities_after, query.probabilities(expected), rtol=0, atol=1e-4)
    torch.testing.assert_close(verified.probabilities_before, query.probabilities(explainer.optimum))
    assert verified.after == pytest.approx(float(query.loss(expected).detach()), abs=1e-4)
    assert refined.change == pytest.approx(verified.change, rel=0.2)
    assert abs(verified.change) > 0.01


def test_what_is_too_large_to_refine_is_one_newton_step(explainer: Explainer, monkeypatch: pytest.MonkeyPatch) -> None:
    query = make(explainer)
    small = explainer.what_if(query, [Edit(3, 0, 1)])
    assert list(small.effects) == ["refine"]
    assert small.best.change > 0  # the query's own label supports it
    monkeypatch.setattr(module, "MAX_LOGITS", 10)
    large = explainer.what_if(query, [Edit(3, 0, 1)])
    assert list(large.effects) == ["step"]
    moved = explainer.optimum.at(explainer.retrainer.first_step([Edit(3, 0, 1)]))
    assert large.best.after == pytest.approx(float(query.loss(moved).detach()))
    assert large.best.change == pytest.approx(small.best.change, rel=0.5)
    both = explainer.what_if(query, [Edit(3, 0, 1)], "verify")
    assert list(both.effects) == ["step", "verify"]
    assert both.rung == "verify"


def test_groups_differ_from_single_edits(explainer: Explainer) -> None:
    query = make(explainer)
    one, two = Edit(3, 0, 2), Edit(3, 2, 3)
    together = explainer.what_if(query, [one, two]).best.change
    alone = [explainer.what_if(query, [edit]).best.change for edit in (one, two)]
    assert all(together != pytest.approx(change, rel=1e-3) for change in alone)


def test_bad_edits(explainer: Explainer) -> None:
    query = make(explainer)
    for edits, message in (
        ([], "at least one"),
        ([Edit(10**6, 0, 1)], "there is no training sentence 1000000; numbers are 0 to"),
        ([Edit(-1, 0, 1)], "there is no training sentence -1"),
        ([Edit(3, 0, 1, (99,))], "label numbers are 0 to"),
        ([Edit(3, 0, 2), Edit(3, 1, 3)], "overlap at token 1"),
        ([Edit(3, 0, 999)], "0:999 is not a segment of sentence 3, which has"),
        ([Edit(3, 0, 2, (1,))], "needs 2 labels; it has 1"),
    ):
        with pytest.raises(OptionError, match=message):
            explainer.what_if(query, edits)
    with pytest.raises(OptionError, match="rung 'screen': expected one of refine, verify"):
        explainer.what_if(query, [Edit(3, 0, 1)], "screen")  # type: ignore[arg-type]


def test_constraints_are_kept() -> None:
    head = Head(4, LABELS, HeadOptions(constrained=True)).double()
    rows = random_rows(0, (3,))
    rows.labels[:] = torch.tensor([1, 2, 0])  # B-X I-X O
    check_edits([Edit(0, 0, 2, (0, 0))], head, rows)
    check_edits([Edit(0, 0, 1)], head, rows)
    with pytest.raises(OptionError, match="constraints forbid"):
        check_edits([Edit(0, 0, 1, (0,))], head, rows)  # leaves I-X behind O
