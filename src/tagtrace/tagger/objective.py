"""The convex training objective of a head on frozen features, with its exact derivatives.

    J(theta) = (1/N) sum_i L(z_i, theta) + (lambda/2) |theta|^2,   lambda = l2 / N

over theta = (W, A[, start, end]), N chains, in float64. With node marginals p_t, edge marginals q_t and
f_t = (F_t, 1), the gradient is (1/N) sum (p_t - onehot(y_t)) f_t^T for W and (1/N) sum (q_t - onehot) for A, plus
lambda theta. The Hessian product differentiates the marginals along a direction (``tangents``); the Hessian does
not depend on the labels.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace._checks import TrainingError
from tagtrace.tagger import crf
from tagtrace.tagger.head import Head
from tagtrace.tagger.recursions import ScaledRun, run
from tagtrace.tagger.rows import Rows, pad_rows, unpad_rows
from tagtrace.tagger.tangents import Tangent, marginal_tangent

DOUBLE_LIMIT = 2**31
"""Features are held in float64 up to this many bytes; larger ones are converted chunk by chunk."""


@dataclass(frozen=True)
class Evaluation:
    """J and its gradient (P,) at some theta."""

    value: float
    gradient: Tensor

    @property
    def max_gradient(self) -> float:
        return float(self.gradient.abs().max())


class Objective:
    """J for the shape of ``head`` on ``rows``; theta is passed in, the head is only read."""

    def __init__(self, head: Head, rows: Rows, l2: float) -> None:
        if not bool(rows.features.isfinite().all()):
            raise TrainingError("the features hold NaN or infinite values; check the encoder")
        self.head = deepcopy(head).double().to(rows.features.device)
        self.num_chains = len(rows.lengths)
        self.l2 = l2 / self.num_chains  # lambda
        rows = rows.sorted_by_length()
        if rows.features.numel() * 8 <= DOUBLE_LIMIT:
            rows = Rows(rows.features.double(), rows.labels, rows.lengths)
        self.chunks = list(rows.chunks(2**18 if rows.features.is_cuda else 2**15))

    def evaluate(self, theta: Tensor) -> Evaluation:
        """J(theta) and its gradient."""
        self.head.set_flat(theta)
        self.head.zero_grad()
        total = 0.0
        for chunk in self.chunks:
            scores = self.head(chunk.features.double(), chunk.lengths)
            loss = crf.joint_loss(scores, pad_rows(chunk.labels, chunk.lengths)).sum() / self.num_chains
            loss.backward()
            total += float(loss.detach())
        gradient = torch.cat([_grad(parameter).flatten() for parameter in self.head.parameters()])
        value = total + 0.5 * self.l2 * float(theta.square().sum())
        return Evaluation(value, gradient + self.l2 * theta)

    def hessian(self, theta: Tensor) -> HessianProduct:
        """The Hessian of J at theta, as a linear map."""
        self.head.set_flat(theta)
        return HessianProduct(self)


class HessianProduct:
    """v -> H v at the theta the objective's head holds when this is made; its recursions are kept."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.head = objective.head
        with torch.no_grad():
            scores = [self.head(chunk.features.double(), chunk.lengths) for chunk in objective.chunks]
            self.runs = [_scaled(run(each)) for each in scores]

    @torch.no_grad()
    def __call__(self, vectors: Tensor) -> Tensor:
        """H v for v (P,), or for Q of them at once, (Q, P)."""
        if vectors.dim() == 1:
            return self(vectors.unsqueeze(0)).squeeze(0)
        parts = self.head.unflatten(vectors)
        product = {name: torch.zeros_like(part) for name, part in parts.items()}
        edges, start, end = (self._part(parts, name, len(vectors)) for name in ("transitions", "start", "end"))
        weight = parts["weight"].flatten(0, 1)  # (Q C, D + 1)
        for chunk, chains in zip(self.objective.chunks, self.runs, strict=True):
            features = chunk.features.double()
            emissions = torch.addmm(weight[:, -1], features, weight[:, :-1].T)  # (n, Q C)
            emissions = emissions.unflatten(1, (len(vectors), -1))  # (n, Q, C)
            moved = marginal_tangent(chains, Tangent(pad_rows(emissions, chunk.lengths), edges, start, end))
            nodes = unpad_rows(moved.nodes, chunk.lengths).flatten(1)  # (n, Q C)
            rows = torch.cat([nodes.T @ features, nodes.sum(0).unsqueeze(1)], 1)  # (Q C, D + 1)
            product["weight"] += rows.unflatten(0, (len(vectors), -1))
            for name, value in (("transitions", moved.edge_sum), ("start", moved.first), ("end", moved.last)):
                if name in product:
                    product[name] += value
        flat = torch.cat([part.flatten(1) for part in product.values()], 1)
        return flat / self.objective.num_chains + self.objective.l2 * vectors

    def _part(self, parts: dict[str, Tensor], name: str, num_vectors: int) -> Tensor:
        """A named part of Q directions; zeros for what the head does not learn."""
        zero = torch.zeros_like(getattr(self.head, name))
        return parts[name] if name in parts else zero.expand(num_vectors, *zero.shape)


def _scaled(chains: object) -> ScaledRun:
    """The tangents need scaled probabilities; scores too far apart for them mean that a fit has diverged."""
    if not isinstance(chains, ScaledRun):
        raise TrainingError("the scores differ by more than 300 at one token: raise l2 or scale the features")
    return chains


def _grad(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
