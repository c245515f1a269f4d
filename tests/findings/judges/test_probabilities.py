"""Probabilities against the enumeration of all label sequences."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tagtrace._checks import DataError
from tagtrace.findings import Probabilities, in_sample
from tagtrace.findings.judges import probabilities
from tagtrace.index import Index
from tagtrace.tagger import HeadOptions
from tests import oracles
from tests.findings.made import double_rows, make_corpus, make_index, make_tagger

HEADS = [HeadOptions(), HeadOptions(start_end=True, constrained=True), HeadOptions("softmax")]


@pytest.fixture(params=HEADS, ids=["crf", "constrained", "softmax"], scope="module")
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Index:
    return make_index(tmp_path_factory.mktemp("made"), head=request.param)


def test_in_sample_is_what_enumeration_gives(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probabilities, "MAX_TOKENS", 5)
    found = in_sample(index)
    assert found.sample == "in-sample"
    assert found.marginals.dtype == torch.float32
    rows = double_rows(index)
    with torch.no_grad():
        scores = index.head(rows.features, rows.lengths)
    for number, (start, length) in enumerate(zip(index.starts.tolist(), index.lengths.tolist(), strict=True)):
        labels = tuple(rows.labels[start : start + length].tolist())
        joint = oracles.joint_loss(scores, number, labels)
        nodes = oracles.node_marginals(scores, number)[:length]
        torch.testing.assert_close(found.marginals[start : start + length].double(), nodes, rtol=1e-5, atol=1e-7)
        assert float(found.joint_losses[number]) == pytest.approx(float(joint.detach()))
        for t in range(length):
            conditional = joint - oracles.marginal_loss(scores, number, labels, t, t + 1)
            assert float(found.conditional_losses[start + t]) == pytest.approx(float(conditional.detach()), abs=1e-9)


def test_progress_counts_sentences(index: Index) -> None:
    calls: list[tuple[int, int]] = []
    in_sample(index, lambda done, total: calls.append((done, total)))
    assert calls[-1] == (index.num_sentences, index.num_sentences)
    assert len(calls) == len(index.shards)


def test_another_head_may_judge(index: Index) -> None:
    other = make_tagger(index.manifest.head).head.double()
    found = in_sample(index, head=other)
    rows = double_rows(index)
    with torch.no_grad():
        scores = other(rows.features, rows.lengths)
    expected = [oracles.node_marginals(scores, n)[:length] for n, length in enumerate(index.lengths.tolist())]
    torch.testing.assert_close(found.marginals.double(), torch.cat(expected), rtol=1e-5, atol=1e-7)


def test_probabilities_belong_to_one_index(tmp_path: Path) -> None:
    index = make_index(tmp_path)
    found = in_sample(index)
    found.check_index(index)
    other = make_index(tmp_path / "other", make_corpus(seed=1))
    with pytest.raises(DataError, match="the probabilities were computed on different data; compute them for this"):
        found.check_index(other)
    with pytest.raises(DataError, match="do not fit"):
        Probabilities(found.marginals, found.labels[1:], found.lengths, found.conditional_losses, found.joint_losses,
                      "in-sample")  # fmt: skip
