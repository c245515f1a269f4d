"""Gains: what fixing labels does to F1 on held-out data."""
