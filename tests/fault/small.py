"""What is large by default, made small in the process that runs commands: encoder, demo, an experiment."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

MODULES = (
    "tagtrace", "tagtrace.demo", "tagtrace.review.http.serve", "tagtrace.review.http.app", "fastapi.testclient",
    "matplotlib.pyplot", "matplotlib.backends.backend_svg", "matplotlib.backends.backend_agg",
    "tagtrace.reproduce.experiments.exact", "tagtrace.tagger.encoders.lexical", "tagtrace.tagger.encoders.vectors",
    "transformers.models.bert.modeling_bert", "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "torch._dynamo", "torch.distributed.tensor", "numpy.random", "importlib.readers", "importlib.resources.readers",
)  # fmt: skip
"""Imported beforehand, beside the commands."""
NUM_DOCUMENTS = 20


def make_small() -> None:
    """Encoders of a few numbers, a demo of a few documents, and an experiment on a few sentences.

    What the commands do with the disk is as it always is; only the sizes differ.
    """
    lexical: Any = import_module("tagtrace.tagger.encoders.lexical")
    lexical.LexicalOptions.__init__.__defaults__ = (64, 4, 4, 0.5, 0.5)
    products: Any = import_module("tagtrace.tagger.convex.products")
    products.USE_LOOPS = False  # they take seconds to compile
    demo: Any = import_module("tagtrace.demo")
    demo.generate = partial(demo.generate, num_documents=NUM_DOCUMENTS)
    demo.RECIPE = replace(demo.RECIPE, epochs=2, batch_size=8)
    setting: Any = import_module("tagtrace.reproduce.shared.setting")
    setting.Setting.options = _few


def _few(_: Any, name: str, kind: Any) -> Any:
    assert name == "exact"
    return kind(train_sentences=20, validation_sentences=8, shorter_than=60, queries=2, removals=3)
