"""spaCy pipelines with one damaged file: its name, a line end, and its content."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

from tagtrace.data.sentence import Sentence
from tagtrace.tagger.encoders import Pipeline
from tests.fuzz import pieces

FILES = ("config.cfg", "ner/model", "ner/moves", "tok2vec/model", "vocab/lookups.bin")
TEXTS = (Sentence(("Wool", "rose", "in", "Varnholt"), ()), Sentence(("x",), ()))
VALUES = ("null", "0", "-1", "7", "1e9", '"x"', "[]", "[1,2]", "true", "{}", '{"@misc":"x"}', "${nlp.lang}", "${nlp}")


def pipeline(rng: Random) -> bytes:
    """A file of a small pipeline, mostly damaged, and the name that it has in the pipeline's folder."""
    name = rng.choice(FILES)
    data = (_template() / name).read_bytes()
    for _ in range(rng.choice((0, 1, 1, 2))):
        data = _changed_config(rng, data) if name.endswith("cfg") else _changed_map(rng, data)
    while rng.random() < 0.2:
        data = pieces.damaged(rng, data)
    return f"{name}\n".encode() + data


def read_pipeline(path: Path) -> None:
    """What is loaded gives every word one vector and one label."""
    name, _, data = path.read_bytes().partition(b"\n")
    folder = path.with_name("pipeline")
    shutil.copytree(_template(), folder, dirs_exist_ok=True)
    (folder / (name.decode() if name.decode("ascii", "replace") in FILES else FILES[0])).write_bytes(data)
    encoder = Pipeline(folder)
    assert encoder([text.tokens for text in TEXTS]).shape == (5, encoder.dim)
    assert [len(labels) for labels in encoder.own_labels(TEXTS)] == [4, 1]


def _changed_config(rng: Random, data: bytes) -> bytes:
    """Another value, or one line less."""
    lines = data.decode("utf-8", "replace").splitlines()
    places = [number for number, line in enumerate(lines) if " = " in line]
    place = rng.choice(places or [0])
    if rng.random() < 0.2:
        del lines[place]
    else:
        lines[place] = f"{lines[place].partition(' = ')[0]} = {rng.choice(VALUES)}"
    return "\n".join(lines).encode()


def _changed_map(rng: Random, data: bytes) -> bytes:
    """Another value at some place of what msgpack holds."""
    msgpack = _spacy().msgpack
    try:
        whole: Any = msgpack.unpackb(data, raw=False, object_pairs_hook=dict)
        parent, key = whole, rng.choice(list(whole))
        while isinstance(at := parent[key], dict | list) and at and rng.random() < 0.8:
            parent, key = at, rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
        parent[key] = rng.choice((None, 0, -1, 99, "x", b"\xc0", [], [3, 8], {}, "<f8", "|O", 1.5, [at], b"1234"))
        return msgpack.packb(whole, use_bin_type=True)
    except (ValueError, TypeError, IndexError, UnicodeError):  # damaged before
        return data


@cache
def _template() -> Path:
    """An untrained pipeline of tok2vec and ner, for the language of no exceptions."""
    spacy, folder = _spacy().spacy, Path(_folder().name) / "template"
    nlp: Any = spacy.blank("xx")
    sizes = {"width": 8, "depth": 1, "embed_size": 20, "window_size": 1, "maxout_pieces": 2, "subword_features": True}
    layer = {"@architectures": "spacy.HashEmbedCNN.v2", "pretrained_vectors": None, **sizes}
    nlp.add_pipe("tok2vec", config={"model": layer})
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 8, "upstream": "*"}
    ner = nlp.add_pipe("ner", config={"model": {
        "@architectures": "spacy.TransitionBasedParser.v2", "state_type": "ner", "tok2vec": listener, "hidden_width": 8,
        "maxout_pieces": 2, "use_upper": True, "extra_state_tokens": False,
    }})  # fmt: skip
    for name in ("LOC", "ORG"):
        ner.add_label(name)
    nlp.vocab.lookups.add_table("lexeme_norm", {"wool": "cloth"})
    state = np.random.get_state()
    nlp.initialize()
    np.random.set_state(state)
    nlp.to_disk(folder)
    return folder


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """It is deleted when Python ends."""
    return tempfile.TemporaryDirectory()


@cache
def _spacy() -> Any:
    import spacy  # noqa: PLC0415
    from srsly import msgpack  # noqa: PLC0415

    return SimpleNamespace(spacy=spacy, msgpack=msgpack)
