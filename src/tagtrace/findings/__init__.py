"""Findings: which training labels are suspicious."""

from tagtrace.findings.folds import assign_folds, encoder_folds, out_of_sample
from tagtrace.findings.levels import LevelScores, at_level
from tagtrace.findings.probabilities import Probabilities, in_sample
from tagtrace.findings.scorers import SCORERS, TokenScorer, token_scores
from tagtrace.findings.trusted import Trusted, instance_scores, neighbour_scores, read_trusted, trusted_scores

__all__ = [
    "SCORERS",
    "LevelScores",
    "Probabilities",
    "TokenScorer",
    "Trusted",
    "assign_folds",
    "at_level",
    "encoder_folds",
    "in_sample",
    "instance_scores",
    "neighbour_scores",
    "out_of_sample",
    "read_trusted",
    "token_scores",
    "trusted_scores",
]
