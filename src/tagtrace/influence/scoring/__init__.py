"""Scoring: the training segments of an index, and their scores against a query."""
