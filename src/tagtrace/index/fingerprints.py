"""Fingerprints that tie an index to its tagger and data, wherever these are stored."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tagtrace._places import RecordedPlace
from tagtrace.data.corpus import Corpus
from tagtrace.index.manifest import DataRecord, TaggerRecord
from tagtrace.tagger.encoders import Encoder, Pipeline, Transformer, Vectors
from tagtrace.tagger.encoders.transformer import Pooling
from tagtrace.tagger.tagger import Tagger


def tagger_fingerprint(tagger: Tagger) -> str:
    """sha256 of the weights, the label set and the options of a tagger.

    A ``precomputed`` encoder has no weights: its arrays are identified by the head that was fitted to them, and by the
    checksums that are compared when such a tagger is loaded.
    """
    description = {
        "labels": tagger.labels.to_json(),
        "unit": tagger.unit,
        "head": tagger.head.options.to_json(),
        "encoder": {"kind": tagger.encoder.kind, "dim": tagger.encoder.dim, **_encoder_options(tagger.encoder)},
    }
    digest = hashlib.sha256(_json(description))
    for name, value in sorted({**tagger.state_dict(), **_loose_tensors(tagger.encoder)}.items()):
        digest.update(_json([name, str(value.dtype), list(value.shape)]))
        digest.update(_bytes(value))
    return digest.hexdigest()


def content_fingerprint(corpus: Corpus) -> str:
    """sha256 of the sentences: a corpus may have fewer sentences than its file, or different labels."""
    digest = hashlib.sha256()
    for sentence in corpus.sentences:
        digest.update(_json([sentence.id, sentence.document, sentence.tokens, sentence.labels]))
    return digest.hexdigest()


def describe_tagger(tagger: Tagger, path: str | Path | None, index: Path) -> TaggerRecord:
    """The tagger as recorded in the manifest: its path, also relative to the index, and its fingerprint."""
    place = None if path is None else RecordedPlace.of(path, index)
    return TaggerRecord(
        path=None if place is None else place.path,
        from_index=None if place is None else place.relative,
        fingerprint=tagger_fingerprint(tagger),
        encoder=tagger.encoder.kind,
        pooling=_pooling(tagger.encoder),
    )


def describe_corpus(corpus: Corpus, index: Path) -> DataRecord:
    """The data as recorded in the manifest."""
    place = RecordedPlace.of(corpus.path, index)
    return DataRecord(
        path=place.path,
        from_index=place.relative,
        fingerprint=corpus.fingerprint,
        content=content_fingerprint(corpus),
        options=corpus.options,
        num_sentences=len(corpus.sentences),
    )


def _encoder_options(encoder: Encoder) -> dict[str, Any]:
    """Options that change an encoder's features, apart from its tensors."""
    if isinstance(encoder, Transformer):
        return encoder.reading()
    if isinstance(encoder, Vectors):
        return {"words": encoder.words, "pos": encoder.pos}
    if isinstance(encoder, Pipeline):
        return {"digest": encoder.digest}
    return {}


def _pooling(encoder: Encoder) -> Pooling | None:
    """How a token classifier of another library was asked to read words; other encoders know that themselves."""
    return encoder.pooling if isinstance(encoder, Transformer) and encoder.is_classifier else None


def _loose_tensors(encoder: Encoder) -> dict[str, Tensor]:
    """Tensors that are not part of the encoder's state."""
    return {"encoder.vectors": encoder.vectors} if isinstance(encoder, Vectors) else {}


def _bytes(value: Tensor) -> memoryview:
    return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
