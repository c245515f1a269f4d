"""tagtrace: which training labels taught a sequence tagger this prediction, and which of them are wrong.

data -> tagger -> index -> influence -> findings -> review
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tagtrace._checks import TagtraceError
from tagtrace._version import __version__

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    """Imported when it is asked for: reading data, or ``tagtrace --help``, needs no torch."""
    if name in __all__:
        for home in ("tagtrace.data", "tagtrace.tagger"):
            if hasattr(module := import_module(home), name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
