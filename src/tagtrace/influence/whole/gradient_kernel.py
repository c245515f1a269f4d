"""The kernel of the training sentences: the products of their gradients in the weights of the whole tagger.

    K_ij = g_i^T S g_j,   S = diag(rate / sqrt(v)),   v = mean(g)^2 + var(g) / batch size

S is about the step that Adam takes in each weight: v is the mean square of the gradient of a batch, from all sentences
at one theta, without dropout and momentum. The influence of sentence
i on a query q is g_q^T S^(1/2) (F + lambda I)^-1 S^(1/2) g_i with the weighted empirical Fisher matrix of the sentences

    F = sum_i w_i S^(1/2) g_i g_i^T S^(1/2),   w_i = 1 / |S^(1/2) g_i| (up to a factor).

A token's Hessian grows with the probability p of error, g g^T with p^2; w makes up for the difference. By the matrix
inversion lemma all of this needs K and k_i = g_q^T S g_i alone:

    (F + lambda I)^-1 S^(1/2) g_q = (S^(1/2) g_q - sum_i c_i S^(1/2) g_i) / lambda,
    c = W^(1/2) (W^(1/2) K W^(1/2) + lambda I)^-1 W^(1/2) k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tagtrace._progress import Progress
from tagtrace.influence.whole.layers import HEAD, Factored, linear_layers, sentence_factors
from tagtrace.tagger.tagger import Example, Tagger
from tagtrace.tagger.training import TrainOptions

DAMPING = 1.0
"""lambda, as a share of the mean of w_i K_ii."""
TINY = 1e-8
"""Adam's epsilon."""
CPU_BYTES, DEVICE_SHARE = 2**28, 0.15
"""Memory for the factors of some layers, and again for the gradients of some sentences in one layer: bytes, and on a
GPU a share of what is free."""


@dataclass(frozen=True)
class GradientKernel:
    """K of N sentences, and S for each layer, in the order of ``Factored.dense``."""

    matrix: Tensor
    """(N, N) float32"""
    scales: dict[str, Tensor]

    @cached_property
    def weights(self) -> Tensor:
        """w (N,), 1 for a sentence of mean size."""
        sizes = self.matrix.diagonal().double()
        return (sizes / sizes.mean()).clamp(min=1e-12).rsqrt()

    @cached_property
    def damping(self) -> float:
        """lambda"""
        return DAMPING * float((self.weights * self.matrix.diagonal()).mean())

    @cached_property
    def _factor(self) -> Tensor:
        root = self.weights.sqrt()
        matrix = self.matrix.double() * root * root.unsqueeze(1)
        matrix.diagonal().add_(self.damping)
        return torch.linalg.cholesky(matrix)

    def coefficients(self, products: Tensor) -> Tensor:
        """c (Q, N) for k (Q, N)."""
        root = self.weights.sqrt()
        return (torch.cholesky_solve((products.double() * root).T, self._factor).T * root).to(products)

    def scores(self, products: Tensor) -> Tensor:
        """The influence of every sentence for k (Q, N), (Q, N)."""
        return (products.double() - self.coefficients(products.double()) @ self.matrix.double()) / self.damping


@torch.no_grad()
def sentence_kernel(
    tagger: Tagger, examples: Sequence[Example], recipe: TrainOptions, progress: Progress | None = None
) -> GradientKernel:
    """The kernel of the examples; ``progress`` counts layers."""
    names = [HEAD, *linear_layers(tagger)]
    matrix = torch.zeros(len(examples), len(examples), device=tagger.device)
    scales: dict[str, Tensor] = {}
    for some in _groups(tagger, examples, names):
        for name, factored in sentence_factors(tagger, examples, some).items():
            rate = _relative_rate(tagger, recipe) if name == HEAD else 1.0
            scales[name] = rate * _adam_scale(factored, recipe.batch_size)
            _add_products(matrix, factored, scales[name])
        if progress is not None:
            progress(len(scales), len(names))
    return GradientKernel(matrix.cpu(), scales)


def _relative_rate(tagger: Tagger, recipe: TrainOptions) -> float:
    """The head's learning rate, relative to the encoder's."""
    rate = recipe.learning_rate or tagger.encoder.learning_rate
    return (recipe.head_learning_rate or rate) / rate


def _groups(tagger: Tagger, examples: Sequence[Example], names: Sequence[str]) -> list[list[str]]:
    """Layers whose factors fit into memory together; a row is assumed to be a token and a half."""
    layers, num_rows = linear_layers(tagger), 1.5 * sum(example.length for example in examples)
    groups, used = list[list[str]](), float("inf")
    for name in names:
        layer = layers.get(name)
        width = tagger.head.dim + tagger.head.num_labels if layer is None else layer.in_features + layer.out_features
        size = 4 * num_rows * width
        if used + size > _num_bytes(tagger.device):
            groups.append([])
            used = 0.0
        groups[-1].append(name)
        used += size
    return groups


def _num_bytes(device: torch.device) -> int:
    return int(DEVICE_SHARE * torch.cuda.mem_get_info(device)[1]) if device.type == "cuda" else CPU_BYTES


def _blocks(factored: Factored) -> list[slice]:
    """Sentences whose gradients fit into memory together."""
    count = len(factored.counts)
    size = max(_num_bytes(factored.inputs.device) // (4 * factored.size), 1)
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def _adam_scale(factored: Factored, batch_size: int) -> Tensor:
    """1 / sqrt(v) for the mean of ``batch_size`` sentences, (size,)."""
    count, total, squares = len(factored.counts), torch.zeros(()), torch.zeros(())
    for some in _blocks(factored):
        gradients = factored.dense(some)
        total, squares = total.to(gradients) + gradients.sum(0), squares.to(gradients) + gradients.square().sum(0)
    mean = total / count
    variance = (squares / count - mean.square()).clamp(min=0.0)
    size = (mean.square() + variance / batch_size).sqrt()
    return torch.where(size > 0, 1.0 / (size + TINY), 0.0)  # what no sentence teaches does not move


def _add_products(matrix: Tensor, factored: Factored, scale: Tensor) -> None:
    """Add g_i^T S g_j to (N, N)."""
    root, blocks = scale.sqrt(), _blocks(factored)
    for place, rows in enumerate(blocks):
        left = factored.dense(rows).mul_(root)
        for columns in blocks[: place + 1]:
            right = left if columns == rows else factored.dense(columns).mul_(root)
            product = left @ right.T
            matrix[rows, columns] += product
            if columns != rows:
                matrix[columns, rows] += product.T
