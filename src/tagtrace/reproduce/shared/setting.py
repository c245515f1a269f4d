"""What an experiment is run on: data, encoder, seed, and its configuration file."""

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

INSTALL = 'pip install --constraint constraints.txt ".[experiments]" in the checkout of tagtrace'
"""What brings all that experiments need."""


@dataclass(frozen=True)
class Setting:
    """Where an experiment finds its data and encoder, where its results go, and how large it is."""

    data: Path
    """A folder laid out as the paper's files are: conll2003, conll2003_corrected, ebmnlp, glove."""
    out: Path
    encoder: str | None = None
    """As for ``tagtrace train``: lexical, vectors:FILE, transformer:DIR; or a folder with a transformer."""
    quick: bool = False
    """A small slice that shows the direction of the result in under a minute on two cores."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    report: Callable[[str], None] = print
    """Told, a line at a time, what is being done."""

    @property
    def work(self) -> Path:
        """A folder for what can be made again."""
        return self.out / "work"

    @property
    def word_vectors(self) -> str:
        """The encoder of the paper's linear model, and of quick runs."""
        return f"vectors:{self.data / 'glove/glove6b_100d.npz'}"

    @property
    def encoder_spec(self) -> str:
        """What ``build_encoder`` takes."""
        if self.encoder is None:
            if self.quick:
                return self.word_vectors
            raise OptionError("--encoder is missing: give a folder with a transformer, vectors:FILE, or lexical")
        return f"transformer:{self.encoder}" if Path(self.encoder).is_dir() else self.encoder

    def options(self, name: str, kind: type[_Options]) -> _Options:
        """The options of an experiment, from the tables ``paper`` and, for a quick run, ``quick`` of its NAME.toml."""
        tables = tomllib.loads(
            resources.files("tagtrace.reproduce.experiments").joinpath(f"{name}.toml").read_text("utf-8")
        )
        values: dict[str, Any] = {**tables["paper"], **(tables["quick"] if self.quick else {})}
        known = {one.name for one in fields(kind)}  # pyright: ignore[reportArgumentType]
        if unknown := sorted(set(values) - known):
            raise OptionError(f"{name}.toml: unknown option {', '.join(unknown)}; expected {', '.join(sorted(known))}")
        return kind(**values)
