"""Slow twins: every CRF quantity by listing all label sequences, straight from its definition."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from tagtrace.tagger.scores import Scores


def sequence_score(scores: Scores, row: int, labels: tuple[int, ...]) -> Tensor:
    """The score of one label sequence, term by term."""
    total = scores.start[labels[0]] + scores.end[labels[-1]]
    for t, label in enumerate(labels):
        total = total + scores.emissions[row, t, label]
        if t > 0:
            total = total + scores.transitions[labels[t - 1], label]
    return total


def enumerate_sentence(scores: Scores, row: int) -> tuple[list[tuple[int, ...]], Tensor]:
    """All label sequences of one sentence and their log-probabilities."""
    num_labels = scores.emissions.shape[2]
    sequences = list(product(range(num_labels), repeat=int(scores.lengths[row])))
    log_weights = torch.stack([sequence_score(scores, row, s) for s in sequences])
    return sequences, log_weights - torch.logsumexp(log_weights, 0)


def log_partition(scores: Scores, row: int) -> Tensor:
    sequences, _ = enumerate_sentence(scores, row)
    return torch.logsumexp(torch.stack([sequence_score(scores, row, s) for s in sequences]), 0)


def node_marginals(scores: Scores, row: int) -> Tensor:
    """(T, C)"""
    out = torch.zeros(scores.emissions.shape[1:], dtype=torch.float64)
    sequences, log_p = enumerate_sentence(scores, row)
    for sequence, p in zip(sequences, log_p.exp(), strict=True):
        for t, label in enumerate(sequence):
            out[t, label] += p
    return out


def edge_marginals(scores: Scores, row: int) -> Tensor:
    """(T - 1, C, C)"""
    _, T, C = scores.emissions.shape
    out = torch.zeros(T - 1, C, C, dtype=torch.float64)
    sequences, log_p = enumerate_sentence(scores, row)
    for sequence, p in zip(sequences, log_p.exp(), strict=True):
        for t in range(1, len(sequence)):
            out[t - 1, sequence[t - 1], sequence[t]] += p
    return out


def marginal_loss(scores: Scores, row: int, labels: tuple[int, ...], start: int, stop: int) -> Tensor:
    """-log of the probability of all sequences that agree with ``labels`` outside start:stop."""
    sequences, log_p = enumerate_sentence(scores, row)
    agrees = [s[:start] + s[stop:] == labels[:start] + labels[stop:] for s in sequences]
    return -torch.logsumexp(log_p[torch.tensor(agrees)], 0)


def joint_loss(scores: Scores, row: int, labels: tuple[int, ...]) -> Tensor:
    sequences, log_p = enumerate_sentence(scores, row)
    return -log_p[sequences.index(labels)]


def best_sequence(scores: Scores, row: int) -> tuple[list[int], Tensor]:
    sequences, _ = enumerate_sentence(scores, row)
    values = torch.stack([sequence_score(scores, row, s) for s in sequences])
    return list(sequences[int(values.argmax())]), values.max()
