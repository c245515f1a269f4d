"""Pipelines of spaCy with a component ``ner``, as ``nlp.to_disk`` wrote them.

    scores_t = W (F_t, 1),   F_t: the vector of word t that ``ner`` reads, of the layer ``tok2vec``

spaCy's own ``ner`` chooses one action after another and has no scores of labels that could be taken over. The encoder
is spaCy's, the head is a new one: a CRF, all zeros until it is fitted to training data.
"""

from __future__ import annotations

from pathlib import Path

import torch

from tagtrace._checks import DataError, TaggerError
from tagtrace._documents import recorded_path
from tagtrace.data.labels import LabelSet
from tagtrace.tagger.encoders import Pipeline
from tagtrace.tagger.encoders.pipeline_config import CONFIG
from tagtrace.tagger.head import HeadOptions, head_of
from tagtrace.tagger.tagger import Tagger

PIPELINE = "pipeline"
"""The key of a tagger's record that says that it was a pipeline of spaCy."""


def is_pipeline(folder: Path) -> bool:
    """Whether a folder has the configuration of a spaCy pipeline."""
    return (folder / CONFIG).is_file()


def load_pipeline(folder: Path) -> Tagger:
    """A tagger with the vectors and the types of a pipeline, and a head that is to be fitted."""
    encoder = Pipeline(folder)
    try:
        labels = LabelSet(("O", *(f"{prefix}-{type_}" for type_ in encoder.types for prefix in "BI")), "iob2")
    except DataError as error:
        raise TaggerError(f"{folder}: the types of its ner are no labels ({error})") from None
    num_labels = len(labels)
    weights = {"weight": torch.zeros(num_labels, encoder.dim + 1), "transitions": torch.zeros(num_labels, num_labels)}
    tagger = Tagger(encoder, head_of(weights, encoder.dim, labels, HeadOptions()), labels).eval()
    tagger.record = {PIPELINE: {"path": recorded_path(folder.absolute())}}
    tagger.folder, tagger.is_fitted = folder, False
    return tagger
