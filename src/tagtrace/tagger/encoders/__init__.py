"""Encoders: D features for each token; five kinds with one base class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from tagtrace._checks import OptionError
from tagtrace.data.sentence import Sentence
from tagtrace.tagger.encoders.base import Encoder
from tagtrace.tagger.encoders.lexical import Lexical, LexicalOptions
from tagtrace.tagger.encoders.pipeline import Pipeline
from tagtrace.tagger.encoders.precomputed import Precomputed
from tagtrace.tagger.encoders.transformer import Transformer
from tagtrace.tagger.encoders.vectors import Vectors

ENCODERS: dict[str, type[Encoder]] = {cls.kind: cls for cls in (Lexical, Vectors, Precomputed, Transformer, Pipeline)}

__all__ = [
    "ENCODERS",
    "Encoder",
    "Lexical",
    "LexicalOptions",
    "Pipeline",
    "Precomputed",
    "Transformer",
    "Vectors",
    "build_encoder",
]


def build_encoder(spec: str, sentences: Sequence[Sentence], seed: int = 0) -> Encoder:
    """A new encoder from its name: ``lexical``, ``vectors:FILE``, ``precomputed:DIR``, ``transformer:NAME`` or
    ``spacy:DIR``.

    ``sentences`` are the training data, from which ``vectors`` takes the parts of speech it knows; ``seed`` is for the
    initial weights of ``lexical``.
    """
    kind, _, source = spec.partition(":")
    if kind == "lexical" and not source:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return Lexical()
    if kind in ENCODERS and kind != "lexical" and not source:
        raise OptionError(f"encoder {spec!r}: give its location, for example {kind}:PATH")
    if kind == "vectors":
        return Vectors.fit(Path(source), sentences)
    if kind == "precomputed":
        return Precomputed(Path(source))
    if kind == "transformer":
        return Transformer(source)
    if kind == "spacy":
        return Pipeline(Path(source))
    raise OptionError(
        f"encoder {spec!r}: expected lexical, vectors:FILE, precomputed:DIR, transformer:NAME or spacy:DIR"
    )
