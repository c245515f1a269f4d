"""Scorers against their formulas."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from tagtrace._checks import DataError, OptionError
from tagtrace.findings import SCORERS, Probabilities, in_sample, token_scores
from tagtrace.findings.ranking.token_scores import conditional_loss, marginal_loss
from tagtrace.index import Index
from tagtrace.influence.curvature.operators import Kronecker
from tagtrace.tagger import HeadOptions
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.objective import Objective
from tests.findings.made import double_rows, make_corpus, make_index, sentence_tokens
from tests.influence.dense import segment_gradients

HEADS = [HeadOptions(), HeadOptions(start_end=True, constrained=True), HeadOptions("softmax")]


@pytest.fixture(params=HEADS, ids=["crf", "constrained", "softmax"], scope="module")
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Index:
    return make_index(tmp_path_factory.mktemp("made"), head=request.param)


def test_scorers_are_their_formulas(index: Index) -> None:
    found = in_sample(index)
    scores = {name: token_scores(name, index, found) for name in SCORERS}
    assert all(values.shape == (index.num_tokens,) for values in scores.values())
    rows = double_rows(index)
    for row, (number, _) in enumerate(sentence_tokens(index)):
        p = found.marginals[row].tolist()
        given = int(rows.labels[row])
        others = [value for label, value in enumerate(p) if label != given]
        assert float(scores["joint-loss"][row]) == float(found.joint_losses[number])
        assert float(scores["marginal-loss"][row]) == pytest.approx(-math.log(p[given]), rel=1e-5, abs=1e-6)
        assert float(scores["entropy"][row]) == pytest.approx(-sum(v * math.log(v) for v in p if v > 0), rel=1e-5)
        assert float(scores["margin"][row]) == pytest.approx(max(others) - p[given])
    segments = torch.tensor([(number, t, t + 1) for number, t in sentence_tokens(index)])
    gradients = segment_gradients(index.head, rows, segments)  # (N, P)
    torch.testing.assert_close(scores["gradient-norm"], gradients.norm(dim=1), rtol=1e-5, atol=1e-6)
    operator = Kronecker(HessianProduct(Objective(index.head, rows, index.manifest.l2), index.head.flat()))
    own = (gradients * torch.linalg.solve(operator.dense(), gradients.T).T).sum(1)
    torch.testing.assert_close(scores["self-influence"], own, rtol=1e-6, atol=1e-8)


def test_conditional_losses_are_those_of_the_stored_errors(index: Index) -> None:
    stored = torch.cat([shard.errors for shard in index.shards]).double()
    labels = index.label_ids
    given = 1.0 + stored.gather(1, labels.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(conditional_loss(in_sample(index)), -given.log(), rtol=1e-4, atol=1e-5)


def made_of(marginals: list[list[float]]) -> Probabilities:
    """Of one sentence whose given labels are all 0."""
    nodes = torch.tensor(marginals)
    zeros = torch.zeros(len(nodes), dtype=torch.float64)
    lengths = torch.tensor([len(nodes)])
    return Probabilities(nodes, zeros.long(), lengths, zeros, zeros[:1], "out-of-sample")


def test_marginal_losses_keep_their_order_where_p_rounds_to_1_or_is_tiny() -> None:
    found = marginal_loss(made_of([[1.0, 1e-20], [1.0, 1e-12], [0.25, 0.75], [1e-40, 1.0], [0.0, 1.0]]))
    assert float(found[0]) == pytest.approx(1e-20, rel=1e-6, abs=0)
    assert float(found[1]) == pytest.approx(1e-12, rel=1e-6, abs=0)
    assert float(found[2]) == pytest.approx(math.log(4))
    assert found.tolist() == sorted(found.tolist())
    assert bool(found.isfinite().all())


def test_every_scorer_has_a_description() -> None:
    for name, scorer in SCORERS.items():
        assert scorer.description
        assert "\n" not in scorer.description
        assert (scorer.of_probabilities is None) != (scorer.of_index is None)
        assert scorer.needs_probabilities == (name not in ("gradient-norm", "self-influence"))


def test_refusals(tmp_path: Path) -> None:
    found = in_sample(make_index(tmp_path))
    other = make_index(tmp_path / "other", make_corpus(seed=1))
    with pytest.raises(OptionError, match="scorer 'loss': expected one of joint-loss"):
        token_scores("loss", other, found)
    with pytest.raises(DataError, match="the probabilities were computed on different data"):
        token_scores("margin", other, found)
