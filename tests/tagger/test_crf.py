"""The CRF against enumeration, finite differences and its own symmetries."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tagtrace.tagger import crf, recursions
from tagtrace.tagger.scores import Scores
from tests import oracles
from tests.strategies import Case, all_segments, random_scores, small_scores


def close(ours: Tensor, oracle: Tensor) -> None:
    torch.testing.assert_close(ours, oracle, rtol=1e-10, atol=1e-10)


def path(labels: Tensor, scores: Scores, row: int) -> tuple[int, ...]:
    return tuple(labels[row, : int(scores.lengths[row])].tolist())


@given(small_scores())
def test_log_partition_is_the_sum_over_all_sequences(case: Case) -> None:
    scores, _ = case
    expected = torch.stack([oracles.log_partition(scores, row) for row in range(len(scores.lengths))])
    close(crf.log_partition(scores), expected)


@given(small_scores())
def test_marginals_are_sums_over_sequences(case: Case) -> None:
    scores, _ = case
    nodes, edges = crf.node_marginals(scores), crf.edge_marginals(scores)
    for row in range(len(scores.lengths)):
        close(nodes[row], oracles.node_marginals(scores, row))
        close(edges[row], oracles.edge_marginals(scores, row))


@given(small_scores())
def test_losses_of_every_segment(case: Case) -> None:
    scores, labels = case
    segments = all_segments(scores)
    marginal = crf.marginal_loss(scores, labels, segments)
    conditional = crf.conditional_loss(scores, labels, segments)
    for (row, start, stop), ml, cl in zip(segments.tolist(), marginal, conditional, strict=True):
        y = path(labels, scores, row)
        joint, expected = (
            oracles.joint_loss(scores, row, y),
            oracles.marginal_loss(scores, row, y, start, stop),
        )
        close(ml, expected)
        close(cl, joint - expected)


@given(small_scores())
def test_viterbi_finds_the_best_sequence(case: Case) -> None:
    scores, _ = case
    paths, values = crf.viterbi(scores)
    for row, found in enumerate(paths):
        _, best_score = oracles.best_sequence(scores, row)
        close(values[row], best_score)
        close(oracles.sequence_score(scores, row, tuple(found)), best_score)


@given(small_scores(forbid=False))
@settings(max_examples=25)
def test_gradient_agrees_with_finite_differences(case: Case) -> None:
    scores, labels = case
    if scores.transitions.abs().max() > 50:  # differences of 1e-6 drown in scores of hundreds
        return
    segments = all_segments(scores)
    inputs = tuple(
        x.nan_to_num().requires_grad_() for x in (scores.emissions, scores.transitions, scores.start, scores.end)
    )

    def losses(emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
        with_grad = Scores(emissions, transitions, start, end, scores.lengths)
        cl = crf.conditional_loss(with_grad, labels, segments)
        return torch.cat([crf.joint_loss(with_grad, labels), cl])

    assert torch.autograd.gradcheck(losses, inputs, eps=1e-6, atol=1e-7)


@given(small_scores())
def test_gradient_of_the_log_partition_is_the_marginals(case: Case) -> None:
    scores, _ = case
    emissions = scores.emissions.clone().requires_grad_()
    transitions = scores.transitions.clone().requires_grad_()
    with_grad = dataclasses.replace(scores, emissions=emissions, transitions=transitions)
    crf.log_partition(with_grad).sum().backward()
    assert emissions.grad is not None
    assert transitions.grad is not None
    close(emissions.grad, crf.node_marginals(scores))
    close(transitions.grad, crf.edge_marginals(scores).sum((0, 1)))


@given(small_scores())
def test_marginals_sum_to_one_and_agree(case: Case) -> None:
    scores, _ = case
    nodes, edges = crf.node_marginals(scores), crf.edge_marginals(scores)
    for row, length in enumerate(scores.lengths.tolist()):
        close(nodes[row, :length].sum(1), torch.ones(length, dtype=torch.float64))
        assert not nodes[row, length:].any()
        close(edges[row, : length - 1].sum(1), nodes[row, 1:length])
        close(edges[row, : length - 1].sum(2), nodes[row, : length - 1])


@given(small_scores())
def test_order_batch_and_padding_change_nothing(case: Case) -> None:
    scores, labels = case
    together = crf.joint_loss(scores, labels)
    reversed_rows = torch.arange(len(labels)).flip(0)
    close(crf.joint_loss(scores.select(reversed_rows), labels.flip(0)), together.flip(0))
    for row, length in enumerate(scores.lengths.tolist()):
        alone = dataclasses.replace(
            scores, emissions=scores.emissions[row : row + 1, :length], lengths=scores.lengths[row : row + 1]
        )
        close(crf.joint_loss(alone, labels[row : row + 1, :length])[0], together[row])


@given(small_scores())
def test_renaming_labels_permutes_marginals(case: Case) -> None:
    scores, _ = case
    order = torch.arange(scores.emissions.shape[2]).flip(0)
    renamed = Scores(
        scores.emissions[..., order],
        scores.transitions[order][:, order],
        scores.start[order],
        scores.end[order],
        scores.lengths,
    )
    close(crf.node_marginals(renamed), crf.node_marginals(scores)[..., order])


def test_scaled_and_log_space_agree() -> None:
    scores, _ = random_scores(3, [30, 7, 1, 19], 5, forbid=True)
    sentences = recursions._SortedScores(scores)
    scaled, in_logs = recursions.ScaledRun(sentences), recursions._LogRun(sentences)
    weights = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    close(scaled.log_z(), in_logs.log_z())
    close(scaled.nodes(), in_logs.nodes())
    close(scaled.edges(), in_logs.edges())
    close(scaled.edge_sum(weights), in_logs.edge_sum(weights))


def test_far_apart_scores_take_the_log_space_path() -> None:
    mild, _ = random_scores(0, [4], 3, scale=1.0)
    wild, _ = random_scores(0, [4], 3, scale=1e4)
    assert isinstance(recursions.run(mild), recursions.ScaledRun)
    assert isinstance(recursions.run(wild), recursions._LogRun)
    assert crf.log_partition(wild).isfinite().all()


def test_a_sentence_with_no_allowed_sequence_has_probability_zero() -> None:
    scores = Scores.of(torch.zeros(1, 3, 2), torch.full((2, 2), -torch.inf))
    assert crf.log_partition(scores).item() == -torch.inf


def test_float32_keeps_float32_accuracy_on_long_sentences() -> None:
    scores, labels = random_scores(1, [500], 9)
    single = Scores(
        scores.emissions.float(),
        scores.transitions.float(),
        scores.start.float(),
        scores.end.float(),
        scores.lengths,
    )
    torch.testing.assert_close(
        crf.joint_loss(single, labels).double(), crf.joint_loss(scores, labels), rtol=1e-5, atol=0
    )


@pytest.mark.parametrize("segment", [(0, 1, 1), (0, -1, 2), (0, 0, 9), (1, 0, 3)])
def test_segments_outside_their_sentence_are_refused(segment: tuple[int, int, int]) -> None:
    scores, labels = random_scores(0, [4, 2], 3)
    with pytest.raises(ValueError, match="inside its sentence"):
        crf.conditional_loss(scores, labels, torch.tensor([segment]))


def test_shapes_are_checked_at_the_door() -> None:
    emissions = torch.zeros(2, 3, 4)
    with pytest.raises(ValueError, match="4 labels"):
        Scores.of(emissions, torch.zeros(3, 3))
    with pytest.raises(ValueError, match="exceeds the 3 positions"):
        Scores.of(emissions, torch.zeros(4, 4), torch.tensor([3, 4]))
    with pytest.raises(ValueError, match="at least 1"):
        Scores.of(emissions, torch.zeros(4, 4), torch.tensor([3, 0]))


@given(small_scores(), st.integers(0, 2**12 - 1))
def test_partial_loss_sums_over_unknown_labels(case: Case, pattern: int) -> None:
    scores, labels = case
    known = torch.tensor([bool(pattern >> k & 1) for k in range(labels.numel())]).view_as(labels)
    losses = crf.partial_loss(scores, labels, known)
    for row, loss in enumerate(losses):
        sequences, log_p = oracles.enumerate_sentence(scores, row)
        y, is_known = path(labels, scores, row), known[row].tolist()
        agrees = [all(a == b for a, b, k in zip(s, y, is_known, strict=False) if k) for s in sequences]
        close(loss, -torch.logsumexp(log_p[torch.tensor(agrees)], 0))


@given(small_scores(), st.integers(0, 2**12 - 1))
@settings(max_examples=30)
def test_partial_errors_are_the_derivatives_of_the_partial_loss(case: Case, pattern: int) -> None:
    scores, labels = case
    known = torch.tensor([bool(pattern >> k & 1) for k in range(labels.numel())]).view_as(labels)
    errors = crf.partial_errors(scores, labels, known)
    for row in range(len(labels)):
        alone = scores.select(torch.tensor([row]))
        leaves = {name: getattr(alone, name).clone().requires_grad_() for name in NAMES}
        loss = crf.partial_loss(dataclasses.replace(alone, **leaves), labels[row : row + 1], known[row : row + 1])
        nodes, edges, first, last = torch.autograd.grad(loss.sum(), list(leaves.values()))
        close(errors.losses[row], loss[0].detach())
        close(errors.nodes[row], nodes[0])
        close(errors.edges[row], edges)
        close(errors.first[row], first)
        close(errors.last[row], last)


NAMES = ("emissions", "transitions", "start", "end")


@given(small_scores(), st.integers(0, 1000))
@settings(max_examples=30)
def test_each_sentence_may_have_its_own_transitions(case: Case, seed: int) -> None:
    scores, labels = case
    B, _, C = scores.emissions.shape
    generator = torch.Generator().manual_seed(seed)
    own = scores.transitions + torch.randn(B, C, C, generator=generator, dtype=torch.float64)
    together = dataclasses.replace(scores, transitions=own.clone().requires_grad_())
    segments = all_segments(scores)
    loss = crf.joint_loss(together, labels)
    conditional = crf.conditional_loss(together, labels, segments)
    loss.sum().backward()
    assert together.transitions.grad is not None
    for row in range(B):
        alone = dataclasses.replace(scores.select(torch.tensor([row])), transitions=own[row].clone().requires_grad_())
        expected = crf.joint_loss(alone, labels[row : row + 1])
        expected.sum().backward()
        assert alone.transitions.grad is not None
        close(loss[row].detach(), expected[0].detach())
        close(together.transitions.grad[row], alone.transitions.grad)
        inside = segments[segments[:, 0] == row] * torch.tensor([0, 1, 1])
        close(
            conditional[segments[:, 0] == row].detach(),
            crf.conditional_loss(alone, labels[row : row + 1], inside).detach(),
        )
        assert crf.viterbi(together)[0][row] == crf.viterbi(alone)[0][0]


@pytest.mark.parametrize(("gap", "length", "expected"), [(5.0, 200, -1000.0), (100.0, 12, -1200.0)])
def test_labels_that_only_end_well_are_not_lost(gap: float, length: int, expected: float) -> None:
    """Label 1 is unlikely everywhere, cannot be entered, and is the only one that may end the sentence."""
    emissions = torch.tensor([0.0, -gap], dtype=torch.float64).expand(1, length, 2)
    transitions = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]], dtype=torch.float64)
    scores = Scores.of(emissions, transitions, end=torch.tensor([-torch.inf, 0.0], dtype=torch.float64))
    close(crf.log_partition(scores), torch.tensor([expected], dtype=torch.float64))
    close(crf.node_marginals(scores)[0, :, 1], torch.ones(length, dtype=torch.float64))


def test_losses_of_long_confident_sentences_keep_their_digits() -> None:
    emissions = torch.zeros(1, 5000, 3)
    emissions[..., 0] = 14.0
    scores = Scores.of(emissions, torch.zeros(3, 3))
    loss = crf.joint_loss(scores, torch.zeros(1, 5000, dtype=torch.long))
    expected = 5000 * math.log1p(2 * math.exp(-14.0))
    assert float(loss) == pytest.approx(expected, rel=1e-6)
