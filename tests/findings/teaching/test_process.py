"""The Gaussian process against its definition, dense formulas and sampling."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tagtrace.findings.teaching.process import learn, probability


def problem(n: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Prior mean (n,), covariance (n, n) and answers (n,)."""
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(n, n, generator=generator, dtype=torch.float64)
    mean = torch.randn(n, generator=generator, dtype=torch.float64)
    answers = (torch.rand(n, generator=generator) < 0.4).double()
    return mean, root @ root.T / n + 0.1 * torch.eye(n, dtype=torch.float64), answers


def test_the_maximum_is_where_the_gradient_vanishes() -> None:
    mean, covariance, answers = problem(30)
    found = learn(mean, covariance, answers)
    latent = mean + covariance @ found.slope
    torch.testing.assert_close(answers - torch.sigmoid(latent), found.slope, rtol=0, atol=1e-6)


def test_predictions_are_those_of_dense_matrices() -> None:
    mean, covariance, answers = problem(12)
    known, asked = torch.arange(8), torch.arange(8, 12)
    found = learn(mean[known], covariance[known][:, known], answers[known])
    there, variance = found.at(mean[asked], covariance[known][:, asked], covariance.diagonal()[asked])
    K, k = covariance[known][:, known], covariance[known][:, asked]
    latent = mean[known] + K @ found.slope
    W = torch.diag(torch.sigmoid(latent) * (1 - torch.sigmoid(latent)))
    torch.testing.assert_close(there, mean[asked] + k.T @ torch.linalg.solve(K, latent - mean[known]))
    expected = covariance[asked][:, asked] - k.T @ torch.linalg.inv(K + torch.linalg.inv(W)) @ k
    torch.testing.assert_close(variance, expected.diagonal())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_probabilities_are_near_those_of_the_exact_posterior(seed: int) -> None:
    """Sampled from the prior and weighted by the likelihood of the answers."""
    mean, covariance, answers = problem(4, seed)
    found = learn(mean[:3], covariance[:3, :3], answers[:3])
    believed = probability(*found.at(mean[3:], covariance[:3, 3:], covariance.diagonal()[3:]))
    noise = torch.randn(200_000, 4, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    p = torch.sigmoid(mean + noise @ torch.linalg.cholesky(covariance).T)
    weights = torch.where(answers[:3] > 0, p[:, :3], 1 - p[:, :3]).prod(1)
    assert float(believed) == pytest.approx(float((weights * p[:, 3]).sum() / weights.sum()), abs=0.02)
    assert abs(float(believed) - float(probability(mean[3:], covariance.diagonal()[3:]))) > 0.005  # it has learned


def test_contradicting_answers_and_huge_covariances_end() -> None:
    mean, ones = torch.zeros(40, dtype=torch.float64), torch.ones(40, 40, dtype=torch.float64)
    answers = (torch.arange(40) % 2).double()
    found = learn(mean, 1e4 * ones, answers)
    latent = mean + 1e4 * ones @ found.slope
    assert bool(latent.isfinite().all())
    assert float(latent[0]) == pytest.approx(0.0, abs=1e-3)


def test_little_knowledge_draws_probabilities_to_a_half() -> None:
    one, many = torch.tensor([2.0], dtype=torch.float64), torch.tensor([0.0, 9.0], dtype=torch.float64)
    sure, unsure = probability(one, many).tolist()
    assert 0.5 < unsure < sure


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_leaving_out_an_answer_is_learning_without_it(seed: int) -> None:
    mean, covariance, answers = problem(10, seed)
    found = probability(*learn(mean, covariance, answers).left_out())
    for i in range(10):
        rest = [j for j in range(10) if j != i]
        without = learn(mean[rest], covariance[rest][:, rest], answers[rest])
        alone = probability(*without.at(mean[[i]], covariance[rest][:, [i]], covariance.diagonal()[[i]]))
        assert float(found[i]) == pytest.approx(float(alone), abs=0.02)
    believed = torch.sigmoid(learn(mean, covariance, answers).latent)
    assert float((found - believed).abs().max()) > 0.1  # their own answers matter
