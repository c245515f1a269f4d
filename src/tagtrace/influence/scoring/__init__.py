"""Scoring: which training segments there are, and how each is scored against a query."""
