"""Weights of spaCy's models: plain arrays out of msgpack, which must have the shapes that the configuration says.

spaCy takes names, sizes and settings from these files too, and computes with them in C without asking whether they fit.
Here only arrays of float32 are taken from them, and only in place of arrays of the same shape.
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tagtrace._documents import read_regular_file


def read_msgpack(path: Path) -> dict[str, Any]:
    """The map in a file. Only plain values are made of it: no hook runs, and numpy arrays stay maps."""
    from srsly import msgpack  # noqa: PLC0415  (an optional dependency)

    found = msgpack.unpackb(read_regular_file(path), raw=False, object_pairs_hook=dict)
    if not isinstance(found, dict):
        raise ValueError(f"{path.name} is no map")
    return found


def load_weights(path: Path, model: Any, sample: Any) -> None:
    """Give a model, as built from its configuration, the weights in a file; ``sample`` is a text for its first run.

    Raises ValueError, or what a damaged file makes Python raise, unless file and configuration agree.
    """
    message = read_msgpack(path)
    nodes = list(model.walk())
    if [node["name"] for node in message["nodes"]] != [node.name for node in nodes]:
        raise ValueError(f"the layers in {path.name} are not those of the configuration")
    _check_size(nodes, path.stat().st_size)
    state = np.random.get_state()  # weights are drawn before they are replaced
    try:
        model.initialize(sample)
    finally:
        np.random.set_state(state)
    for node, attrs, params in zip(nodes, message["attrs"], message["params"], strict=True):
        _check_attrs(path, node, attrs)
        for name in node.param_names:
            node.set_param(name, _array(path, params.get(name), node.get_param(name).shape))


def _check_size(nodes: list[Any], num_bytes: int) -> None:
    """Raise unless the weights of a configuration take about as much memory as those in its file."""
    num_numbers = sum(
        prod(node.maybe_get_dim(name) or 1 for name in node.dim_names) for node in nodes if node.param_names
    )
    if num_numbers > num_bytes + 1_000_000:
        raise ValueError(f"the configuration asks for {num_numbers:,} weights, and there are far fewer")


def _check_attrs(path: Path, node: Any, attrs: dict[str, bytes]) -> None:
    """Raise if a setting of a layer, such as the seed of its hashes, was another one when its weights were saved."""
    from srsly import msgpack  # noqa: PLC0415

    for name, value in node.attrs.items():
        if isinstance(value, int | str | list) and name in attrs:
            saved = msgpack.unpackb(attrs[name], raw=False, object_pairs_hook=dict)
            if saved != value:
                raise ValueError(f"the {name} of a layer is {value!r}, and {saved!r} in {path.name}")


def _array(path: Path, saved: Any, shape: tuple[int, ...]) -> np.ndarray:
    is_array = isinstance(saved, dict) and saved.get(b"nd") is True and saved.get(b"type") == "<f4"
    if not is_array or tuple(saved[b"shape"]) != tuple(shape):
        raise ValueError(f"{path.name} has no float32 array of shape {tuple(shape)} where the configuration has one")
    return np.frombuffer(saved[b"data"], dtype="<f4").reshape(shape).copy()
