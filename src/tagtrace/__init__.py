"""tagtrace: which training labels taught a sequence tagger this prediction, and which of them are wrong.

data -> tagger -> index -> influence -> findings -> review
"""

from tagtrace._checks import TagtraceError
from tagtrace._version import __version__
from tagtrace.data import (
    Corpus,
    LabelSet,
    ReadOptions,
    Segment,
    Sentence,
    read_corpus,
    summarise,
    write_corpus,
    write_predictions,
)
from tagtrace.tagger import (
    HeadOptions,
    RefitOptions,
    Tagger,
    TrainOptions,
    build_encoder,
    load_tagger,
    new_tagger,
    refit_tagger,
    save_tagger,
    score_labels,
    train_tagger,
)

__all__ = [
    "Corpus",
    "HeadOptions",
    "LabelSet",
    "ReadOptions",
    "RefitOptions",
    "Segment",
    "Sentence",
    "Tagger",
    "TagtraceError",
    "TrainOptions",
    "__version__",
    "build_encoder",
    "load_tagger",
    "new_tagger",
    "read_corpus",
    "refit_tagger",
    "save_tagger",
    "score_labels",
    "summarise",
    "train_tagger",
    "write_corpus",
    "write_predictions",
]
