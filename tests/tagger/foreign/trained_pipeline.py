"""Small spaCy pipelines with ``ner``, trained by spaCy on invented newswire with a planted error."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from thinc.util import fix_random_seed

from tagtrace.data import Sentence
from tagtrace.data.invented import generate, write_invented

WORD, WRONG = "said", "MISC"
LISTENER = {"@architectures": "spacy.Tok2VecListener.v1", "width": 24, "upstream": "*"}


@dataclass(frozen=True)
class PlantedPipelines:
    """``train.conll`` with the errors, ``dev.conll`` without, and two pipelines trained on the former."""

    folder: Path

    @property
    def own(self) -> Path:
        """A pipeline whose ``ner`` has its own tok2vec layer."""
        return self.folder / "own"

    @property
    def shared(self) -> Path:
        """A pipeline whose ``ner`` listens to a component ``tok2vec``; another one listens too."""
        return self.folder / "shared"

    @property
    def train(self) -> Path:
        return self.folder / "train.conll"

    @property
    def dev(self) -> Path:
        return self.folder / "dev.conll"


def plant_pipelines(folder: Path) -> PlantedPipelines:
    """Write the data and train the pipelines: a few seconds."""
    made = generate(num_documents=60, systematic_share=0, random_share=0)
    train = tuple(_wrong(sentence) for sentence in made.train)
    write_invented(type(made)(train, train, made.dev, made.test, (), 0), folder)
    train_pipeline(folder / "own", train)
    train_pipeline(folder / "shared", train, is_shared=True)
    return PlantedPipelines(folder)


def _wrong(sentence: Sentence) -> Sentence:
    pairs = zip(sentence.tokens, sentence.labels, strict=True)
    return sentence.with_labels([f"B-{WRONG}" if token == WORD else label for token, label in pairs])


def embed_cnn(**changes: Any) -> dict[str, Any]:
    """A small tok2vec layer."""
    sizes = {"width": 24, "depth": 2, "embed_size": 400, "window_size": 1, "maxout_pieces": 2, "subword_features": True}
    return {"@architectures": "spacy.HashEmbedCNN.v2", "pretrained_vectors": None, **sizes, **changes}


def ner_model(tok2vec: dict[str, Any]) -> dict[str, Any]:
    sizes = {"hidden_width": 24, "maxout_pieces": 2, "use_upper": True, "extra_state_tokens": False}
    return {"@architectures": "spacy.TransitionBasedParser.v2", "state_type": "ner", "tok2vec": tok2vec, **sizes}


def train_pipeline(
    folder: Path,
    sentences: Sequence[Sentence],
    *,
    is_shared: bool = False,
    tok2vec: dict[str, Any] | None = None,
    epochs: int = 12,
    vectors: np.ndarray | None = None,
) -> Path:
    """Train a pipeline for some epochs and save it; ``vectors`` (V, d) are static vectors of the first words."""
    fix_random_seed(0)
    nlp: Any = spacy.blank("en")
    layer = tok2vec or embed_cnn()
    if is_shared:
        nlp.add_pipe("tok2vec", config={"model": layer})
        nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": LISTENER}})
    nlp.add_pipe("ner", config={"model": ner_model(LISTENER if is_shared else layer)})
    if vectors is not None:
        words = list(dict.fromkeys(token for sentence in sentences for token in sentence.tokens))
        for word, vector in zip(words, vectors, strict=False):
            nlp.vocab.set_vector(word, vector)
    examples = [_example(nlp, sentence) for sentence in sentences]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer = nlp.initialize(lambda: examples)
        optimizer.learn_rate = 0.004
        for _ in range(epochs):
            for batch in spacy.util.minibatch(examples, 32):
                nlp.update(batch, sgd=optimizer)
    nlp.to_disk(folder)
    return folder


def _example(nlp: Any, sentence: Sentence) -> Example:
    words = list(sentence.tokens)
    tags = ["N" if word[0].isupper() else "X" for word in words]
    return Example(Doc(nlp.vocab, words), Doc(nlp.vocab, words, tags=tags, ents=list(sentence.labels)))


def spacy_labels(nlp: Any, tokens: Sequence[str]) -> tuple[str, ...]:
    """What the whole pipeline, loaded by spaCy itself, labels a text with."""
    doc = nlp(Doc(nlp.vocab, list(tokens)))
    return tuple(f"{token.ent_iob_}-{token.ent_type_}" if token.ent_type_ else "O" for token in doc)
