"""The size of a training segment's gradient: |g_k|, and g_k^T K^-1 g_k, its self-influence (times N)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from tagtrace.influence.curvature.operators import Identity, Kronecker
from tagtrace.influence.curvature.solvers import Cholesky, Direct, Solver
from tagtrace.influence.scoring.candidates import Candidates
from tagtrace.influence.scoring.factors import CELLS, TrainingRows, factor_parts, sentence_parts
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import Rows, positions

MAX_TOGETHER = 512
MAX_ITERATED = 32
"""Maximum number of right-hand sides in one solve: with an inverse, and by iterations over the training data."""


@torch.no_grad()
def gradient_norms(head: Head, training: TrainingRows, candidates: Candidates) -> Tensor:
    """|g_k| of every candidate, (K,); for segments, no gradient is formed."""
    squares = torch.empty(len(candidates), dtype=torch.float64)
    if candidates.owner is None:
        for places, factors in factor_parts(head, training, candidates.segments):
            squares[places] = factors.squares().cpu()
    else:
        for places, gradients in dense_gradients(head, training, candidates):
            squares[places] = gradients.square().sum(1).cpu()
    return squares.sqrt()


@torch.no_grad()
def self_influence(head: Head, training: TrainingRows, candidates: Candidates | Tensor, solver: Solver) -> Tensor:
    """g_k^T K^-1 g_k of candidates, or of segments (S, 3), (K,), exact for the solver's K.

    |g_k|^2 for the identity, a formula for Kronecker factors; otherwise a solve for each candidate, P^2 work or more.
    """
    if isinstance(candidates, Tensor):
        candidates = Candidates(candidates)
    operator = solver.invertible if isinstance(solver, Direct) else None
    if isinstance(operator, Identity):
        return gradient_norms(head, training, candidates).square() / (1.0 + operator.damping)
    found = torch.empty(len(candidates), dtype=torch.float64)
    if isinstance(operator, Kronecker) and candidates.owner is None:
        for places, factors in factor_parts(head, training, candidates.segments):
            found[places] = factors.squares_under(operator.factors).cpu()
        return found
    most = MAX_TOGETHER if isinstance(solver, Cholesky | Direct) else MAX_ITERATED
    for places, gradients in dense_gradients(head, training, candidates, most):
        found[places] = (gradients * solver.solve(gradients).value).sum(1).cpu()
    return found


def dense_gradients(
    head: Head, training: TrainingRows, candidates: Candidates, most: int = MAX_TOGETHER
) -> Iterator[tuple[Tensor, Tensor]]:
    """g_k as vectors, a few at a time: the candidates' numbers (k,) and their gradients (k, P)."""
    size = min(max(CELLS // head.num_parameters, 1), most)
    for numbers in torch.arange(len(candidates)).split(size):
        some = candidates if len(numbers) == len(candidates) else candidates.select(numbers)
        gradients = torch.zeros(len(numbers), head.num_parameters, dtype=torch.float64, device=head.weight.device)
        owner = torch.arange(len(numbers)) if some.owner is None else some.owner
        for places, factors in factor_parts(head, training, some.segments, size):
            gradients.index_add_(0, owner[places].to(gradients.device), factors.dense())
        yield numbers, gradients


@torch.no_grad()
def feature_norms(training: TrainingRows, candidates: Candidates, dim: int) -> Tensor:
    """|mean of a candidate's features|, (K,)."""
    norms = torch.empty(len(candidates), dtype=torch.float64)
    sums = torch.zeros(0 if candidates.owner is None else len(candidates), dim, dtype=torch.float64)
    for places, rows, segments in sentence_parts(training, candidates.segments, dim):
        part = _feature_sums(rows, segments).cpu()
        if candidates.owner is None:
            norms[places] = part.norm(dim=1)
        else:
            sums.index_add_(0, candidates.owner[places], part)
    if candidates.owner is not None:
        norms = sums.norm(dim=1)
    return norms / candidates.total(candidates.segments[:, 2] - candidates.segments[:, 1])


def _feature_sums(rows: Rows, segments: Tensor) -> Tensor:
    """The sum of the features of each segment, (S, D)."""
    first = (rows.lengths.cumsum(0) - rows.lengths)[segments[:, 0]] + segments[:, 1]  # (S,)
    lengths = segments[:, 2] - segments[:, 1]
    index = torch.repeat_interleave(first, lengths) + positions(lengths)
    owner = torch.repeat_interleave(torch.arange(len(segments)), lengths).to(rows.features.device)
    return rows.features.new_zeros(len(segments), rows.features.shape[1]).index_add(0, owner, rows.features[index])
