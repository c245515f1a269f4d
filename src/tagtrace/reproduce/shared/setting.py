"""What an experiment is run with: data, encoder, device, and the options in its configuration file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import torch

from tagtrace._checks import OptionError

_Options = TypeVar("_Options")

INSTALL = 'run pip install --constraint constraints.txt ".[experiments]" in the checkout of tagtrace'
"""How to install everything that the experiments need."""


@dataclass(frozen=True)
class Setting:
    """Where an experiment finds its data and encoder, where it writes its results, and how large it is."""

    data: Path
    """Folder with the subfolders conll2003, conll2003_corrected, ebmnlp and glove."""
    out: Path
    """Folder for results and figures."""
    encoder: str | None = None
    """``lexical``, ``vectors:FILE``, ``transformer:DIR``, or the folder of a transformer."""
    quick: bool = False
    """Run a small slice that shows the direction of the result in under a minute on two cores."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    report: Callable[[str], None] = print
    """Called with one line of progress at a time."""
    jobs: int = 1
    """Number of trainings that run at the same time, where an experiment has many."""

    @property
    def work(self) -> Path:
        """Folder for taggers, indexes and other files that can be made again."""
        return self.out / "work"

    @property
    def word_vectors(self) -> str:
        """The encoder of the paper's linear model and of quick runs."""
        return f"vectors:{self.data / 'glove/glove6b_100d.npz'}"

    @property
    def encoder_spec(self) -> str:
        """The encoder as ``build_encoder`` expects it."""
        if self.encoder is None:
            if self.quick:
                return self.word_vectors
            raise OptionError("no encoder was given; expected the folder of a transformer, vectors:FILE, or lexical")
        return f"transformer:{self.encoder}" if Path(self.encoder).is_dir() else self.encoder

    def options(self, name: str, kind: type[_Options]) -> _Options:
        """The options of an experiment: the table ``paper`` of NAME.toml, for a quick run updated by ``quick``."""
        tables = tomllib.loads(
            resources.files("tagtrace.reproduce.experiments").joinpath(f"{name}.toml").read_text("utf-8")
        )
        values: dict[str, Any] = {**tables["paper"], **(tables["quick"] if self.quick else {})}
        known = {one.name for one in fields(kind)}  # pyright: ignore[reportArgumentType]
        if unknown := sorted(set(values) - known):
            raise OptionError(f"{name}.toml: unknown option {', '.join(unknown)}; expected {', '.join(sorted(known))}")
        return kind(**values)
