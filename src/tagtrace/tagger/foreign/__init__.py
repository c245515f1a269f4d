"""Taggers that other libraries trained, taken over as they are."""
