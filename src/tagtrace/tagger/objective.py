"""The convex training objective of a head on frozen features, with its exact derivatives.

    J(theta) = (1/N) sum_i L(z_i, theta) + (lambda/2) |theta|^2,   lambda = l2 / N

over theta = (W, A[, start, end]), N sentences, in float64. With node marginals p_t, edge marginals q_t and f_t = (F_t,
1), the gradient is (1/N) sum (p_t - onehot(y_t)) f_t^T for W and (1/N) sum (q_t - onehot) for A, plus lambda theta. The
Hessian product differentiates the marginals along a direction (``tangents``); the Hessian does not depend on labels.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from tagtrace._checks import TrainingError
from tagtrace.tagger import crf
from tagtrace.tagger.head import Head
from tagtrace.tagger.recursions import Run, ScaledRun, run
from tagtrace.tagger.rows import Rows, pad_rows, unpad_rows
from tagtrace.tagger.scores import Scores
from tagtrace.tagger.tangents import Tangent, marginal_tangent

TOGETHER = 2**22
"""Maximum number of values (thetas x tokens x labels) in memory for several gradients."""
DOUBLE_LIMIT = 2**31
"""Features are converted to float64 at once up to this many bytes, otherwise chunk by chunk."""


@dataclass(frozen=True)
class Evaluation:
    """J and its gradient (P,) at theta, with the recursions they came from, one per chunk."""

    theta: Tensor
    value: float
    gradient: Tensor
    runs: list[Run]

    @property
    def max_gradient(self) -> float:
        return float(self.gradient.abs().max())

    @property
    def is_scaled(self) -> bool:
        """Whether a Hessian product can be computed here: no two scores of a token differ by hundreds."""
        return all(isinstance(recursion, ScaledRun) for recursion in self.runs)


class Objective:
    """J for a head shaped like ``head`` on ``rows``; theta is an argument, and ``head`` is not changed."""

    head: Head
    num_sentences: int
    l2: float
    chunks: list[Rows]

    def __init__(self, head: Head, rows: Rows, l2: float) -> None:
        if not bool(rows.features.isfinite().all()):
            raise TrainingError("the features contain NaN or infinite values; check the encoder")
        self.head = deepcopy(head).double().to(rows.features.device)
        self.num_sentences = len(rows.lengths)
        self.l2 = l2 / self.num_sentences  # lambda
        rows = rows.sorted_by_length()
        if rows.features.numel() * 8 <= DOUBLE_LIMIT:
            rows = Rows(rows.features.double(), rows.labels, rows.lengths)
        self.chunks = list(rows.chunks(2**18 if rows.features.is_cuda else 2**15))

    @torch.no_grad()
    def evaluate(self, theta: Tensor) -> Evaluation:
        """J(theta) and its gradient."""
        self.head.set_flat(theta)
        gradient = {name: torch.zeros_like(part) for name, part in self.head.unflatten(theta).items()}
        total, runs = 0.0, []
        for chunk in self.chunks:
            features = chunk.features.double()
            scores = self.head(features, chunk.lengths)
            runs.append(run(scores))
            labels = pad_rows(chunk.labels, chunk.lengths)  # (B, T)
            total += float((runs[-1].log_z() - crf.path_score(scores, labels)).sum())
            errors = _add_errors(gradient, runs[-1], labels)  # (n, C)
            gradient["weight"] += torch.cat([errors.T @ features, errors.sum(0).unsqueeze(1)], 1)
        flat = torch.cat([part.flatten() for part in gradient.values()]) / self.num_sentences + self.l2 * theta
        value = total / self.num_sentences + 0.5 * self.l2 * float(theta.square().sum())
        return Evaluation(theta, value, flat, runs)

    def gradients(self, thetas: Tensor) -> Tensor:
        """The gradients of J at Q thetas (Q, P), sharing passes over the features as far as memory allows, (Q, P)."""
        longest = max(len(chunk.labels) for chunk in self.chunks)
        together = max(TOGETHER // (longest * self.head.num_labels), 1)
        return torch.cat([self._gradients(part) for part in thetas.split(together)])

    @torch.no_grad()
    def _gradients(self, thetas: Tensor) -> Tensor:
        gradients = self.head.unflatten(torch.zeros_like(thetas))
        weights = self.head.unflatten(thetas)["weight"].flatten(0, 1)  # (Q C, D + 1)
        for chunk in self.chunks:
            features = chunk.features.double()
            emissions = torch.addmm(weights[:, -1:], weights[:, :-1], features.T).unflatten(0, (len(thetas), -1))
            labels = pad_rows(chunk.labels, chunk.lengths)  # (B, T)
            errors = torch.empty_like(emissions)  # (Q, C, n)
            for q, theta in enumerate(thetas):
                self.head.set_flat(theta)
                scores: Scores = self.head.scores(emissions[q].T, chunk.lengths)
                errors[q] = _add_errors({name: part[q] for name, part in gradients.items()}, run(scores), labels).T
            flat = errors.flatten(0, 1)  # (Q C, n)
            rows = torch.cat([flat @ features, flat.sum(1, keepdim=True)], 1)  # (Q C, D + 1)
            gradients["weight"] += rows.unflatten(0, (len(thetas), -1))
        return torch.cat([part.flatten(1) for part in gradients.values()], 1) / self.num_sentences + self.l2 * thetas

    def hessian(self, where: Evaluation | Tensor) -> HessianProduct:
        """The Hessian of J at theta, as a linear map."""
        return HessianProduct(self, where if isinstance(where, Evaluation) else self.evaluate(where))


def _add_errors(gradient: dict[str, Tensor], recursion: Run, labels: Tensor) -> Tensor:
    """Node errors (n, C), expected labels minus the labels; those of edges and ends are added to ``gradient``."""
    lengths = recursion.scores.lengths
    onehot = F.one_hot(labels, recursion.scores.emissions.shape[2]).double()  # (B, T, C)
    errors = recursion.nodes() - onehot  # (B, T, C)
    if "transitions" in gradient:
        inside = (torch.arange(1, labels.shape[1]) < lengths.unsqueeze(1)).to(onehot)  # (B, T - 1)
        counts = torch.einsum("bti,bt,btj->ij", onehot[:, :-1], inside, onehot[:, 1:])
        gradient["transitions"] += recursion.edge_sum(onehot.new_ones(len(labels))) - counts
    if "start" in gradient:
        gradient["start"] += errors[:, 0].sum(0)
        gradient["end"] += errors[torch.arange(len(labels)), lengths - 1].sum(0)
    return unpad_rows(errors, lengths)


class HessianProduct:
    """v -> H v at one theta."""

    objective: Objective
    theta: Tensor
    head: Head
    runs: list[ScaledRun]

    def __init__(self, objective: Objective, where: Evaluation) -> None:
        if not where.is_scaled:
            raise TrainingError("the scores of one token differ by hundreds; raise l2 or scale the features down")
        self.objective, self.theta = objective, where.theta
        self.head = deepcopy(objective.head)
        self.head.set_flat(where.theta)
        self.runs = [recursion for recursion in where.runs if isinstance(recursion, ScaledRun)]

    @torch.no_grad()
    def __call__(self, vectors: Tensor) -> Tensor:
        """H v for v (P,), or for Q of them at once, (Q, P)."""
        if vectors.dim() == 1:
            return self(vectors.unsqueeze(0)).squeeze(0)
        parts = self.head.unflatten(vectors)
        product = {name: torch.zeros_like(part) for name, part in parts.items()}
        edges, start, end = (self._part(parts, name, len(vectors)) for name in ("transitions", "start", "end"))
        weight = parts["weight"].flatten(0, 1)  # (Q C, D + 1)
        for chunk, recursion in zip(self.objective.chunks, self.runs, strict=True):
            features = chunk.features.double()
            emissions = torch.addmm(weight[:, -1], features, weight[:, :-1].T)  # (n, Q C)
            emissions = emissions.unflatten(1, (len(vectors), -1))  # (n, Q, C)
            moved = marginal_tangent(recursion, Tangent(pad_rows(emissions, chunk.lengths), edges, start, end))
            nodes = unpad_rows(moved.nodes, chunk.lengths).flatten(1)  # (n, Q C)
            rows = torch.cat([nodes.T @ features, nodes.sum(0).unsqueeze(1)], 1)  # (Q C, D + 1)
            product["weight"] += rows.unflatten(0, (len(vectors), -1))
            for name, value in (("transitions", moved.edge_sum), ("start", moved.first), ("end", moved.last)):
                if name in product:
                    product[name] += value
        flat = torch.cat([part.flatten(1) for part in product.values()], 1)
        return flat / self.objective.num_sentences + self.objective.l2 * vectors

    def _part(self, parts: dict[str, Tensor], name: str, num_vectors: int) -> Tensor:
        """A named part of Q directions; zeros for parts that the head does not learn."""
        zero = torch.zeros_like(getattr(self.head, name))
        return parts[name] if name in parts else zero.expand(num_vectors, *zero.shape)
