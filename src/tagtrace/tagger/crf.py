"""The linear-chain CRF: the log-partition and everything derived from it.

Conventions
-----------
- ``scores.py`` defines scores and the layout of ragged sentences.
- A segment is (row, start, stop) with tokens ``start:stop`` (half-open) of sentence ``row``.
- Losses are negative log-probabilities: joint L = -log p(y | x), marginal
  ML = -log p(y outside the segment | x), conditional CL = L - ML.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tagtrace.tagger.compiled_run import CompiledRun, compiled_run
from tagtrace.tagger.recursions import Run, run
from tagtrace.tagger.scores import Scores, length_mask


class _LogPartition(torch.autograd.Function):
    """log Z with its analytic gradient, which costs one backward recursion."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, lengths: Tensor
    ) -> Tensor:
        scores = Scores(emissions, transitions, start, end, lengths)
        ctx.run = compiled_run(scores) or run(scores)
        return ctx.run.log_z()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        recursion: Run | CompiledRun = ctx.run
        weights = grads[0]  # (B,)
        nodes = recursion.nodes() * weights.view(-1, 1, 1)  # (B, T, C)
        first = nodes[:, 0].sum(0)
        last = nodes[torch.arange(len(weights)), recursion.scores.lengths - 1].sum(0)
        is_shared = recursion.scores.transitions.dim() == 2
        if is_shared or isinstance(recursion, CompiledRun):
            edges = recursion.edge_sum(weights)
        else:
            edges = recursion.edge_sums() * weights.view(-1, 1, 1)
        parts = (nodes, edges, first, last)
        return (*(part.to(recursion.scores.emissions.dtype) for part in parts), None)


def log_partition(scores: Scores) -> Tensor:
    """log Z(x) = log sum_y exp score(y), (B,), in float64. Its gradient is the marginals."""
    s = scores
    out: Any = _LogPartition.apply(s.emissions, s.transitions, s.start, s.end, s.lengths)
    return out


def path_score(scores: Scores, labels: Tensor) -> Tensor:
    """The score of one label sequence per sentence: labels (B, T) -> (B,), in float64."""
    emissions, transitions = scores.emissions, scores.transitions
    labels = labels.to(emissions.device)
    mask = length_mask(scores.lengths, emissions.shape[1], emissions.device)  # (B, T)
    nodes = emissions.gather(2, labels.unsqueeze(2)).squeeze(2).double()  # (B, T)
    number = () if transitions.dim() == 2 else (torch.arange(len(labels), device=labels.device).unsqueeze(1),)
    edges = transitions[(*number, labels[:, :-1], labels[:, 1:])].double()  # (B, T - 1)
    last = labels.gather(1, (scores.lengths.to(labels.device) - 1).unsqueeze(1)).squeeze(1)  # (B,)
    total = torch.where(mask, nodes, 0.0).sum(1) + torch.where(mask[:, 1:], edges, 0.0).sum(1)
    return total + scores.start[labels[:, 0]] + scores.end[last]


def joint_loss(scores: Scores, labels: Tensor) -> Tensor:
    """L = log Z(x) - score(y), (B,)."""
    return log_partition(scores) - path_score(scores, labels)


def conditional_loss(scores: Scores, labels: Tensor, segments: Tensor) -> Tensor:
    """CL = -log p(y in the segment | y outside it, x) for segments (S, 3) -> (S,).

    Given the labels outside, a segment is a sentence of its own (see ``segment_scores``), so its conditional loss is
    that sentence's joint loss.
    """
    window = segment_scores(scores, labels, segments)
    return joint_loss(window, segment_labels(labels, segments))


def marginal_loss(scores: Scores, labels: Tensor, segments: Tensor) -> Tensor:
    """ML = -log p(y outside the segment | x) = L - CL for segments (S, 3) -> (S,)."""
    rows = segments[:, 0].to(scores.emissions.device)
    return joint_loss(scores, labels)[rows] - conditional_loss(scores, labels, segments)


def partial_loss(scores: Scores, labels: Tensor, known: Tensor) -> Tensor:
    """-log p(labels where known | x), (B,): the marginal loss with any tokens unknown; known (B, T) is boolean.

    = log Z(x) - log Z(x, known labels fixed) (Tsuboi et al., 2008; the paper's equation 2).
    """
    free, bound = log_partition(_free_and_bound(scores, labels, known)).chunk(2)  # one run for the two
    return free - bound


@dataclass(frozen=True)
class Errors:
    """Losses (B,) and their derivatives in the scores of each sentence: expected counts less known ones."""

    losses: Tensor
    nodes: Tensor
    """(B, T, C)"""
    edges: Tensor
    """Summed over the steps of each sentence, (B, C, C)."""
    first: Tensor
    """(B, C)"""
    last: Tensor
    """(B, C)"""


@torch.no_grad()
def partial_errors(scores: Scores, labels: Tensor, known: Tensor) -> Errors:
    """``partial_loss`` with its derivatives: marginals, less the marginals given the known labels."""
    recursion = run(_free_and_bound(scores, labels, known))
    free, bound = recursion.log_z().chunk(2)
    nodes = torch.sub(*recursion.nodes().chunk(2))  # (B, T, C)
    edges = torch.sub(*recursion.edge_sums().chunk(2))  # (B, C, C)
    last = nodes[torch.arange(len(nodes)), scores.lengths - 1]
    return Errors(free - bound, nodes, edges, nodes[:, 0], last)


def _free_and_bound(scores: Scores, labels: Tensor, known: Tensor) -> Scores:
    """Every sentence twice, (2 B, T, C): as it is, then with other labels than the known ones forbidden."""
    labels, known = labels.to(scores.emissions.device), known.to(scores.emissions.device)
    other = torch.ones_like(scores.emissions, dtype=torch.bool).scatter(2, labels.unsqueeze(2), False)
    fixed = scores.emissions.masked_fill(other & known.unsqueeze(2), -torch.inf)
    transitions = scores.transitions if scores.transitions.dim() == 2 else scores.transitions.repeat(2, 1, 1)
    return Scores(torch.cat([scores.emissions, fixed]), transitions, scores.start, scores.end, scores.lengths.repeat(2))


def segment_scores(scores: Scores, labels: Tensor, segments: Tensor) -> Scores:
    """The segments as sentences of their own, given the labels outside them: (S, longest, C).

    The two edges into and out of a segment end in known labels; they are added to the emissions of its first and last
    token (at the ends of the sentence: the start and end scores).
    """
    device = scores.emissions.device
    segments, labels = segments.to(device), labels.to(device)
    rows, starts, stops = segments.unbind(1)
    lengths = scores.lengths.to(device)[rows]
    if bool(((starts < 0) | (stops <= starts) | (stops > lengths)).any()):
        raise ValueError("each segment must have at least one token and lie inside its sentence")
    emissions = scores.emissions[rows.unsqueeze(1), _window_index(starts, stops)]  # (S, M, C)
    before = labels[rows, (starts - 1).clamp(min=0)]  # (S,)
    after = labels[rows, stops.clamp(max=labels.shape[1] - 1)]  # (S,)
    is_shared = scores.transitions.dim() == 2
    transitions = scores.transitions if is_shared else scores.transitions[rows]
    leaving = transitions[before] if is_shared else transitions[torch.arange(len(rows)), before]  # (S, C)
    arriving = transitions.T[after] if is_shared else transitions[torch.arange(len(rows)), :, after]
    into = torch.where((starts > 0).unsqueeze(1), leaving, scores.start)  # (S, C)
    out = torch.where((stops < lengths).unsqueeze(1), arriving, scores.end)
    position = torch.arange(emissions.shape[1], device=device)  # (M,)
    zero = emissions.new_zeros(())
    is_first = (position == 0).view(1, -1, 1)
    is_last = (position == (stops - starts - 1).unsqueeze(1)).unsqueeze(2)  # (S, M, 1)
    emissions = emissions + torch.where(is_first, into.unsqueeze(1), zero)
    emissions = emissions + torch.where(is_last, out.unsqueeze(1), zero)
    return Scores.of(emissions, transitions, stops - starts)


def segment_labels(labels: Tensor, segments: Tensor) -> Tensor:
    """The labels inside each segment, (S, longest); positions after a shorter segment are never read."""
    segments = segments.to(labels.device)
    rows, starts, stops = segments.unbind(1)
    return labels[rows.unsqueeze(1), _window_index(starts, stops)]


def _window_index(starts: Tensor, stops: Tensor) -> Tensor:
    """Positions (S, longest) of each segment's tokens; past a segment's end, its last token again."""
    longest = int((stops - starts).max())
    index = starts.unsqueeze(1) + torch.arange(longest, device=starts.device)
    return torch.minimum(index, (stops - 1).unsqueeze(1))


def node_marginals(scores: Scores) -> Tensor:
    """p(y_t = c | x), (B, T, C); zero after a sentence's length."""
    return run(scores).nodes()


def edge_marginals(scores: Scores) -> Tensor:
    """p(y_{t-1} = c, y_t = c' | x), (B, T - 1, C, C); zero after a sentence's length."""
    return run(scores).edges()


def viterbi(scores: Scores) -> tuple[list[list[int]], Tensor]:
    """The best label sequence of each sentence and its score (B,)."""
    with torch.no_grad():
        emissions = scores.emissions
        best = scores.start + emissions[:, 0]  # (B, C)
        history: list[Tensor] = []
        mask = length_mask(scores.lengths, emissions.shape[1], emissions.device)
        stay = torch.arange(emissions.shape[2], device=emissions.device).expand_as(best)
        for t in range(1, emissions.shape[1]):
            reach, origin = (best.unsqueeze(2) + scores.transitions).max(1)  # (B, C)
            live = mask[:, t].unsqueeze(1)
            best = torch.where(live, reach + emissions[:, t], best)
            history.append(torch.where(live, origin, stay))
        score, last = (best + scores.end).max(1)
        return _backtrack(history, last, scores.lengths), score


def _backtrack(history: list[Tensor], last: Tensor, lengths: Tensor) -> list[list[int]]:
    """Follow the best origins back from the last label of each sentence."""
    steps = [last]
    for origin in reversed(history):
        steps.append(origin.gather(1, steps[-1].unsqueeze(1)).squeeze(1))
    paths = torch.stack(steps[::-1], 1).tolist()  # (B, T)
    return [path[:length] for path, length in zip(paths, lengths.tolist(), strict=True)]
