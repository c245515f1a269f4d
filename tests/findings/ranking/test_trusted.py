"""Scores against trusted data: dense gradients, dense inverses and plain loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError, TaggerError
from tagtrace.data import Sentence
from tagtrace.findings import Trusted, instance_scores, neighbour_scores, read_trusted, trusted_scores
from tagtrace.findings.ranking import trusted
from tagtrace.index import Index
from tagtrace.influence import Edit, Explainer, Query
from tagtrace.influence.curvature.operators import Hessian
from tagtrace.tagger import HeadOptions, Rows
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.objective import Objective
from tests.findings.made import double_rows, make_index, make_sentences, make_tagger, sentence_tokens
from tests.influence.dense import segment_gradients

METHODS = ("identity", "curvature", "cosine", "relative")


@pytest.fixture(params=[HeadOptions(start_end=True), HeadOptions("softmax")], ids=["crf", "softmax"], scope="module")
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Index:
    return make_index(tmp_path_factory.mktemp("made"), head=request.param)


@pytest.fixture(scope="module")
def given(index: Index) -> Trusted:
    return read_trusted(index, make_tagger(index.manifest.head), make_sentences(9, seed=5))


@pytest.fixture(scope="module")
def explainer(index: Index) -> Explainer:
    return Explainer(index, "dense", damping=0.05)


def tokens_of(rows: Rows) -> Tensor:
    return torch.tensor([(i, t, t + 1) for i, n in enumerate(rows.lengths.tolist()) for t in range(n)])


def wholes_of(rows: Rows) -> Tensor:
    return torch.tensor([(i, 0, n) for i, n in enumerate(rows.lengths.tolist())])


def suspicion(explainer: Explainer, queries: Tensor, trained: Tensor, method: str) -> Tensor:
    """-influence of every training gradient (K, P) on every query gradient (Q, P), from the definitions, (Q, K)."""
    index, head = explainer.index, explainer.head
    product = HessianProduct(Objective(head, double_rows(index), index.manifest.l2), head.flat())
    inverse = torch.linalg.inv(Hessian(product, explainer.damping).dense())
    if method == "identity":
        return -queries @ trained.T / index.num_sentences
    if method == "cosine":
        return -torch.nn.functional.normalize(queries, dim=1) @ torch.nn.functional.normalize(trained, dim=1).T
    products = -queries @ inverse @ trained.T
    if method == "curvature":
        return products / index.num_sentences
    return products / (trained @ inverse * trained).sum(1).sqrt()


def dense(explainer: Explainer, given: Trusted, method: str) -> Tensor:
    queries = segment_gradients(explainer.head, given.rows, tokens_of(given.rows)[given.tokens])
    rows = double_rows(explainer.index)
    return suspicion(explainer, queries, segment_gradients(explainer.head, rows, tokens_of(rows)), method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("which", ["all", "mispredicted"])
def test_sums_and_top_means_are_those_of_dense_gradients(
    explainer: Explainer, given: Trusted, method: Any, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trusted, "MAX_QUERIES", 3)
    if which == "mispredicted":
        given = given.mispredicted()
    expected = dense(explainer, given, method)  # (Q, N)
    assert len(expected) > 7
    found = trusted_scores(explainer, given, method, "sum")
    torch.testing.assert_close(found, expected.sum(0), rtol=1e-4, atol=1e-5)
    calls: list[tuple[int, int]] = []
    for top_k in (1, 4, 10, 500):
        best = expected.sort(0, descending=True).values[:top_k].mean(0)
        found = trusted_scores(explainer, given, method, "top", top_k, lambda *counts: calls.append(counts))
        torch.testing.assert_close(found, best, rtol=1e-4, atol=1e-5)
    assert calls[-1] == (len(given), len(given))


@pytest.mark.parametrize("method", METHODS)
def test_instances_are_whole_sentences(explainer: Explainer, given: Trusted, method: Any) -> None:
    rows = double_rows(explainer.index)
    queries = segment_gradients(explainer.head, given.rows, wholes_of(given.rows))
    trained = segment_gradients(explainer.head, rows, wholes_of(rows))
    expected = suspicion(explainer, queries, trained, method).mean(0)
    torch.testing.assert_close(instance_scores(explainer, given, method), expected, rtol=1e-6, atol=1e-9)


def test_relative_falls_back_to_kronecker_sizes(
    explainer: Explainer, given: Trusted, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = trusted_scores(explainer, given, "relative", "sum")
    monkeypatch.setattr(trusted, "MAX_WORK", 1.0)
    rough = trusted_scores(explainer, given, "relative", "sum")
    curvature = trusted_scores(explainer, given, "curvature", "sum")
    assert bool((rough.sign() == curvature.sign()).all())
    assert not torch.allclose(rough, exact)
    assert float(torch.corrcoef(torch.stack([rough, exact]))[0, 1]) > 0.8


def test_removing_a_suspicious_label_lowers_the_trusted_loss(tmp_path: Path) -> None:
    """The sign, by retraining the head without the most and the least suspicious label."""
    index = make_index(tmp_path, l2=20.0)
    given = read_trusted(index, make_tagger(), make_sentences(9, seed=5))
    explainer = Explainer(index, "dense")
    scores = trusted_scores(explainer, given, "curvature", "sum")
    changes = []
    for row in (int(scores.argmax()), int(scores.argmin())):
        number, start = sentence_tokens(index)[row]
        moved = explainer.head.at(explainer.retrainer.retrain([Edit(number, start, start + 1)], tolerance=1e-7).theta)
        changes.append(trusted_loss(given, moved) - trusted_loss(given, index.head))
    assert changes[0] < 0 < changes[1]
    assert changes == pytest.approx([-float(scores.max()), -float(scores.min())], rel=0.25)


def trusted_loss(given: Trusted, head: Any) -> float:
    total = 0.0
    parts = zip(given.rows.features.split(given.rows.lengths.tolist()),
                given.rows.labels.split(given.rows.lengths.tolist()), strict=True)  # fmt: skip
    for features, labels in parts:
        total += sum(float(Query(features, labels, t, t + 1).loss(head).detach()) for t in range(len(labels)))
    return total


@pytest.mark.parametrize("metric", ["dot", "cosine"])
@pytest.mark.parametrize("top_k", [1, 3, 10])
def test_neighbours_of_another_class(
    index: Index, given: Trusted, metric: Any, top_k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trusted, "NEIGHBOURS", 5)
    types = [label.split("-")[-1] for label in index.labels.labels]
    rows, expected = double_rows(index), []
    for features, label in zip(rows.features, rows.labels.tolist(), strict=True):
        likeness = []
        for other, gold in zip(given.rows.features.double(), given.rows.labels.tolist(), strict=True):
            if types[gold] != types[label]:
                size = features.norm() * other.norm() if metric == "cosine" else 1.0
                likeness.append(float(features @ other / size))
        best = sorted(likeness)[-top_k:]
        expected.append(sum(best) / len(best))
    found = neighbour_scores(index, given, metric, top_k)
    assert found.tolist() == pytest.approx(expected, abs=1e-5)


def test_predictions_and_kinds_of_errors(index: Index, given: Trusted) -> None:
    tagger, sentences = make_tagger(index.manifest.head), make_sentences(9, seed=5)
    tagger.head = index.head
    predicted = [label for labels in tagger.predict(sentences) for label in labels]
    assert list(index.labels.decode(given.predicted.tolist())) == predicted
    gold = [label for sentence in sentences for label in sentence.labels]
    assert given.mispredicted().tokens.tolist() == [i for i in range(len(gold)) if gold[i] != predicted[i]]
    pairs = [(g.split("-")[-1], p.split("-")[-1]) for g, p in zip(gold, predicted, strict=True)]
    for pair in sorted(set(pairs)):
        if pair[0] != pair[1]:
            found = given.confused(index, ":".join(pair))
            assert found.tokens.tolist() == [i for i, each in enumerate(pairs) if each == pair]
            assert found.segments.shape == (len(found), 3)


def test_empty_sentences_are_left_out(index: Index, given: Trusted) -> None:
    sentences = [Sentence((), ()), *make_sentences(9, seed=5), Sentence((), ())]
    found = read_trusted(index, make_tagger(index.manifest.head), sentences)
    assert torch.equal(found.rows.features, given.rows.features)


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([], "the trusted data is empty"),
        ([Sentence((), ())], "the trusted data is empty"),
        ([Sentence(("w1",), ("B-Z",), "t:1")], "t:1: unknown label 'B-Z'; the known labels are O, B-X"),
        ([Sentence(("w1",), (), "t:2")], "t:2: the trusted data has no labels here"),
        ([Sentence(("w1", "w2"), ("B-X", "I-X"))], r"only one class \(X\)"),
        ([Sentence(("w1", "w2"), ("O", "O"))], r"only one class \(O\)"),
    ],
)
def test_trusted_data_that_cannot_be_used(index: Index, sentences: list[Sentence], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_trusted(index, make_tagger(index.manifest.head), sentences)


def test_refusals(index: Index, given: Trusted, explainer: Explainer) -> None:
    with pytest.raises(TaggerError, match="different labels or features"):
        read_trusted(index, make_tagger(index.manifest.head, dim=3), make_sentences(3))
    right = Trusted(given.rows, given.tokens, given.rows.labels)
    with pytest.raises(DataError, match="every trusted token is predicted correctly"):
        right.mispredicted()
    with pytest.raises(DataError, match="no trusted token is labelled X and predicted Y"):
        right.confused(index, "X:Y")
    with pytest.raises(OptionError, match="expected GOLD:PREDICTED"):
        given.confused(index, "X")
    with pytest.raises(OptionError, match="unknown label 'WINE'"):
        given.confused(index, "X:WINE")
    with pytest.raises(OptionError, match="expected two different labels"):
        given.confused(index, "X:B-X")
    one_class = Trusted(given.rows, (given.rows.labels == 0).nonzero().squeeze(1), given.predicted)
    with pytest.raises(DataError, match="only one class"):
        neighbour_scores(index, one_class)
    with pytest.raises(OptionError, match="method 'hessian': expected one of identity"):
        trusted_scores(explainer, given, "hessian")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="aggregate 'mean': expected one of sum, top"):
        trusted_scores(explainer, given, aggregate="mean")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="top_k 0"):
        trusted_scores(explainer, given, top_k=0)
    with pytest.raises(OptionError, match="expected dot or cosine"):
        neighbour_scores(index, given, "euclid")  # type: ignore[arg-type]
