"""Covariances between the labels of any two tokens against sums over all label sequences."""

from __future__ import annotations

import torch
from hypothesis import assume, given

from tagtrace.influence.curvature.covariance import label_covariances
from tagtrace.tagger.recursions import ScaledRun, run
from tests import oracles
from tests.strategies import Case, small_scores


@given(small_scores())
def test_label_covariances_are_sums_over_sequences(case: Case) -> None:
    scores, _ = case
    sentences = run(scores)
    assume(isinstance(sentences, ScaledRun))
    assert isinstance(sentences, ScaledRun)
    covariances = label_covariances(sentences)
    _, T, C = scores.emissions.shape
    for row in range(len(scores.lengths)):
        expected = torch.zeros(T, C, T, C, dtype=torch.float64)
        sequences, log_p = oracles.enumerate_sentence(scores, row)
        nodes = oracles.node_marginals(scores, row)
        for sequence, p in zip(sequences, log_p.exp(), strict=True):
            for s, first in enumerate(sequence):
                for t, second in enumerate(sequence):
                    expected[s, first, t, second] += p
        expected -= nodes.unsqueeze(2).unsqueeze(3) * nodes
        torch.testing.assert_close(covariances[row], expected, rtol=0, atol=1e-12)
