"""The weights that influence goes through, each as a flat vector by its name, and a step along such vectors.

These are the linear layers of the encoder, its table of embeddings, and the head. Position embeddings and
normalisations are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from tagtrace.tagger.encoders.base import Table
from tagtrace.tagger.tagger import Tagger

HEAD = "head."
"""How the names of the head's weights begin."""

Layer = nn.Linear | Table
Vector = dict[str, Tensor]
"""A vector in the space of the weights: a flat part for each, by name."""


def layers_of(tagger: Tagger) -> dict[str, Layer]:
    """The layers of the encoder by name."""
    table = tagger.encoder.table_of_words()
    return {
        f"encoder.{name}": module
        for name, module in tagger.encoder.named_modules()
        if isinstance(module, nn.Linear) or (module is table and isinstance(module, Table))
    }


def weights_of(tagger: Tagger) -> dict[str, Tensor]:
    """The weights by name: matrix and, if there is one, bias of each layer, and all of the head's."""
    found: dict[str, Tensor] = {}
    for name, layer in layers_of(tagger).items():
        found |= {f"{name}.{part}": weight for part, weight in layer.named_parameters(recurse=False)}
    return found | {f"{HEAD}{name}": weight for name, weight in tagger.head.named_parameters()}


def inner(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> float:
    """The product of two vectors."""
    return sum(float((part.double() * right[name].double()).sum()) for name, part in left.items())


@contextmanager
def moved_along(tagger: Tagger, direction: Mapping[str, Tensor], step: float) -> Iterator[None]:
    """Inside the block, the weights are theta + step V; afterwards exactly theta again."""
    weights = weights_of(tagger)
    before = {name: weights[name].detach().clone() for name in direction}
    try:
        with torch.no_grad():
            for name, vector in direction.items():
                weights[name].add_(step * vector.view_as(weights[name]))
        yield
    finally:
        with torch.no_grad():
            for name, value in before.items():
                weights[name].copy_(value)
