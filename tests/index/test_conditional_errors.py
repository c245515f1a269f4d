"""Token errors against enumeration and against the gradient of the conditional loss."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tagtrace.data import LabelSet
from tagtrace.index import token_errors
from tagtrace.tagger import Head, HeadOptions, Rows, crf
from tagtrace.tagger.rows import pad_rows, unpad_rows
from tagtrace.tagger.scores import Scores
from tests import oracles
from tests.strategies import HEADS, LABELS, random_rows, random_theta

LENGTHS = (4, 1, 3, 2, 1)
every_head = pytest.mark.parametrize("options", HEADS, ids=str)


def case(options: HeadOptions, lengths: tuple[int, ...] = LENGTHS, seed: int = 0) -> tuple[Head, Rows]:
    rows = random_rows(seed, lengths)
    head = Head(4, LABELS, options).double()
    head.set_flat(random_theta(head, seed + 1))
    return head, Rows(rows.features.double(), rows.labels, rows.lengths)


def scores_of(head: Head, rows: Rows) -> Scores:
    with torch.no_grad():
        return head(rows.features, rows.lengths)


def enumerated(head: Head, rows: Rows) -> Tensor:
    """p(y_t | all other labels) - onehot(y_t), from the probabilities of whole label sequences."""
    scores, found = scores_of(head, rows), []
    for row, labels in enumerate(rows.labels.split(rows.lengths.tolist())):
        gold = tuple(labels.tolist())
        sequences, log_p = oracles.enumerate_sentence(scores, row)
        for t in range(len(gold)):
            agreeing = [sequences.index((*gold[:t], c, *gold[t + 1 :])) for c in range(head.num_labels)]
            error = log_p[agreeing].softmax(0)
            error[gold[t]] -= 1
            found.append(error)
    return torch.stack(found)


@every_head
@pytest.mark.parametrize("seed", range(3))
def test_equals_enumeration(options: HeadOptions, seed: int) -> None:
    head, rows = case(options, seed=seed)
    expected = enumerated(head, rows)
    torch.testing.assert_close(token_errors(head, rows), expected, atol=1e-10, rtol=0)
    assert expected.abs().max() > 0.1


@every_head
def test_is_the_gradient_of_the_conditional_loss(options: HeadOptions) -> None:
    head, rows = case(options, (9, 1, 30, 2), seed=5)
    scores = scores_of(head, rows)
    emissions = scores.emissions.clone().requires_grad_()
    scores = Scores(emissions, scores.transitions, scores.start, scores.end, scores.lengths)
    tokens = [(row, t, t + 1) for row, length in enumerate(rows.lengths.tolist()) for t in range(length)]
    losses = crf.conditional_loss(scores, pad_rows(rows.labels, rows.lengths), torch.tensor(tokens))
    (gradient,) = torch.autograd.grad(losses.sum(), emissions)  # each token's loss reads its own emissions only
    torch.testing.assert_close(token_errors(head, rows), unpad_rows(gradient, rows.lengths), atol=1e-10, rtol=0)


def test_forbidden_labels_have_no_error() -> None:
    head, rows = case(HeadOptions(constrained=True))
    errors = token_errors(head, rows)
    first = rows.lengths.cumsum(0) - rows.lengths
    assert (errors[first, 2] == 0).all()  # I-X cannot start a sentence
    assert (errors.sum(1).abs() < 1e-12).all()
    assert (token_errors(case(HeadOptions())[0], rows)[first, 2] > 0).all()


def test_one_sentence_at_a_time_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    head, rows = case(HeadOptions(start_end=True), (7, 1, 12, 3, 3))
    expected = token_errors(head, rows)
    monkeypatch.setattr("tagtrace.index.conditional_errors._MAX_TOKENS", 4)
    assert len(list(rows.chunks(4))) == 5
    torch.testing.assert_close(token_errors(head, rows), expected, atol=1e-12, rtol=0)


def test_tiny_errors_keep_their_digits() -> None:
    head = Head(1, LabelSet(("A", "B"), "plain"), HeadOptions("softmax")).double()
    head.set_flat(torch.tensor([0.0, 40.0, 0.0, 0.0], dtype=torch.float64))  # emissions (40, 0)
    rows = Rows(torch.zeros(1, 1), torch.tensor([0]), torch.tensor([1]))
    tiny = torch.tensor(-40.0, dtype=torch.float64).exp()  # 4e-18: 1 - p would be zero
    expected = torch.stack([-tiny, tiny]).unsqueeze(0)
    torch.testing.assert_close(token_errors(head, rows), expected, rtol=1e-12, atol=0)


def test_stored_features_are_computed_in_the_heads_dtype() -> None:
    head, rows = case(HeadOptions())
    half = Rows(rows.features.half(), rows.labels, rows.lengths)
    again = Rows(half.features.double(), rows.labels, rows.lengths)
    assert torch.equal(token_errors(head, half), token_errors(head, again))
    assert token_errors(head, half).dtype == torch.float64
