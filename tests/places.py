"""Where tests find the repository and the real data."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("TAGTRACE_DATA", REPOSITORY / ".." / "shared" / "data"))
"""Real corpora; tests that need them are skipped where there are none."""
