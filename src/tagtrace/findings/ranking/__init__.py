"""Ranking: from the probabilities of labels to a ranked list of findings."""
