"""Influence: which training segments support a prediction, and what happens without them."""

from tagtrace.influence.candidates import candidates
from tagtrace.influence.curvature import make_solver
from tagtrace.influence.edits import Edit
from tagtrace.influence.explain import Explainer, Explanation, Ranked
from tagtrace.influence.query import Query
from tagtrace.influence.refine import Effect, Refiner
from tagtrace.influence.retrain import Retrained, Retrainer
from tagtrace.influence.screen import Screen

__all__ = [
    "Edit",
    "Effect",
    "Explainer",
    "Explanation",
    "Query",
    "Ranked",
    "Refiner",
    "Retrained",
    "Retrainer",
    "Screen",
    "candidates",
    "make_solver",
]
