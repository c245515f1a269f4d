"""A Gaussian process for yes-or-no questions: what answers to some of them say about the others.

Each question has a latent value f with prior mean m and prior covariance K, and the answer is yes with probability
sigma(f) = 1 / (1 + exp(-f)). The posterior of f given n answers is approximated by a Gaussian at its maximum (Laplace's
method; Rasmussen and Williams 2006, algorithms 3.1 and 3.2):

    f^ = argmax  sum_i log p(answer_i | f_i) - (f - m)^T K^-1 (f - m) / 2
    W = diag(sigma(f^) (1 - sigma(f^))),   B = I + W^1/2 K W^1/2
    mean* = m* + k*^T (answers - sigma(f^)),   variance* = k** - k*^T W^1/2 B^-1 W^1/2 k*

The probability of yes averages sigma over that Gaussian; MacKay's approximation sigma(mean / sqrt(1 + pi variance / 8))
is used. It draws probabilities towards 1/2 where little is known.

What would have been believed of an answered question without its own answer follows without learning again: with S the
posterior covariance and the answer's own part of the Gaussian, precision W_i around f^_i + (answer_i - p_i) / W_i,
divided out,

    variance_-i = 1 / (1 / S_ii - W_i),   mean_-i = f^_i - variance_-i (answer_i - p_i)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

MAX_STEPS = 100
CLOSE = 1e-9
"""Newton steps stop when the objective rises by less than this."""


@dataclass(frozen=True)
class Posterior:
    """The posterior of the latent values at the n questions that were answered."""

    latent: Tensor
    """f^, (n,)"""
    variance: Tensor
    """The diagonal of S, (n,)."""
    slope: Tensor
    """answers - sigma(f^), (n,)"""
    root: Tensor
    """W^1/2, (n,)"""
    factor: Tensor
    """The Cholesky factor of B, (n, n)."""

    def at(self, mean: Tensor, covariance: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and variance (q,) of other questions: prior ``mean`` (q,), K* ``covariance`` (n, q) with the
        answered ones, and prior ``variance`` (q,)."""
        left = torch.linalg.solve_triangular(self.factor, self.root.unsqueeze(1) * covariance, upper=False)  # (n, q)
        return mean + covariance.T @ self.slope, (variance - left.square().sum(0)).clamp(min=0.0)

    def left_out(self) -> tuple[Tensor, Tensor]:
        """Mean and variance (n,) of each answered question as they would be without its own answer, about."""
        variance = 1.0 / (1.0 / self.variance.clamp(min=1e-12) - self.root.square()).clamp(min=1e-12)
        return self.latent - variance * self.slope, variance


@torch.no_grad()
def learn(mean: Tensor, covariance: Tensor, answers: Tensor) -> Posterior:
    """The posterior given ``answers`` (n,), 1 for yes and 0 for no, prior ``mean`` (n,) and K ``covariance`` (n, n)."""
    weights, latent = torch.zeros_like(mean), mean  # f = m + K weights
    value = _objective(latent, answers, weights, latent - mean)
    for _ in range(MAX_STEPS):
        p = torch.sigmoid(latent)
        root, factor = _factored(p, covariance)
        right = root.square() * (latent - mean) + answers - p
        inner = torch.cholesky_solve((root * (covariance @ right)).unsqueeze(1), factor).squeeze(1)
        step, before = right - root * inner - weights, value
        for halvings in range(14):
            tried = weights + 0.5**halvings * step
            moved = mean + covariance @ tried
            now = _objective(moved, answers, tried, moved - mean)
            if now > value:
                weights, latent, value = tried, moved, now
                break
        if value - before < CLOSE:
            break
    p = torch.sigmoid(latent)
    root, factor = _factored(p, covariance)
    left = torch.linalg.solve_triangular(factor, root.unsqueeze(1) * covariance, upper=False)  # (n, n)
    variance = covariance.diagonal() - left.square().sum(0)
    return Posterior(latent, variance, answers - p, root, factor)


def probability(mean: Tensor, variance: Tensor) -> Tensor:
    """The probability of yes for latent values with these means and variances (q,)."""
    return torch.sigmoid(mean / (1.0 + math.pi / 8.0 * variance).sqrt())


def _objective(latent: Tensor, answers: Tensor, weights: Tensor, moved: Tensor) -> float:
    log_likelihood = (answers * latent - torch.nn.functional.softplus(latent)).sum()
    return float(log_likelihood - 0.5 * weights @ moved)


def _factored(p: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
    """W^1/2 (n,) and the Cholesky factor of B (n, n)."""
    root = (p * (1.0 - p)).clamp(min=1e-12).sqrt()
    matrix = root.unsqueeze(1) * covariance * root
    matrix.diagonal().add_(1.0)
    return root, torch.linalg.cholesky(matrix)
