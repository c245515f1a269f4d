"""The gradient of each sentence's loss in the weights of the whole tagger, layer by layer.

For a linear layer with input rows a_r and output rows o_r, the gradient of the loss L of a sentence is

    dL/dM = sum_r (dL/do_r) a_r^T,   dL/dbias = sum_r dL/do_r

over the rows that belong to the sentence, so that it is kept as two factors per row. The head is the last such layer,
with the errors of its emissions as dL/do; the gradients of transitions, start and end scores are kept as they are.
Embeddings and normalisations are left out. All losses of a batch go through one backward pass, because a sentence's
loss depends on its own rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tagtrace._checks import OptionError
from tagtrace.tagger import crf
from tagtrace.tagger.convex.objective import back
from tagtrace.tagger.rows import pad_rows, unpad_rows
from tagtrace.tagger.tagger import Example, Tagger, length_batches, lengths_of, padded_known, padded_labels

HEAD = "head"
MAX_TOKENS = 8192
"""Number of padded tokens that go through the tagger at once."""


@dataclass(frozen=True)
class Factored:
    """The gradients of N sentences in one layer, as factors: the rows of a sentence follow each other."""

    inputs: Tensor
    """a (R, d_in)"""
    outputs: Tensor
    """dL/do (R, d_out)"""
    counts: Tensor
    """Number of rows of each sentence, (N,), on the CPU."""
    others: Tensor
    """Gradients in parameters that are not part of a linear layer, (N, E)."""
    has_bias: bool = True

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.outputs.shape[1] * (self.inputs.shape[1] + self.has_bias) + self.others.shape[1]

    def dense(self, some: slice) -> Tensor:
        """The gradients of some sentences, (n, size): matrix with the bias as its last column, then the others."""
        ends = self.counts.cumsum(0)
        first, last = int(ends[some.start] - self.counts[some.start]), int(ends[some.stop - 1])
        counts = self.counts[some]
        left, right = (pad_rows(rows[first:last].float(), counts) for rows in (self.outputs, self.inputs))
        matrix = torch.einsum("nro,nri->noi", left, right)  # (n, d_out, d_in)
        columns = [matrix, left.sum(1).unsqueeze(2)] if self.has_bias else [matrix]
        return torch.cat([torch.cat(columns, 2).flatten(1), self.others[some].to(matrix)], 1)


def linear_layers(tagger: Tagger) -> dict[str, nn.Linear]:
    """The linear layers of the encoder by name."""
    return {name: module for name, module in tagger.encoder.named_modules() if isinstance(module, nn.Linear)}


def sentence_factors(tagger: Tagger, examples: Sequence[Example], names: Sequence[str]) -> dict[str, Factored]:
    """The gradients of the examples' losses in the layers ``names``; layers that the loss does not use are left out."""
    parts: dict[str, list[tuple[Tensor, Tensor, Tensor]]] = {name: [] for name in names}
    others: list[Tensor] = []
    places: list[int] = []
    watched = {name: layer for name, layer in linear_layers(tagger).items() if name in parts}
    for indices in length_batches([example.length for example in examples], MAX_TOKENS):
        batch = [examples[i] for i in indices]
        with _watching(watched) as seen:
            features, errors = _backward(tagger, batch, torch.ones(len(batch)))
        owners = torch.cat(tagger.encoder.layer_rows([example.prepared for example in batch]))
        for name, calls in seen.items():
            if calls and all(len(call) == 2 for call in calls):
                parts[name].append(_grouped(name, owners, *(torch.cat(each) for each in zip(*calls, strict=True))))
        if HEAD in parts:
            lengths = lengths_of(batch)
            parts[HEAD].append((features, unpad_rows(errors.nodes, lengths), lengths))
            others.append(_other_gradients(tagger, errors))
        places += indices
    tagger.zero_grad(set_to_none=True)
    return {
        name: _in_order(some, others if name == HEAD else [], places, name == HEAD or watched[name].bias is not None)
        for name, some in parts.items()
        if some
    }


def batch_errors(tagger: Tagger, features: Tensor, batch: Sequence[Example]) -> crf.Errors:
    """The losses of the known labels and their derivatives in the scores."""
    scores = tagger.head(features.to(tagger.head.weight), lengths_of(batch))
    return crf.partial_errors(scores, padded_labels(batch), padded_known(batch))


def _backward(tagger: Tagger, batch: Sequence[Example], weights: Tensor) -> tuple[Tensor, crf.Errors]:
    """Features (n, D) and errors of a batch, and its losses times ``weights`` (B,) through the encoder backwards."""
    with torch.enable_grad():
        features = tagger.encode(batch)
    errors = batch_errors(tagger, features.detach(), batch)
    weighted = errors.nodes * weights.to(errors.nodes).view(-1, 1, 1)
    moved = unpad_rows(weighted, lengths_of(batch)) @ tagger.head.weight[:, :-1].detach().to(weighted)  # dL/df (n, D)
    features.backward(moved.to(features))
    return features.detach(), errors


def weighted_gradient(tagger: Tagger, examples: Sequence[Example], weights: Tensor) -> dict[str, Tensor]:
    """sum_i w_i dL_i/dtheta for each layer, as one vector in the order of ``Factored.dense``.

    ``weights`` are (N,); examples of weight 0 are not read.
    """
    layers = linear_layers(tagger)
    tagger.zero_grad(set_to_none=True)
    weight = torch.zeros_like(tagger.head.weight)
    others = weight.new_zeros(_num_others(tagger))
    used = weights.nonzero().squeeze(1).tolist()
    for indices in length_batches([examples[i].length for i in used], MAX_TOKENS):
        batch, some = [examples[used[i]] for i in indices], weights[[used[i] for i in indices]]
        features, errors = _backward(tagger, batch, some)
        nodes = unpad_rows(errors.nodes * some.to(errors.nodes).view(-1, 1, 1), lengths_of(batch)).to(weight)
        weight += back(features, nodes)
        others += some.to(weight) @ _other_gradients(tagger, errors).to(weight)
    found = {name: _joined(layer) for name, layer in layers.items() if layer.weight.grad is not None}
    tagger.zero_grad(set_to_none=True)
    return {**found, HEAD: torch.cat([weight.flatten(), others])}


@dataclass(frozen=True)
class QueryGradient:
    """The gradient of a conditional loss: by layer, and sum |dCL/d emissions|, which says how large it can be."""

    parts: dict[str, Tensor]
    size: float


def conditional_gradient(tagger: Tagger, example: Example, start: int, stop: int) -> QueryGradient:
    """The gradient of -log p(labels of tokens start:stop | the other labels, x).

    It is the difference of two partial losses, of all labels and of the others; their derivatives are subtracted, in
    float64, before they go through the encoder, so that nothing is lost where the labels are nearly certain.
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
    nodes = errors.nodes[0]  # (T, C)
    features.backward((nodes @ head.weight[:, :-1].detach()).to(features))
    own = torch.cat([back(features.detach(), nodes).flatten(), _other_gradients(tagger, errors)[0]]).to(
        tagger.head.weight.dtype
    )
    layers = linear_layers(tagger).items()
    found = {name: _joined(layer) for name, layer in layers if layer.weight.grad is not None}
    tagger.zero_grad(set_to_none=True)
    return QueryGradient({**found, HEAD: own}, float(nodes.abs().sum()))


def _joined(layer: nn.Linear) -> Tensor:
    """The gradient of matrix and bias as one vector."""
    parts = [part.grad for part in _parts(layer)]
    return torch.cat(
        [part.unsqueeze(1) if part.dim() == 1 else part for part in parts if part is not None], 1
    ).flatten()


@contextmanager
def moved_along(tagger: Tagger, direction: dict[str, Tensor], step: float) -> Iterator[None]:
    """Inside the block, the weights are theta + step V; afterwards exactly theta again."""
    layers = linear_layers(tagger)
    parameters = [tagger.head.weight, *_other_parameters(tagger)]
    parameters += [part for name in direction if name != HEAD for part in _parts(layers[name])]
    before = [parameter.detach().clone() for parameter in parameters]
    try:
        with torch.no_grad():
            for name, vector in direction.items():
                _move(tagger, layers, name, step * vector)
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(parameters, before, strict=True):
                parameter.copy_(value)


def _move(tagger: Tagger, layers: dict[str, nn.Linear], name: str, change: Tensor) -> None:
    if name == HEAD:
        size, start = tagger.head.weight.numel(), tagger.head.weight.numel()
        tagger.head.weight.add_(change[:size].view_as(tagger.head.weight))
        for parameter in _other_parameters(tagger):
            parameter.add_(change[start : start + parameter.numel()].view_as(parameter))
            start += parameter.numel()
        return
    layer = layers[name]
    matrix = change.view(layer.out_features, -1)  # (d_out, d_in), and the bias if there is one
    layer.weight.add_(matrix[:, : layer.in_features])
    if layer.bias is not None:
        layer.bias.add_(matrix[:, -1])


def _parts(layer: nn.Linear) -> list[Tensor]:
    return [layer.weight] if layer.bias is None else [layer.weight, layer.bias]


def _other_parameters(tagger: Tagger) -> list[Tensor]:
    """Transitions, start and end scores: those that the head learns."""
    return [parameter for name, parameter in tagger.head.named_parameters() if name != "weight"]


def _num_others(tagger: Tagger) -> int:
    return sum(parameter.numel() for parameter in _other_parameters(tagger))


def _other_gradients(tagger: Tagger, errors: crf.Errors) -> Tensor:
    """The gradients of these, (B, E)."""
    parts = {"transitions": errors.edges.flatten(1), "start": errors.first, "end": errors.last}
    named = [parts[name] for name, _ in tagger.head.named_parameters() if name != "weight"]
    return torch.cat(named, 1) if named else errors.first[:, :0]


@contextmanager
def _watching(layers: dict[str, nn.Linear]) -> Iterator[dict[str, list[list[Tensor]]]]:
    """The inputs (R, d_in) and output derivatives (R, d_out) of each call of each layer, filled in as they come."""
    seen: dict[str, list[list[Tensor]]] = {name: [] for name in layers}

    def watch(name: str, inputs: Tensor, output: Tensor) -> None:
        call = [inputs.detach().flatten(0, -2)]
        seen[name].append(call)
        if output.requires_grad:
            output.register_hook(lambda gradient: call.append(gradient.detach().flatten(0, -2)))

    def hook(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        return lambda _, given, output: watch(name, given[0], output)

    handles = [layer.register_forward_hook(hook(name)) for name, layer in layers.items()]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _grouped(name: str, owners: Tensor, inputs: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows with those of a sentence together, and their numbers (B,)."""
    if not len(inputs) == len(outputs) == len(owners):
        raise OptionError(
            f"the encoder's layer {name} is used several times, or not once for each token, so that influence cannot "
            "be computed through it; use influence on the head"
        )
    order = owners.argsort(stable=True)
    counts = owners.bincount()
    if bool((order.diff() > 0).all()):
        return inputs, outputs, counts
    there = order.to(inputs.device)
    return inputs[there], outputs[there], counts


def _in_order(
    parts: list[tuple[Tensor, Tensor, Tensor]], others: list[Tensor], places: list[int], has_bias: bool
) -> Factored:
    """Batches joined, with the sentences in their own order; ``places`` are the numbers of those in the batches."""
    inputs, outputs, counts = (torch.cat(each) for each in zip(*parts, strict=True))
    order = torch.tensor(places).argsort()
    starts = counts.cumsum(0) - counts
    rows = torch.cat([torch.arange(int(starts[i]), int(starts[i] + counts[i])) for i in order.tolist()])
    there = rows.to(inputs.device)
    joined = torch.cat(others)[order.to(inputs.device)] if others else inputs.new_zeros(len(order), 0)
    return Factored(inputs[there], outputs[there], counts[order], joined, has_bias)
