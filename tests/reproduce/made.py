"""An experiment that takes no time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tagtrace.reproduce.shared.experiment import Experiment, Headline, SeedResult
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.reproduce.shared.tables import markdown, spread


@dataclass
class Made:
    """An experiment whose result is its seed, and which remembers the seeds that it ran."""

    ran: list[int] = field(default_factory=list)
    needs_encoder: bool = True

    def experiment(self, name: str = "made") -> Experiment:
        return Experiment(
            name, "section 0, figure 0", self.run, self.table, self.headlines, self.draw, self.check, self.needs_encoder
        )

    def run(self, setting: Setting, seed: int) -> SeedResult:
        self.ran.append(seed)
        return {"value": seed, "pair": (1, 2), "spec": setting.encoder_spec}

    def table(self, results: Sequence[SeedResult]) -> str:
        return markdown(["value", "pairs"], [[spread(f["value"] for f in results), str([f["pair"] for f in results])]])

    def headlines(self, results: Sequence[SeedResult]) -> list[Headline]:
        return [Headline("value", "7", spread(f["value"] for f in results))]

    def draw(self, results: Sequence[SeedResult], folder: Path) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"made.{kind}" for kind in ("svg", "png")]
        for path in paths:
            path.write_text(f"{len(results)}")
        return paths

    def check(self, results: Sequence[SeedResult]) -> list[str]:
        return [f"seed {found['seed']} is odd" for found in results if found["seed"] % 2]
