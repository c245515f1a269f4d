"""A small index of invented data, built with an untrained tagger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tagtrace.data import LabelSet, read_corpus
from tagtrace.data.invented import generate, write_invented
from tagtrace.index import Index, IndexOptions, build_index
from tagtrace.tagger import HeadOptions, Lexical, LexicalOptions, new_tagger, save_tagger
from tagtrace.tagger.tagger import Unit


def small_index(
    folder: Path,
    name: str = "index",
    *,
    width: int = 4,
    head: HeadOptions | None = None,
    unit: Unit = "sentence",
    overwrite: bool = False,
    **options: Any,
) -> Index:
    """The index ``folder/name``; the data (``train.conll``, ``dev.conll``) and the tagger are beside it."""
    if not (folder / "train.conll").exists():
        write_invented(generate(num_documents=20), folder)
    corpus = read_corpus(folder / "train.conll")
    torch.manual_seed(0)
    encoder = Lexical(LexicalOptions(buckets=64, width=width, hidden=width))
    tagger = new_tagger(encoder, LabelSet.from_sentences(corpus.sentences, "iob2"), head, unit)
    if not (folder / "tagger").exists():
        save_tagger(tagger, folder / "tagger")
    return build_index(
        tagger, corpus, folder / name, IndexOptions(**options), tagger_path=folder / "tagger", overwrite=overwrite
    )
