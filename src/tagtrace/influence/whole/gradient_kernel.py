"""The kernel of training sentences: the products of their gradients in the weights of the whole tagger.

    K_ij = g_i^T S g_j,   S = diag(rate / sqrt(v)),   v = mean(g)^2 + var(g) / batch size

S is about the step that Adam takes in each weight: v is the mean square of the gradient of a batch, from all sentences
at one theta, without dropout and momentum. In a table of embeddings S is half way between that and the identity,
c / v^(1/4), with c such that the mean of g^T S g stays the same: most rows are rare, and for them 1 / sqrt(v) is so
large that sentences would hardly be alike in anything but rare words. The influence of sentence i on a query q is
g_q^T S^(1/2) (F + lambda I)^-1 S^(1/2) g_i with the weighted empirical Fisher matrix of the sentences

    F = sum_i w_i S^(1/2) g_i g_i^T S^(1/2),   w_i = 1 / |S^(1/2) g_i| (up to a factor).

A token's Hessian grows with the probability p of error, g g^T with p^2; w makes up for the difference. By the matrix
inversion lemma all of this needs K and k_i = g_q^T S g_i alone:

    (F + lambda I)^-1 S^(1/2) g_q = (S^(1/2) g_q - sum_i c_i S^(1/2) g_i) / lambda,
    c = W^(1/2) (W^(1/2) K W^(1/2) + lambda I)^-1 W^(1/2) k.

K is that of sketches of SKETCH numbers: each entry of S^(1/2) g gets a random sign and is added to number (its place
modulo SKETCH), which keeps products up to an error of about |g_i| |g_j| / sqrt(SKETCH).

Of more than MOST sentences, F has M, evenly spaced, with weights w N / M. A sentence z then has r_z = N / M parts in F
or none, where with all sentences it would have one: by the same lemma its influence is multiplied by its *share*

    1 / (1 - (r_z - 1) w_z h_z),   h_z = g_z^T S^(1/2) (F + lambda I)^-1 S^(1/2) g_z.

That of a segment is multiplied by the share of its sentence, which is right as far as it is most of that sentence's g.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from tagtrace._progress import Progress
from tagtrace.influence.whole.gradients import Looked, Outer, Part, Plain, batch_gradients
from tagtrace.influence.whole.weights import HEAD, Vector, layers_of, weights_of
from tagtrace.tagger.encoders.base import Table
from tagtrace.tagger.tagger import Example, Tagger, length_batches
from tagtrace.tagger.training import TrainOptions

DAMPING = 1.0
"""lambda, as a share of the mean of w_i K_ii."""
TINY = 1e-8
"""Adam's epsilon."""
SKETCH = 65_536
MOST = 4_000
"""Sentences that F is made of, at most: evenly spaced among all."""
CPU_BYTES, DEVICE_BYTES = 2**27, 2**30
BYTES_PER_TOKEN = 2**17
"""Of ``memory_of`` for a padded token, whose inputs and outputs of all layers are kept."""


@dataclass(frozen=True)
class GradientKernel:
    """K of the sentences ``members``, and S for each weight, rounded to bfloat16."""

    matrix: Tensor
    """(M, M) float32"""
    scales: Vector
    members: Tensor
    """Numbers of sentences, (M,)."""
    shares: Tensor
    """Of all sentences, (N,) float64; 1 if all are members."""
    strength: float = DAMPING
    """lambda, as a share of the mean of w_i K_ii."""

    @cached_property
    def weights(self) -> Tensor:
        """w (M,), 1 for a sentence of mean size."""
        return self._weights_of(self.matrix.diagonal().double())

    def _weights_of(self, sizes: Tensor) -> Tensor:
        """w of sentences with these K_ii."""
        return (sizes / self.matrix.diagonal().double().mean()).clamp(min=1e-12).rsqrt()

    @property
    def repeats(self) -> float:
        """N / M"""
        return len(self.shares) / len(self.members)

    @cached_property
    def _roots(self) -> Tensor:
        """sqrt(w N / M), (M,)"""
        return (self.weights * self.repeats).sqrt()

    @cached_property
    def damping(self) -> float:
        """lambda"""
        return self.strength * float((self.weights * self.matrix.diagonal()).mean())

    @cached_property
    def _factor(self) -> Tensor:
        matrix = self.matrix.double() * self._roots * self._roots.unsqueeze(1)
        matrix.diagonal().add_(self.damping)
        return torch.linalg.cholesky(matrix)

    def coefficients(self, products: Tensor) -> Tensor:
        """c (Q, M) for k (Q, M)."""
        root = self._roots
        return (torch.cholesky_solve((products.double() * root).T, self._factor).T * root).to(products)

    def shares_of(self, products: Tensor, sizes: Tensor, repeats: float) -> Tensor:
        """The shares (n,) of sentences with r = ``repeats``, from products with the members (n, M) and themselves."""
        products, sizes = products.double(), sizes.double()
        leverages = (sizes - (self.coefficients(products) * products).sum(1)) / self.damping  # h
        return 1.0 / (1.0 - (repeats - 1.0) * self._weights_of(sizes) * leverages.clamp(min=0.0))

    def scores(self, products: Tensor) -> Tensor:
        """The influence of the members for k (Q, M), (Q, M)."""
        return (products.double() - self.coefficients(products.double()) @ self.matrix.double()) / self.damping


Batches = Iterator[tuple[list[int], dict[str, Part]]]
"""Numbers of some sentences, and their gradients in each weight."""


@torch.no_grad()
def sentence_kernel(
    tagger: Tagger,
    examples: Sequence[Example],
    recipe: TrainOptions,
    progress: Progress | None = None,
    left_out: Collection[str] = (),
) -> GradientKernel:
    """The kernel of the examples, of at most ``MOST`` of them; ``progress`` counts sentences, which are read twice.

    Weights whose names are ``left_out`` take no part.
    """
    step, count = -(-len(examples) // MOST), len(examples)
    members, others = torch.arange(0, count, step), [i for i in range(count) if i % step]
    some, rest = [examples[i] for i in members.tolist()], [examples[i] for i in others]
    first, second, third = (_counted(progress, 2 * count, before) for before in (0, count, count + len(some)))
    with fast_products():
        scales = _adam_scales(tagger, count, recipe, sentence_gradients(tagger, examples, first))
        scales = {name: scale for name, scale in scales.items() if name not in left_out}
        sketch, sketches = _Sketch(scales), torch.zeros(len(some), SKETCH, device=tagger.device)
        for indices, gradients in sentence_gradients(tagger, some, second):
            sketches[torch.tensor(indices, device=tagger.device)] = sketch.of_batch(gradients, len(indices))
        shares = torch.ones(count, dtype=torch.float64)
        kernel = GradientKernel(_gram(sketches).cpu(), scales, members, shares)
        if rest:
            shares[members] = kernel.shares_of(kernel.matrix, kernel.matrix.diagonal(), kernel.repeats)
        for indices, gradients in sentence_gradients(tagger, rest, third):
            rows = sketch.of_batch(gradients, len(indices))
            found = kernel.shares_of((rows @ sketches.T).cpu(), rows.square().sum(1).cpu(), 0.0)
            shares[[others[i] for i in indices]] = found
    return kernel


def _gram(rows: Tensor) -> Tensor:
    """rows rows^T, (M, M), of which only a half is computed."""
    found, edges = rows.new_empty(len(rows), len(rows)), torch.linspace(0, len(rows), 9).long().tolist()
    for start, stop in pairwise(edges):
        products = rows[start:] @ rows[start:stop].T
        found[start:, start:stop], found[start:stop, start:] = products, products.T
    return found


def _counted(progress: Progress | None, total: int, before: int) -> Progress | None:
    return None if progress is None else lambda done, _: progress(before + done, total)


def sentence_gradients(tagger: Tagger, examples: Sequence[Example], progress: Progress | None = None) -> Batches:
    """The gradients of all examples, batch by batch."""
    done, most = 0, max(memory_of(tagger.device) // (4 * SKETCH), 1)  # whose sketches fit into memory
    num_tokens = memory_of(tagger.device) // BYTES_PER_TOKEN
    batches = length_batches([example.length for example in examples], num_tokens)
    for indices in (some[start : start + most] for some in batches for start in range(0, len(some), most)):
        yield indices, batch_gradients(tagger, [examples[i] for i in indices])
        done += len(indices)
        if progress is not None:
            progress(done, len(examples))


def blocks(part: Outer | Plain, count: int) -> Iterator[tuple[slice, Tensor]]:
    """The gradients (b, size) of some of ``count`` sentences at a time: so many that they fit into memory."""
    size = part.values.shape[1] if isinstance(part, Plain) else part.inputs.shape[1] * part.outputs.shape[1]
    device = part.values.device if isinstance(part, Plain) else part.inputs.device
    room = max(memory_of(device) // (4 * size), 1)
    for start in range(0, count, room):
        some = slice(start, min(start + room, count))
        yield some, part.dense(some)


def memory_of(device: torch.device) -> int:
    """Bytes for the gradients of some sentences in one matrix; on a GPU of less than 64 GiB, a 64th of its memory."""
    if device.type != "cuda":
        return CPU_BYTES
    return min(DEVICE_BYTES, torch.cuda.get_device_properties(device).total_memory // 64)


@contextmanager
def fast_products() -> Iterator[None]:
    """On a GPU, products of float32 are rounded to ten bits inside the block: enough for sums of so many."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _adam_scales(tagger: Tagger, count: int, recipe: TrainOptions, batches: Batches) -> dict[str, Tensor]:
    """rate / sqrt(v) for each weight, relative to the encoder's rate."""
    moments: dict[str, tuple[Tensor, Tensor]] = {}
    weights = weights_of(tagger)
    for indices, gradients in batches:
        for name, part in gradients.items():
            if name not in moments:
                zeros = torch.zeros(weights[name].numel(), device=tagger.device)
                moments[name] = zeros, zeros.clone()
            _add_moments(part, len(indices), *moments[name])
    rate = recipe.learning_rate or tagger.encoder.learning_rate
    of_head = (recipe.head_learning_rate or rate) / rate
    tables = {f"{name}.weight" for name, layer in layers_of(tagger).items() if isinstance(layer, Table)}
    scales = {
        name: _adam_scale(total / count, squares / count, recipe.batch_size)
        for name, (total, squares) in moments.items()
    }
    scales |= {name: _evened(scales[name], moments[name][1]) for name in tables & scales.keys()}
    return {name: (of_head * one if name.startswith(HEAD) else one).bfloat16() for name, one in scales.items()}


def _add_moments(part: Part, count: int, total: Tensor, squares: Tensor) -> None:
    """Add the sums of gradients and of their squares."""
    if isinstance(part, Looked):
        values = part.values.float()
        total.view(-1, values.shape[1]).index_add_(0, part.rows, values)
        squares.view(-1, values.shape[1]).index_add_(0, part.rows, values.square())
        return
    for _, dense in blocks(part, count):
        total += dense.sum(0)
        squares += dense.square().sum(0)  # faster than a norm along the rows


def _adam_scale(mean: Tensor, square: Tensor, batch_size: int) -> Tensor:
    """1 / sqrt(v) for the mean of ``batch_size`` sentences, (size,)."""
    variance = (square - mean.square()).clamp(min=0.0)
    size = (mean.square() + variance / batch_size).sqrt()
    return torch.where(size > 0, 1.0 / (size + TINY), 0.0)  # what no sentence teaches does not move


def _evened(scale: Tensor, squares: Tensor) -> Tensor:
    """c sqrt(S), with c such that sum g^2 S stays the same."""
    root = scale.sqrt()
    return root * (float((squares * scale).sum()) / max(float((squares * root).sum()), 1e-30))


class _Sketch:
    """Sketches S^(1/2) g; exact, up to signs, if there are at most SKETCH weights."""

    def __init__(self, scales: Vector) -> None:
        generator, first = torch.Generator().manual_seed(0), 0  # the same on every device
        self.roots: Vector = {}
        """S^(1/2) with random signs."""
        self.first: dict[str, int] = {}
        """The place of each part's first number."""
        for name, scale in sorted(scales.items()):
            signs = torch.randint(0, 2, scale.shape, generator=generator, dtype=torch.int8) * 2 - 1
            self.roots[name] = scale.float().sqrt() * signs.to(scale.device)
            is_small = len(scale) < SKETCH
            self.first[name] = first if is_small else 0
            first = (first + is_small * len(scale)) % SKETCH

    def of_batch(self, gradients: dict[str, Part], count: int) -> Tensor:
        """Of the ``count`` sentences of a batch, (count, SKETCH)."""
        found = self.roots[f"{HEAD}weight"].new_zeros(count, SKETCH)
        for name, part in gradients.items():
            if name not in self.roots:
                continue
            if isinstance(part, Looked):
                self._add_looked(found, name, part)
                continue
            for some, dense in blocks(part, count):
                _add_folded(found[some], dense.mul_(self.roots[name]), self.first[name])
        return found

    def _add_looked(self, found: Tensor, name: str, part: Looked) -> None:
        width = part.values.shape[1]
        places = part.rows.unsqueeze(1) * width + torch.arange(width, device=found.device)  # (U, width)
        values = part.values.float() * self.roots[name][places]
        there = part.sentences.unsqueeze(1) * SKETCH + (places + self.first[name]) % SKETCH
        found.view(-1).index_add_(0, there.flatten(), values.flatten())


def _add_folded(found: Tensor, values: Tensor, first: int) -> None:
    """Add (b, size) to (b, SKETCH): each value at its place, counted from ``first``, modulo SKETCH."""
    size = values.shape[1]
    if first + size <= SKETCH:
        found[:, first : first + size] += values
        return
    whole = size // SKETCH * SKETCH if first == 0 else 0
    if whole:
        found += values[:, :whole].view(len(values), -1, SKETCH).sum(1)
    rest = F.pad(values[:, whole:], (first, -(first + size - whole) % SKETCH))
    found += rest.view(len(values), -1, SKETCH).sum(1)
