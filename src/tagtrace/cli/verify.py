"""``tagtrace verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tagtrace.cli.explain import answer, explain_options


@click.command()
@explain_options
def verify(folder: Path, **values: Any) -> None:
    """As explain, and retrain the head without each segment: the predicted and the actual change."""
    answer(folder, "verify", values)
