"""Ways in which a file may be damaged, and documents as versions without seals wrote them."""

from __future__ import annotations

import json
from pathlib import Path

DAMAGES = (
    "first byte",
    "a quarter",
    "middle",
    "three quarters",
    "last byte",
    "cut",
    "half",
    "empty",
    "doubled",
    "other",
)


def damage(path: Path, how: str, other: Path) -> None:
    """Change a file; ``other`` is the same file of another run."""
    data = bytearray(path.read_bytes())
    places = {"first byte": 0, "a quarter": 1, "middle": 2, "three quarters": 3, "last byte": 4}
    if how in places:
        data[min(places[how] * len(data) // 4, len(data) - 1)] ^= 1
    changed = {"cut": data[:-1], "half": data[: len(data) // 2], "empty": b"", "doubled": data + data}.get(how, data)
    path.write_bytes(other.read_bytes() if how == "other" else changed)


def unseal(path: Path) -> None:
    """Take out what earlier versions did not write."""
    saved = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({k: v for k, v in saved.items() if k not in ("seal", "files")}), encoding="utf-8")
