"""Decisions: an append-only database, the state it adds up to, and the export."""
