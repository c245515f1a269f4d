"""The convex training objective of a head on frozen features, with its exact derivatives.

    J(theta) = (1/N) sum_i L(z_i, theta) + (lambda/2) |theta|^2,   lambda = l2 / N

over theta = (W, A[, start, end]), N sentences, in float64. With node marginals p_t, edge marginals q_t and f_t = (F_t,
1), the gradient is (1/N) sum (p_t - onehot(y_t)) f_t^T for W and (1/N) sum (q_t - onehot) for A, plus lambda theta. The
Hessian product (``hessian_product``) differentiates the marginals along a direction; it does not depend on labels.

A constant added to all logits of a token changes nothing, and a token's errors sum to zero, so only the C - 1
differences to the first label are computed. Features are read in their stored dtype, a chunk at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace._checks import TrainingError
from tagtrace.tagger.convex.chains import Chain, make_chain
from tagtrace.tagger.convex.products import compiled_loops, gather, project
from tagtrace.tagger.convex.threads import share
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import RowParts, Rows

CHUNK, DEVICE_CHUNK = 2**11, 2**15
"""Maximum number of tokens in a chunk (or one longer sentence), on the CPU and on a GPU: its sentences are padded."""


@dataclass(frozen=True)
class Evaluation:
    """J and its gradient (P,) at theta, with the marginals they came from, one chain for each chunk."""

    theta: Tensor
    value: float
    gradient: Tensor
    chains: list[Chain]

    @property
    def max_gradient(self) -> float:
        return float(self.gradient.abs().max())

    @property
    def is_scaled(self) -> bool:
        """Whether a Hessian product can be computed here: no label that is needed is hundreds below another one."""
        return all(chain.is_scaled for chain in self.chains)


class Objective:
    """J for a head shaped like ``head`` on ``rows``; theta is an argument.

    ``head`` is not changed. Lengths stay on the CPU, everything else is on the device of the features.
    """

    head: Head
    device: torch.device
    num_sentences: int
    l2: float
    chunks: list[Rows]
    counts: dict[str, Tensor]

    def __init__(self, head: Head, rows: Rows | RowParts, l2: float) -> None:
        parts = (rows,) if isinstance(rows, Rows) else rows.parts
        self.device = parts[0].features.device
        self.head = deepcopy(head).double().to(self.device)
        self.num_sentences = sum(len(part.lengths) for part in parts)
        self.l2 = l2 / self.num_sentences  # lambda
        is_ragged = head.options.kind == "softmax" or (self.device.type == "cpu" and compiled_loops() is not None)
        in_order = [part if is_ragged else part.sorted_by_length() for part in parts]
        size = DEVICE_CHUNK if self.device.type == "cuda" else CHUNK
        self.chunks = [_long(chunk) for part in in_order for chunk in part.chunks(size)]
        self.counts = _count_labels(self.chunks, self.head)

    @torch.no_grad()
    def evaluate(self, theta: Tensor) -> Evaluation:
        """J(theta) and its gradient."""
        head = self.head.at(theta)  # its own: other threads may evaluate elsewhere
        parts = share(lambda some: self._sums(head, some), len(self.chunks), is_cuda=theta.is_cuda)
        total, gradient = sum(part.loss for part in parts), torch.stack([part.gradient for part in parts]).sum(0)
        for name, count in self.counts.items():
            head.unflatten(gradient)[name].sub_(count)
            total -= float((head.get_parameter(name) * count).sum())
        value = total / self.num_sentences + 0.5 * self.l2 * float(theta.square().sum())
        chains = [chain for part in parts for chain in part.chains]
        return Evaluation(theta, value, gradient / self.num_sentences + self.l2 * theta, chains)

    def _sums(self, head: Head, some: range) -> _Sums:
        """Sums over some chunks, without the scores of given transitions, first and last labels."""
        gradient = {name: torch.zeros_like(part) for name, part in head.unflatten(head.flat()).items()}
        loss, chains = 0.0, list[Chain]()
        is_finite = bool(head.weight.isfinite().all())
        for chunk in self.chunks[some.start : some.stop]:
            emissions = logits(chunk.features, head.weight.detach())
            if is_finite and not bool(emissions.isfinite().all()):
                raise TrainingError("the features contain NaN or infinite values; check the encoder")
            chains.append(make_chain(head, emissions, chunk.lengths))
            errors, labels = chains[-1].nodes.clone(), chunk.labels.unsqueeze(1)  # (n, C), (n, 1)
            loss += float(chains[-1].log_z.sum() - emissions.gather(1, labels).sum())
            errors.scatter_add_(1, labels, errors.new_full((1, 1), -1.0).expand(len(labels), 1))
            gradient["weight"] += back(chunk.features, errors)
            add_edges(gradient, chains[-1])
        return _Sums(loss, torch.cat([part.flatten() for part in gradient.values()]), chains)


@dataclass(frozen=True)
class _Sums:
    """The losses of some sentences and their gradient (P,), with what they came from."""

    loss: float
    gradient: Tensor
    chains: list[Chain]


def logits(features: Tensor, weight: Tensor, rows: Tensor | None = None) -> Tensor:
    """W (F, 1) minus that of the first label, (n, C), for W (C, D + 1); of all tokens or of ``rows`` (n,)."""
    others = weight[1:] - weight[:1]  # (C - 1, D + 1)
    found = project(features, others[:, :-1], rows).add_(others[:, -1])
    return torch.cat([found.new_zeros(len(found), 1), found], 1)


def back(features: Tensor, errors: Tensor, rows: Tensor | None = None) -> Tensor:
    """sum_t e_t (F_t, 1)^T, (C, D + 1), for errors (n, C) that sum to zero over labels."""
    others = errors[:, 1:]
    found = torch.cat([gather(features, others, rows), others.sum(0).unsqueeze(1)], 1)
    return torch.cat([-found.sum(0, keepdim=True), found])


def add_edges(gradient: dict[str, Tensor], chain: Chain) -> None:
    """Add the expected transitions, first and last labels to the parts of ``gradient`` that the head learns."""
    if "transitions" in gradient:
        gradient["transitions"] += chain.edge_sum()
    if "start" in gradient:
        gradient["start"] += chain.nodes[chain.first_rows.to(chain.nodes.device)].sum(0)
        gradient["end"] += chain.nodes[chain.last_rows.to(chain.nodes.device)].sum(0)


def _count_labels(chunks: Sequence[Rows], head: Head) -> dict[str, Tensor]:
    """How often each transition, first and last label occurs: (C, C), (C,), (C,), of those that the head learns."""
    C = head.num_labels
    found = {name: torch.zeros_like(part) for name, part in head.unflatten(head.flat()).items() if name != "weight"}
    for chunk in chunks:
        last = (chunk.lengths.cumsum(0) - 1).to(chunk.labels.device)
        first = last - chunk.lengths.to(last.device) + 1
        follows = torch.ones_like(chunk.labels, dtype=torch.bool)
        follows[first] = False
        pairs = (chunk.labels.roll(1) * C + chunk.labels)[follows]
        for name, labels in (("transitions", pairs), ("start", chunk.labels[first]), ("end", chunk.labels[last])):
            if name in found:
                found[name] += labels.bincount(minlength=found[name].numel()).view_as(found[name])
    return found


def _long(chunk: Rows) -> Rows:
    return Rows(chunk.features, chunk.labels.long(), chunk.lengths)
