"""Decisions: an append-only database, the state that follows from it, and the export."""
