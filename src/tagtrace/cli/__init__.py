"""The command line: one thin command per public verb."""

from tagtrace.cli.main import main

__all__ = ["main"]
