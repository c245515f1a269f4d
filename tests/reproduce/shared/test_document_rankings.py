"""Scores of whole documents, compared with dense gradients."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tagtrace.data import Sentence
from tagtrace.findings import Trusted
from tagtrace.index import Index, token_errors
from tagtrace.influence import find_candidates
from tagtrace.reproduce.experiments.errors import mispredicted
from tagtrace.reproduce.shared.document_rankings import (
    PAPER,
    document_numbers,
    instance_influences,
    rank_documents,
    simple_scores,
)
from tagtrace.tagger import crf
from tagtrace.tagger.rows import pad_rows
from tests.findings.made import double_rows
from tests.influence.dense import segment_gradients


def whole_gradients(index: Index) -> Tensor:
    """The gradients of all training sentences, (B, P)."""
    rows = double_rows(index)
    wholes = torch.tensor([(number, 0, length) for number, length in enumerate(rows.lengths.tolist())])
    return segment_gradients(index.head, rows, wholes)


def document_sums(gradients: Tensor, owner: Tensor) -> Tensor:
    return gradients.new_zeros(int(owner.max()) + 1, gradients.shape[1]).index_add(0, owner, gradients)


def joint_losses(index: Index) -> Tensor:
    """The joint losses of all training sentences, (B,)."""
    rows = double_rows(index)
    return crf.joint_loss(index.head(rows.features, rows.lengths), pad_rows(rows.labels, rows.lengths)).detach()


def test_instances_are_whole_documents(index: Index, given: Trusted, experts: list[Sentence]) -> None:
    owner = find_candidates(index, "document").owner
    assert owner is not None
    trained = document_sums(whole_gradients(index), owner)  # (K, P)
    wholes = torch.tensor([(number, 0, length) for number, length in enumerate(given.rows.lengths.tolist())])
    numbers = document_numbers(experts)
    assert numbers.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    trusted = document_sums(segment_gradients(index.head, given.rows, wholes), numbers)  # (3, P)
    found = instance_influences(index, given, numbers)
    torch.testing.assert_close(found["identity"], -(trusted @ trained.T).mean(0) / index.num_sentences)
    torch.testing.assert_close(found["cosine"], -(F.normalize(trusted) @ F.normalize(trained).T).mean(0))


def test_simple_scores_of_documents(index: Index) -> None:
    candidates, found = find_candidates(index, "document"), simple_scores(index)
    assert candidates.owner is not None
    rows, head = double_rows(index), index.head
    torch.testing.assert_close(found["instance loss"], candidates.total(joint_losses(index)))
    expected = document_sums(whole_gradients(index), candidates.owner).norm(dim=1)
    torch.testing.assert_close(found["instance gradient"], expected)
    errors = token_errors(head, rows).gather(1, rows.labels.long().unsqueeze(1)).squeeze(1)
    token_losses = -(1.0 + errors).log()  # p(y_t) = 1 + e_t(y_t)
    first = candidates.parts(0)
    inside = torch.cat([token_losses[index.starts[number] : index.starts[number] + stop] for number, _, stop in first])
    assert float(found["token loss, mean"][0]) == pytest.approx(float(inside.mean()), rel=1e-5)
    assert float(found["token loss, max"][0]) == pytest.approx(float(inside.max()), rel=1e-5)


def test_the_papers_thirteen_methods_come_first(index: Index, given: Trusted, experts: list[Sentence]) -> None:
    found = rank_documents(index, given, document_numbers(experts), mispredicted(given))
    assert tuple(found)[:13] == PAPER
    assert "segment influence, mean (mispredicted, cosine)" in found
    assert {len(scores) for scores in found.values()} == {len(find_candidates(index, "document"))}
    perfect = replace(given, predicted=given.rows.labels)
    assert mispredicted(perfect) == {}
