"""tagtrace: which training labels taught a sequence tagger this prediction, and which of them are wrong.

data -> tagger -> index -> influence -> findings -> review
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tagtrace._checks import TagtraceError
from tagtrace._version import __version__

if TYPE_CHECKING:
    from tagtrace.data import (
        Converted,
        Corpus,
        LabelSet,
        ReadOptions,
        Segment,
        Sentence,
        Summary,
        convert,
        read_corpus,
        summarise,
        write_corpus,
        write_predictions,
    )
    from tagtrace.doctor import Health, Symptom, examine
    from tagtrace.findings import (
        Audit,
        AuditOptions,
        Auto,
        Change,
        Decided,
        Finding,
        Fixed,
        Gain,
        Pattern,
        Taught,
        choose_auto,
        choose_findings,
        finding_features,
        fix,
        gain,
        read_changes,
        read_findings,
        replay,
        run_audit,
        teach,
    )
    from tagtrace.index import Index, IndexOptions, build_index, open_index
    from tagtrace.influence import (
        Edit,
        Effect,
        Explainer,
        Explanation,
        Filter,
        Flip,
        Query,
        RetrainOptions,
        SeedEffects,
        TrainingSegment,
        WhatIf,
        WholeInfluence,
        build_whole,
        make_edit,
        make_queries,
        make_query,
    )
    from tagtrace.integrations import TrainingDynamics, read_dynamics
    from tagtrace.review import decided_sentences, read_decided, review_project
    from tagtrace.tagger import (
        HeadOptions,
        Misprediction,
        RefitOptions,
        Scorecard,
        Tagger,
        TrainOptions,
        build_encoder,
        load_tagger,
        mispredictions,
        refit_tagger,
        remove_checkpoint,
        save_tagger,
        score_labels,
        train,
    )

_HOMES = {
    "data": (
        "Converted", "Corpus", "LabelSet", "ReadOptions", "Segment", "Sentence", "Summary", "convert", "read_corpus",
        "summarise", "write_corpus", "write_predictions",
    ),
    "tagger": (
        "HeadOptions", "Misprediction", "RefitOptions", "Scorecard", "Tagger", "TrainOptions", "build_encoder",
        "load_tagger", "mispredictions", "refit_tagger", "remove_checkpoint", "save_tagger", "score_labels",
        "train",
    ),
    "index": ("Index", "IndexOptions", "build_index", "open_index"),
    "influence": (
        "Edit", "Effect", "Explainer", "Explanation", "Filter", "Flip", "Query", "RetrainOptions", "SeedEffects",
        "TrainingSegment", "WhatIf", "WholeInfluence", "build_whole", "make_edit", "make_queries", "make_query",
    ),
    "findings": (
        "Audit", "AuditOptions", "Auto", "Change", "Decided", "Finding", "Fixed", "Gain", "Pattern", "Taught",
        "choose_auto", "choose_findings", "finding_features", "fix", "gain", "read_changes", "read_findings", "replay",
        "run_audit", "teach",
    ),
    "integrations": ("TrainingDynamics", "read_dynamics"),
    "review": ("decided_sentences", "read_decided", "review_project"),
    "doctor": ("Health", "Symptom", "examine"),
}  # fmt: skip
"""The package of each public name, imported when the name is first used: reading data needs no torch."""

__all__ = [
    "Audit",
    "AuditOptions",
    "Auto",
    "Change",
    "Converted",
    "Corpus",
    "Decided",
    "Edit",
    "Effect",
    "Explainer",
    "Explanation",
    "Filter",
    "Finding",
    "Fixed",
    "Flip",
    "Gain",
    "HeadOptions",
    "Health",
    "Index",
    "IndexOptions",
    "LabelSet",
    "Misprediction",
    "Pattern",
    "Query",
    "ReadOptions",
    "RefitOptions",
    "RetrainOptions",
    "Scorecard",
    "SeedEffects",
    "Segment",
    "Sentence",
    "Summary",
    "Symptom",
    "Tagger",
    "TagtraceError",
    "Taught",
    "TrainOptions",
    "TrainingDynamics",
    "TrainingSegment",
    "WhatIf",
    "WholeInfluence",
    "__version__",
    "build_encoder",
    "build_index",
    "build_whole",
    "choose_auto",
    "choose_findings",
    "convert",
    "decided_sentences",
    "examine",
    "finding_features",
    "fix",
    "gain",
    "load_tagger",
    "make_edit",
    "make_queries",
    "make_query",
    "mispredictions",
    "open_index",
    "read_changes",
    "read_corpus",
    "read_decided",
    "read_dynamics",
    "read_findings",
    "refit_tagger",
    "remove_checkpoint",
    "replay",
    "review_project",
    "run_audit",
    "save_tagger",
    "score_labels",
    "summarise",
    "teach",
    "train",
    "write_corpus",
    "write_predictions",
]


if not TYPE_CHECKING:  # type checkers see the names that are imported above, and no others

    def __getattr__(name: str) -> Any:
        for home, names in _HOMES.items():
            if name in names:
                return getattr(import_module(f"tagtrace.{home}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return __all__
