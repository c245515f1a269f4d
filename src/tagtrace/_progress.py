"""How long work reports its progress."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with (done, total): how many sentences, or other units of work, are done of how many."""
