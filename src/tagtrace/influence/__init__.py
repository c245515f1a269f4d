"""Influence: which training segments support a prediction, and what happens without them."""

from tagtrace.influence.edits import Edit
from tagtrace.influence.query import Query
from tagtrace.influence.refine import Effect, Refiner
from tagtrace.influence.retrain import Retrained, Retrainer
from tagtrace.influence.screen import Screen

__all__ = ["Edit", "Effect", "Query", "Refiner", "Retrained", "Retrainer", "Screen"]
