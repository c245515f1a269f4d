"""Influence: which training segments support a prediction, and what happens without them."""

from tagtrace.influence.candidates import Candidates, Kind, candidates, find_candidates
from tagtrace.influence.curvature import make_solver
from tagtrace.influence.edits import Edit
from tagtrace.influence.effect import Effect
from tagtrace.influence.explain import Explainer, Explanation, Ranked
from tagtrace.influence.filters import Filter
from tagtrace.influence.flipping import Flip, flip
from tagtrace.influence.norms import gradient_norms, self_influence
from tagtrace.influence.query import Query
from tagtrace.influence.refine import Refiner
from tagtrace.influence.retrain import Retrained, Retrainer
from tagtrace.influence.scores import Score
from tagtrace.influence.screen import Screen
from tagtrace.influence.supposing import WhatIf, what_if

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
