"""Edits of training labels: their effect on a query, estimated (refine) and by exact retraining (verify)."""
