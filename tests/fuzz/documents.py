"""Every JSON document that is read by a schema: all subclasses of ``Document``, and examples of them."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from random import Random
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import tagtrace
from tagtrace._documents import Document, parse_document
from tests.fuzz import pieces


def schemas() -> list[type]:
    """The schemas of all modules."""
    for module in pkgutil.walk_packages(tagtrace.__path__, "tagtrace."):
        if not module.name.startswith(("tagtrace.reproduce", "tagtrace.influence.scoring.gpu")):
            importlib.import_module(module.name)
    return sorted(_below(Document), key=lambda kind: kind.__qualname__)


def _below(kind: type) -> Iterator[type]:
    for one in kind.__subclasses__():
        # a dataclass with slots is a copy of the class that was defined, which is a subclass too
        if one.__module__.startswith("tagtrace.") and getattr(sys.modules[one.__module__], one.__name__) is one:
            yield one
        yield from _below(one)


def document(rng: Random, kind: type) -> bytes:
    """A document of a schema, mostly with damage."""
    text = pieces.damaged_json(rng, example(rng, kind), rng.choice((0.0, 0.3, 1.0)))
    return pieces.bytes_of(rng, text)


def example(rng: Random, kind: Any) -> Any:
    """A JSON value of a type."""
    if is_dataclass(kind):
        parts = _fields(kind)
        with_default = {name for name, _, has_default in parts if has_default and rng.random() < 0.7}
        return {name: example(rng, hint) for name, hint, _ in parts if name not in with_default}
    if get_args(kind):
        return _example_of_parts(rng, get_origin(kind), get_args(kind))
    simple = {int: rng.randint(0, 9), float: rng.random(), bool: rng.random() < 0.5, str: rng.choice(pieces.TOKENS)}
    return simple.get(kind)


@cache
def _fields(kind: Any) -> list[tuple[str, Any, bool]]:
    """The name and the type of each field, and whether it has a default."""
    hints = get_type_hints(kind)
    return [(one.name, hints[one.name], one.default is not MISSING) for one in fields(kind)]


def _example_of_parts(rng: Random, origin: Any, inner: tuple[Any, ...]) -> Any:
    if origin in (Union, UnionType):
        return example(rng, rng.choice(inner))
    if origin is Literal:
        return rng.choice(inner)
    if origin in (dict, Mapping):
        return {rng.choice(pieces.TOKENS): example(rng, inner[1]) for _ in range(rng.randint(0, 3))}
    if origin is tuple and inner[-1:] != (...,):
        return [example(rng, one) for one in inner]
    return [example(rng, inner[0]) for _ in range(rng.randint(0, 3))]


def parse(data: bytes, kind: type) -> None:
    """What was parsed has the fields of its schema."""
    found = parse_document(data, kind)
    assert isinstance(found, kind)
