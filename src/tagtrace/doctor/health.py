"""What an examination found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from tagtrace._documents import recorded_path
from tagtrace._markup import counted
from tagtrace._table import Described, Table

State = Literal["sound", "unfinished", "repaired", "repairable", "broken"]


@dataclass(frozen=True)
class Symptom:
    """What is known about one tagger, index, audit, project, or file that was left over."""

    path: Path
    kind: str
    state: State
    """``unfinished``: an interrupted run that can go on. ``repairable``: repairing it would mend it."""
    message: str
    """What was checked; or what is wrong, and what to do."""


@dataclass(frozen=True)
class Health(Described):
    """Everything that was found in a folder."""

    folder: Path
    symptoms: Sequence[Symptom]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is broken, now that what could be repaired was."""
        return self.num_problems == 0

    @property
    def num_problems(self) -> int:
        """How many things are broken, or would be repaired."""
        return sum(one.state in ("broken", "repairable") for one in self.symptoms)

    def describe(self) -> list[str | Table]:
        rows = tuple((str(one.path), one.kind, one.state, one.message) for one in self.symptoms)
        lines: list[str | Table] = [Table("", ("path", "kind", "state", "found"), rows)]
        lines.append(f"{self.folder}: {'sound' if self.is_sound else counted(self.num_problems, 'problem')}")
        if any(one.state == "repairable" for one in self.symptoms):
            lines.append("some of it can be repaired")
        return lines

    def to_json(self) -> dict[str, Any]:
        """A dictionary for JSON."""
        found = [{**asdict(one), "path": recorded_path(one.path)} for one in self.symptoms]
        return {"folder": recorded_path(self.folder), "is_sound": self.is_sound, "symptoms": found}
