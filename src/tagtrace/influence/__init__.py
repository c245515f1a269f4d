"""Influence: which training segments support a prediction, and what happens without them."""

from tagtrace.influence.curvature.choice import make_solver
from tagtrace.influence.edits.edit import Edit
from tagtrace.influence.edits.effect import Effect
from tagtrace.influence.edits.flip import Flip, flip
from tagtrace.influence.edits.refine import Refiner
from tagtrace.influence.edits.retrain import Retrained, Retrainer
from tagtrace.influence.edits.what_if import WhatIf, what_if
from tagtrace.influence.explain import Explainer, Explanation, Ranked
from tagtrace.influence.query import Query
from tagtrace.influence.scoring.candidates import Candidates, Kind, candidates, find_candidates
from tagtrace.influence.scoring.filters import Filter
from tagtrace.influence.scoring.norms import gradient_norms, self_influence
from tagtrace.influence.scoring.scorer import Score
from tagtrace.influence.scoring.screen import Screen

__all__ = [
    "Candidates",
    "Edit",
    "Effect",
    "Explainer",
    "Explanation",
    "Filter",
    "Flip",
    "Kind",
    "Query",
    "Ranked",
    "Refiner",
    "Retrained",
    "Retrainer",
    "Score",
    "Screen",
    "WhatIf",
    "candidates",
    "find_candidates",
    "flip",
    "gradient_norms",
    "make_solver",
    "self_influence",
    "what_if",
]
