"""Gradients of losses in the weights of the whole tagger: of each sentence of a batch, of a sum, of a query.

For a linear layer with input rows a_r and output rows o_r, the gradient of the loss L of a sentence is

    dL/dM = sum_r (dL/do_r) a_r^T,   dL/dbias = sum_r dL/do_r

over the rows that belong to the sentence. The head is the last such layer, with the errors of its emissions as dL/do;
the gradients of transitions, start and end scores are kept as they are. In a table of embeddings the gradient is a sum
of dL/do over the rows that look an embedding up. All losses of a batch go through one backward pass, because a
sentence's loss depends on its own rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tagtrace._checks import OptionError
from tagtrace.influence.whole.weights import HEAD, Layer, Vector, layers_of, weights_of
from tagtrace.tagger import crf
from tagtrace.tagger.convex.objective import back
from tagtrace.tagger.encoders.base import Table
from tagtrace.tagger.rows import pad_rows, unpad_rows
from tagtrace.tagger.tagger import Example, Tagger, length_batches, lengths_of, padded_known, padded_labels

MAX_TOKENS, DEVICE_TOKENS = 8192, 65_536
"""Number of padded tokens that go through the tagger at once, on a CPU and on a GPU."""


CERTAIN = 1e-11
"""Labels of a query whose errors are smaller in sum are certain."""


def max_tokens(tagger: Tagger) -> int:
    return DEVICE_TOKENS if tagger.device.type == "cuda" else MAX_TOKENS


@dataclass(frozen=True)
class Outer:
    """The gradients of B sentences in a matrix, as factors: the rows of a sentence follow each other."""

    inputs: Tensor
    """a (R, d_in)"""
    outputs: Tensor
    """dL/do (R, d_out)"""
    counts: Tensor
    """Number of rows of each sentence, (B,), on the CPU."""

    def dense(self, some: slice) -> Tensor:
        """Of some sentences, (b, d_out d_in)."""
        ends, counts = self.counts.cumsum(0), self.counts[some]
        rows = slice(int(ends[some][0] - counts[0]), int(ends[some][-1]))
        left, right = (pad_rows(part[rows].float(), counts) for part in (self.outputs, self.inputs))
        return torch.bmm(left.transpose(1, 2), right).flatten(1)


@dataclass(frozen=True)
class Plain:
    """The gradients of B sentences in a few weights."""

    values: Tensor
    """(B, size)"""

    def dense(self, some: slice) -> Tensor:
        """Of some sentences, (b, size)."""
        return self.values[some].float()


@dataclass(frozen=True)
class Looked:
    """The gradients of B sentences in a table: each row that a sentence looks up has a gradient."""

    sentences: Tensor
    """(U,)"""
    rows: Tensor
    """Numbers of rows of the table, (U,)."""
    values: Tensor
    """(U, width)"""


Part = Outer | Plain | Looked


def batch_gradients(tagger: Tagger, batch: Sequence[Example]) -> dict[str, Part]:
    """The gradients of the examples' losses in each weight; layers that the losses do not use are left out."""
    layers = layers_of(tagger)
    with _watching(layers) as seen:
        features, errors = _backward(tagger, batch, torch.ones(len(batch)))
    tagger.zero_grad(set_to_none=True)
    owners = torch.cat(tagger.encoder.layer_rows([example.prepared for example in batch]))
    found: dict[str, Part] = {}
    for name, calls in seen.items():
        if calls and all(len(call) == 2 for call in calls):
            given, outputs = [call[0] for call in calls], torch.cat([call[1] for call in calls])
            _check_rows(name, owners, outputs)
            counts = [len(call[1]) for call in calls]
            found |= _layer_parts(name, layers[name], owners, given, outputs, counts, len(batch))
    lengths = lengths_of(batch)
    ones = torch.cat([features, features.new_ones(len(features), 1)], 1)  # the bias is the last column
    found[f"{HEAD}weight"] = Outer(ones, unpad_rows(errors.nodes, lengths), lengths)
    return found | {name: Plain(part) for name, part in _other_gradients(tagger, errors).items()}


def weighted_gradient(tagger: Tagger, examples: Sequence[Example], weights: Tensor) -> Vector:
    """sum_i w_i dL_i/dtheta for ``weights`` (N,); examples of weight 0 are not read."""
    tagger.zero_grad(set_to_none=True)
    head = {name: torch.zeros_like(value).flatten() for name, value in _head_weights(tagger).items()}
    used = weights.nonzero().squeeze(1).tolist()
    for indices in length_batches([examples[i].length for i in used], max_tokens(tagger)):
        batch, some = [examples[used[i]] for i in indices], weights[[used[i] for i in indices]]
        features, errors = _backward(tagger, batch, some)
        matrix = head[f"{HEAD}weight"]
        nodes = unpad_rows(errors.nodes * some.to(errors.nodes).view(-1, 1, 1), lengths_of(batch)).to(matrix)
        matrix += back(features, nodes).flatten()
        for name, part in _other_gradients(tagger, errors).items():
            head[name] += some.to(matrix) @ part.to(matrix)
    return {**_layer_gradients(tagger), **head}


@dataclass(frozen=True)
class QueryGradient:
    """The gradient of a conditional loss, and sum |dCL/d emissions|, which says how large it can be."""

    parts: Vector
    size: float

    def plus(self, other: QueryGradient) -> QueryGradient:
        """The gradient of the sum of both losses; changes this one."""
        for name, part in other.parts.items():
            self.parts[name] = self.parts[name].add_(part) if name in self.parts else part
        return QueryGradient(self.parts, self.size + other.size)


def conditional_gradient(tagger: Tagger, example: Example, start: int, stop: int) -> QueryGradient:
    """The gradient of -log p(labels of tokens start:stop | the other labels, x).

    It is the difference of two partial losses, of all labels and of the others; their derivatives are subtracted, in
    float64, before they go through the encoder. Below ``CERTAIN`` the difference is rounding, and 0 is returned.
    """
    tagger.zero_grad(set_to_none=True)
    with torch.enable_grad():
        features = tagger.encode([example])
    head, lengths = deepcopy(tagger.head).double(), torch.tensor([example.length] * 2)
    scores = head(features.detach().double().repeat(2, 1), lengths)
    known = torch.ones(2, example.length, dtype=torch.bool)
    known[1, start:stop] = False
    both = crf.partial_errors(scores, torch.tensor([example.labels] * 2), known)
    parts = (both.nodes, both.edges, both.first, both.last)
    errors = crf.Errors(both.losses, *(part[:1] - part[1:] for part in parts))
    if float(errors.nodes.abs().sum()) < CERTAIN:
        errors = crf.Errors(errors.losses, *(torch.zeros_like(part[:1]) for part in parts))
    nodes = errors.nodes[0]  # (T, C)
    features.backward((nodes @ head.weight[:, :-1].detach()).to(features))
    own = {name: part[0] for name, part in _other_gradients(tagger, errors).items()}
    own[f"{HEAD}weight"] = back(features.detach(), nodes).flatten()
    head = {name: part.to(tagger.head.weight) for name, part in own.items()}
    return QueryGradient({**_layer_gradients(tagger), **head}, float(nodes.abs().sum()))


def _backward(tagger: Tagger, batch: Sequence[Example], weights: Tensor) -> tuple[Tensor, crf.Errors]:
    """Features (n, D) and errors of a batch, and its losses times ``weights`` (B,) through the encoder backwards."""
    with torch.enable_grad():
        features = tagger.encode(batch)
    scores = tagger.head(features.detach().to(tagger.head.weight), lengths_of(batch))
    errors = crf.partial_errors(scores, padded_labels(batch), padded_known(batch))
    weighted = errors.nodes * weights.to(errors.nodes).view(-1, 1, 1)
    moved = unpad_rows(weighted, lengths_of(batch)) @ tagger.head.weight[:, :-1].detach().to(weighted)  # dL/df (n, D)
    features.backward(moved.to(features))
    return features.detach(), errors


def _head_weights(tagger: Tagger) -> dict[str, Tensor]:
    return {name: weight for name, weight in weights_of(tagger).items() if name.startswith(HEAD)}


def _layer_gradients(tagger: Tagger) -> Vector:
    """What backward passes have summed up in the weights of the encoder, which is then forgotten."""
    weights = {name: weight for name, weight in weights_of(tagger).items() if not name.startswith(HEAD)}
    found = {name: weight.grad.flatten() for name, weight in weights.items() if weight.grad is not None}
    tagger.zero_grad(set_to_none=True)
    return found


def _other_gradients(tagger: Tagger, errors: crf.Errors) -> Vector:
    """The gradients of transitions, start and end scores, (B, size) each."""
    parts = {"transitions": errors.edges.flatten(1), "start": errors.first, "end": errors.last}
    return {f"{HEAD}{name}": parts[name] for name, _ in tagger.head.named_parameters() if name != "weight"}


@contextmanager
def _watching(layers: dict[str, Layer]) -> Iterator[dict[str, list[list[Tensor]]]]:
    """What each call of each layer is given, and its output derivatives (R, d_out), filled in as they come.

    A linear layer is given rows (R, d_in), a table the numbers of its rows: one for each output row, or a bag of them,
    as (n, 2) with the numbers of the output rows beside them.
    """
    seen: dict[str, list[list[Tensor]]] = {name: [] for name in layers}

    def hook(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def watch(module: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
            call = [_looked_up(given) if isinstance(module, Table) else given[0].detach().flatten(0, -2)]
            seen[name].append(call)
            if output.requires_grad:
                output.register_hook(lambda gradient: call.append(gradient.detach().flatten(0, -2)))

        return watch

    handles = [layer.register_forward_hook(hook(name)) for name, layer in layers.items()]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _looked_up(given: tuple[Tensor, ...]) -> Tensor:
    """Pairs of a table's row and an output row, (n, 2)."""
    rows = given[0].flatten()
    if len(given) == 1:
        return torch.stack([rows, torch.arange(len(rows), device=rows.device)], 1)
    starts = given[1]
    sizes = torch.diff(starts, append=starts.new_tensor([len(rows)]))
    return torch.stack([rows, torch.arange(len(starts), device=rows.device).repeat_interleave(sizes)], 1)


def _check_rows(name: str, owners: Tensor, outputs: Tensor) -> None:
    if len(outputs) != len(owners):
        raise OptionError(
            f"the encoder's layer {name} is used several times, or not once for each token, so that influence cannot "
            "be computed through it; use influence on the head"
        )


def _layer_parts(
    name: str,
    layer: Layer,
    owners: Tensor,
    given: Sequence[Tensor],
    outputs: Tensor,
    num_rows: Sequence[int],
    num_sentences: int,
) -> dict[str, Part]:
    """The gradients in the weights of one layer; ``num_rows`` of the outputs are of each call."""
    if not isinstance(layer, nn.Linear):
        return {f"{name}.weight": _looked(owners, given, outputs, num_rows, len(layer.weight))}
    inputs, counts = torch.cat(list(given)), owners.bincount(minlength=num_sentences)
    order = owners.argsort(stable=True)
    if not bool((order.diff() > 0).all()):  # the rows of a sentence are not together
        there = order.to(inputs.device)
        inputs, outputs, owners = inputs[there], outputs[there], owners[order]
    found: dict[str, Part] = {f"{name}.weight": Outer(inputs, outputs, counts)}
    if layer.bias is not None:
        sums = outputs.new_zeros(num_sentences, outputs.shape[1]).index_add_(0, owners.to(outputs.device), outputs)
        found[f"{name}.bias"] = Plain(sums)
    return found


def _looked(
    owners: Tensor, calls: Sequence[Tensor], outputs: Tensor, num_rows: Sequence[int], table_size: int
) -> Looked:
    """Gradients of the same row in the same sentence summed."""
    pairs, first = list[Tensor](), 0
    for call, count in zip(calls, num_rows, strict=True):
        pairs.append(call + torch.tensor([0, first], device=call.device))
        first += count
    rows, places = torch.cat(pairs).unbind(1)
    keys, which = (owners.to(rows.device)[places] * table_size + rows).unique(return_inverse=True)
    values = outputs.new_zeros(len(keys), outputs.shape[1]).index_add_(0, which, outputs[places])
    return Looked(keys // table_size, keys % table_size, values)
