"""Influence: which training segments support a prediction, and what happens without them."""

from tagtrace.influence.edits.edit import Edit, make_edit, read_edits
from tagtrace.influence.edits.effect import Effect
from tagtrace.influence.edits.flip import Flip
from tagtrace.influence.edits.refine import Refiner
from tagtrace.influence.edits.retrain import Retrained, Retrainer
from tagtrace.influence.edits.seed_effects import RetrainOptions, SeedEffects
from tagtrace.influence.edits.what_if import WhatIf
from tagtrace.influence.explain import Explainer
from tagtrace.influence.explanation import Explanation, TrainingSegment
from tagtrace.influence.query import Query, make_queries, make_query
from tagtrace.influence.scoring.candidates import Candidates, SegmentKind, find_candidates
from tagtrace.influence.scoring.filters import Filter
from tagtrace.influence.scoring.norms import gradient_norms, self_influence
from tagtrace.influence.scoring.scorer import Score
from tagtrace.influence.scoring.screen import Screen
from tagtrace.influence.whole.stored import build_whole
from tagtrace.influence.whole.whole import WholeInfluence

__all__ = [
    "Candidates",
    "Edit",
    "Effect",
    "Explainer",
    "Explanation",
    "Filter",
    "Flip",
    "Query",
    "Refiner",
    "RetrainOptions",
    "Retrained",
    "Retrainer",
    "Score",
    "Screen",
    "SeedEffects",
    "SegmentKind",
    "TrainingSegment",
    "WhatIf",
    "WholeInfluence",
    "build_whole",
    "find_candidates",
    "gradient_norms",
    "make_edit",
    "make_queries",
    "make_query",
    "read_edits",
    "self_influence",
]
