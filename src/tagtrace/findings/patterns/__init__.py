"""Patterns: the systematic mistakes behind findings, and the effect of fixing each."""
