"""Forward and backward recursions of the linear-chain CRF, in float64.

Probabilities are carried along the sentence and rescaled to sum to one at each step (Rabiner's scaling), so
a step is one small matrix product without logarithms. If scores are so far apart that a probability could
underflow, or forbidden transitions exclude the likely labels, the same recursions run in log space instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import torch
from torch import Tensor

from tagtrace.tagger.scores import Scores, length_mask

SAFE_SPREAD = 300.0
"""Scores that differ by less than this at a step cannot underflow in float64 (exp(-2 * 300) > 0)."""

SAFE_SCALE = 1e-250
"""A step that keeps less than this share of the probability relies on labels that may have underflowed before."""

TINY = 1e-300
"""Keeps a sentence with no allowed label sequence at log Z = minus infinity, not NaN."""


def run(scores: Scores) -> Run:
    """Both recursions over the sentences: scaled if that is safe, otherwise in log space."""
    ordered = _SortedScores(scores)
    if ordered.spread() < SAFE_SPREAD:
        scaled = ScaledRun(ordered)
        if scaled.smallest_scale() > SAFE_SCALE:
            return scaled
    return _LogRun(ordered)


class _SortedScores:
    """Scores in float64, time-major, sorted by length (longest first), zeros in the padding.

    At step t only the ``active[t]`` sentences that are long enough take part, so padding costs nothing.
    """

    lengths: Tensor
    order: Tensor
    mask: Tensor
    last_step: Tensor
    rows: Tensor
    emissions: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor

    def __init__(self, scores: Scores) -> None:
        self.scores = scores
        device = scores.emissions.device
        self.lengths, order = scores.lengths.sort(descending=True, stable=True)
        self.order = order.to(device)  # (B,)
        mask = length_mask(self.lengths, scores.emissions.shape[1]).T  # (T, B)
        self.active: list[int] = [n for n in mask.sum(1).tolist() if n > 0]
        self.mask = mask.to(device)
        self.last_step = (self.lengths - 1).to(device)  # (B,)
        self.rows = torch.arange(len(self.lengths), device=device)
        emissions = self.sort(scores.emissions.detach()).double()  # (T, B, C)
        self.emissions = torch.where(self.mask.unsqueeze(2), emissions, 0.0)
        transitions = scores.transitions.detach().double()
        self.transitions = transitions if transitions.dim() == 2 else transitions[self.order]  # (C, C) or (B, C, C)
        self.start, self.end = scores.start.detach().double(), scores.end.detach().double()

    def spread(self) -> float:
        """How far apart the log-probabilities of two labels at one position can be."""
        parts = (self.emissions, self.transitions.flatten(-2), self.start, self.end)
        return float(torch.stack([_range(part) for part in parts]).sum())

    def last(self, values: Tensor) -> Tensor:
        """The values at each sentence's last position: (T, B, ...) -> (B, ...)."""
        return values[self.last_step, self.rows]

    def sort(self, values: Tensor) -> Tensor:
        """The caller's (B, T, ...) as (T, B, ...) with the longest sentence first."""
        return values[self.order].transpose(0, 1)

    def unsort(self, values: Tensor) -> Tensor:
        """Sorted sentences (B, ...) in the caller's order."""
        out = torch.empty_like(values)
        out[self.order] = values
        return out


def _range(values: Tensor) -> Tensor:
    """Largest difference along the last dimension, ignoring minus infinity; infinite if there is a NaN."""
    if values.numel() == 0:
        return values.new_zeros(())
    low = torch.where(values == -torch.inf, torch.inf, values).amin(-1)
    gap = values.amax(-1) - low
    return torch.where(gap.isnan(), torch.inf, gap).amax()


def _peak(values: Tensor) -> Tensor:
    """Largest value along the last dimension, which is kept; zero if all are minus infinity."""
    peak = values.amax(-1, keepdim=True)
    return torch.where(peak == -torch.inf, 0.0, peak)


class Run(ABC):
    """The results of the recursions, in the caller's order and in float64."""

    scores: Scores

    def __init__(self, ordered: _SortedScores) -> None:
        self.ordered = ordered
        self.scores = ordered.scores

    @abstractmethod
    def log_z(self) -> Tensor:
        """log Z (B,)."""

    @abstractmethod
    def nodes(self) -> Tensor:
        """Node marginals (B, T, C), zero in the padding."""

    @abstractmethod
    def edges(self) -> Tensor:
        """Edge marginals (B, T - 1, C, C), zero in the padding."""

    @abstractmethod
    def row_factors(self) -> tuple[Tensor, Tensor, Tensor]:
        """left, right (B, T, C) and M (C, C): the edge marginals into step t are left[t - 1] M right[t]."""

    @abstractmethod
    def edge_sums(self) -> Tensor:
        """sum over steps t of each sentence's edge marginals, (B, C, C)."""

    @abstractmethod
    def edge_sum(self, weights: Tensor) -> Tensor:
        """sum over sentences b of weights[b] * ``edge_sums``, (C, C), without storing them all."""


class ScaledRun(Run):
    """Rabiner's scaling. With psi_t = exp(emissions_t) and M = exp(transitions), up to constants:

    alpha_t = (alpha_{t-1} M) psi_t / s_t, s_t so that alpha_t sums to one;
    beta_{t-1} = M (psi_t beta_t) / s_t;  p(y_t) = alpha_t beta_t;  log Z = sum_t log s_t.
    """

    peaks: Tensor
    edge_peak: Tensor
    psi: Tensor
    matrix: Tensor
    final: Tensor
    alpha: Tensor
    scale: Tensor

    def __init__(self, ordered: _SortedScores) -> None:
        super().__init__(ordered)
        self.peaks = _peak(ordered.emissions)  # (T, B, 1)
        self.edge_peak = _peak(ordered.transitions.flatten(-2))  # (1,) or (B, 1)
        self.psi = (ordered.emissions - self.peaks).exp_()
        self.matrix = (ordered.transitions - self.edge_peak.unsqueeze(-1)).exp()  # (C, C) or (B, C, C)
        self.final = (ordered.end - _peak(ordered.end)).exp()  # (C,)
        self.alpha = torch.zeros_like(self.psi)  # (T, B, C)
        self.scale = torch.ones_like(self.peaks)  # (T, B, 1)
        self._forward()

    def _forward(self) -> None:
        step = (self.ordered.start - _peak(self.ordered.start)).exp() * self.psi[0]  # (B, C)
        for t, n in enumerate(self.ordered.active):
            if t > 0:
                step = self.forth(self.alpha[t - 1, :n]) * self.psi[t, :n]
            total = step.sum(1, keepdim=True)
            self.scale[t, :n] = total
            self.alpha[t, :n] = step / total.clamp_(min=TINY)

    def forth(self, values: Tensor) -> Tensor:
        """values M for the first n sentences, (n, C)."""
        if self.matrix.dim() == 2:
            return values @ self.matrix
        return (values.unsqueeze(1) @ self.matrix[: len(values)]).squeeze(1)

    def back(self, values: Tensor) -> Tensor:
        """M values for the first n sentences, (n, C)."""
        if self.matrix.dim() == 2:
            return values @ self.matrix.T
        return (self.matrix[: len(values)] @ values.unsqueeze(2)).squeeze(2)

    def smallest_scale(self) -> float:
        """The smallest share of probability that any step of any sentence kept."""
        return float(torch.minimum(self.scale.amin(), self.final_scale.amin()))

    @cached_property
    def final_scale(self) -> Tensor:
        """The normaliser that remains once the end scores are included: (B,)."""
        return self.ordered.last(self.alpha) @ self.final

    def log_z(self) -> Tensor:
        ordered = self.ordered
        scales = self.scale.squeeze(2).log() + self.peaks.squeeze(2)  # (T, B)
        edges = ordered.last_step * self.edge_peak.squeeze(-1)  # (B,)
        log_z = torch.where(ordered.mask, scales, 0.0).sum(0) + edges + self.final_scale.log()
        return ordered.unsort(log_z + _peak(ordered.start) + _peak(ordered.end))

    @cached_property
    def beta(self) -> Tensor:
        """Scaled backward probabilities (T, B, C), zero in the padding."""
        beta = torch.zeros_like(self.alpha)
        final = self.final / self.final_scale.clamp(min=TINY).unsqueeze(1)  # (B, C)
        beta[self.ordered.last_step, self.ordered.rows] = final
        for t in range(len(self.ordered.active) - 1, 0, -1):
            n = self.ordered.active[t]
            beta[t - 1, :n] = self.back(self.psi[t, :n] * beta[t, :n] / self.scale[t, :n].clamp(min=TINY))
        return beta

    def nodes(self) -> Tensor:
        return self.ordered.unsort((self.alpha * self.beta).transpose(0, 1))

    def edge_factors(self) -> tuple[Tensor, Tensor]:
        """left and right (T - 1, B, C), with edge marginal = left[i] M[i, j] right[j]; zero in padding."""
        return self.alpha[:-1], self.psi[1:] * self.beta[1:] / self.scale[1:].clamp(min=TINY)

    def row_factors(self) -> tuple[Tensor, Tensor, Tensor]:
        right = self.psi * self.beta / self.scale.clamp(min=TINY)
        left, right = (self.ordered.unsort(part.transpose(0, 1)) for part in (self.alpha, right))
        return left, right, self.matrix

    def edges(self) -> Tensor:
        left, right = self.edge_factors()
        edges = left.unsqueeze(3) * self.matrix * right.unsqueeze(2)  # (T - 1, B, C, C)
        return self.ordered.unsort(edges.transpose(0, 1))

    def edge_sums(self) -> Tensor:
        left, right = self.edge_factors()
        return self.ordered.unsort(self.matrix * torch.einsum("tbi,tbj->bij", left, right))

    def edge_sum(self, weights: Tensor) -> Tensor:
        if self.matrix.dim() == 3:
            return torch.einsum("bij,b->ij", self.edge_sums(), weights)
        left, right = self.edge_factors()
        left = left * weights[self.ordered.order].view(1, -1, 1)
        return self.matrix * (left.flatten(0, 1).T @ right.flatten(0, 1))


class _LogRun(Run):
    """The same in log space: slower, but correct however far apart the scores are."""

    def __init__(self, ordered: _SortedScores) -> None:
        super().__init__(ordered)
        transitions = ordered.transitions
        self.transitions = transitions if transitions.dim() == 3 else transitions.expand(len(ordered.rows), -1, -1)
        self.alpha = torch.full_like(ordered.emissions, -torch.inf)  # (T, B, C)
        into = ordered.start
        for t, n in enumerate(ordered.active):
            if t > 0:
                into = (self.alpha[t - 1, :n].unsqueeze(2) + self.transitions[:n]).logsumexp(1)  # (n, C)
            self.alpha[t, :n] = into + ordered.emissions[t, :n]
        self.sorted_log_z = (ordered.last(self.alpha) + ordered.end).logsumexp(1)  # (B,)

    def log_z(self) -> Tensor:
        return self.ordered.unsort(self.sorted_log_z)

    @cached_property
    def beta(self) -> Tensor:
        """Backward log-probabilities (T, B, C), minus infinity in the padding."""
        ordered = self.ordered
        beta = torch.full_like(self.alpha, -torch.inf)
        beta[ordered.last_step, ordered.rows] = ordered.end
        for t in range(len(ordered.active) - 1, 0, -1):
            n = ordered.active[t]
            step = ordered.emissions[t, :n] + beta[t, :n]  # (n, C)
            beta[t - 1, :n] = (self.transitions[:n] + step.unsqueeze(1)).logsumexp(2)
        return beta

    def nodes(self) -> Tensor:
        log_nodes = self.alpha + self.beta - self.sorted_log_z.unsqueeze(1)  # (T, B, C)
        return self.ordered.unsort(_probabilities(log_nodes).transpose(0, 1))

    def _edges(self, t: int) -> Tensor:
        """Edge marginals of the step into t, (B, C, C), sorted."""
        right = self.ordered.emissions[t] + self.beta[t]  # (B, C)
        log_edges = self.alpha[t - 1].unsqueeze(2) + self.transitions + right.unsqueeze(1)
        return _probabilities(log_edges - self.sorted_log_z.view(-1, 1, 1))

    def row_factors(self) -> tuple[Tensor, Tensor, Tensor]:
        peak = _peak(self.alpha)  # (T, B, 1)
        right = self.ordered.emissions + self.beta - self.sorted_log_z.unsqueeze(1)
        right[1:] += peak[:-1]
        left, right = (self.ordered.unsort(part.exp().transpose(0, 1)) for part in (self.alpha - peak, right))
        return left, right.nan_to_num(), self.transitions[0].exp()

    def edges(self) -> Tensor:
        steps = [self._edges(t) for t in range(1, len(self.alpha))]
        edges = torch.stack(steps, 1) if steps else self.alpha.new_zeros(len(self.transitions), 0, *self.matrix_shape)
        return self.ordered.unsort(edges)

    @property
    def matrix_shape(self) -> torch.Size:
        return self.transitions.shape[1:]

    def edge_sums(self) -> Tensor:
        total = torch.zeros_like(self.transitions)
        for t in range(1, len(self.alpha)):
            total = total + self._edges(t)
        return self.ordered.unsort(total)

    def edge_sum(self, weights: Tensor) -> Tensor:
        return torch.einsum("bij,b->ij", self.edge_sums(), weights)


def _probabilities(logs: Tensor) -> Tensor:
    """exp, with zero for a sentence that allows no label sequence (minus infinity less minus infinity)."""
    return logs.exp().nan_to_num(nan=0.0)
