"""Measure one library in a process of its own: seconds, and peak memory on top of the loaded inputs.

    python benchmarks/peers/SCRIPT.py FOLDER [ARGUMENT]

reads the workload in FOLDER, writes the influences (Q, N) to FOLDER/scores-SCRIPT[_ARGUMENT].npy, and prints the
figures as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from workload import Workload

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def report(answer: Callable[[Workload], Any], packages: Sequence[str], settings: str) -> None:
    """Load the workload, time ``answer``, which returns influences (Q, N), and print the figures."""
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    work = Workload.load(folder)
    write(folder, "_".join([Path(sys.argv[0]).stem, *sys.argv[2:]]), lambda: answer(work), packages, settings)


def write(
    folder: Path, name: str, answer: Callable[[], Any], packages: Sequence[str], settings: str, **others: Any
) -> None:
    """Time ``answer``, write its influences (Q, N), and print the figures, ``others`` among them."""
    is_reset, before = reset_peak(), resident("VmRSS")
    start, start_cpu = time.perf_counter(), time.process_time()
    scores = answer()
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
    peak = resident("VmHWM")
    np.save(folder / f"scores-{name}.npy", np.asarray(scores, dtype=np.float64))
    figures = {
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu_seconds, 3),
        "memory_mb": round(peak - before, 1),
        "loaded_mb": round(before, 1),
        "peak_reset": is_reset,
        "threads": torch.get_num_threads(),
        "settings": settings,
        "versions": {package: version(package) for package in packages},
    }
    print(json.dumps({**figures, **others}))


def reset_peak() -> bool:
    """Set the peak to what is resident now; False if the system does not permit it."""
    try:
        CLEAR.write_text("5")
    except OSError:
        return False
    return True


def resident(name: str) -> float:
    """MB of this process: now (``VmRSS``) or at most (``VmHWM``)."""
    line = next(line for line in STATUS.read_text(encoding="utf-8").splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024 / 1e6


class Tokens(Dataset[tuple[Tensor, Tensor]]):
    """Features (n, D) and labels (n,), which a loader takes in whole batches instead of one by one."""

    def __init__(self, features: np.ndarray, labels: np.ndarray) -> None:
        self.features, self.labels = torch.from_numpy(features), torch.from_numpy(labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: int) -> tuple[Tensor, Tensor]:
        return self.features[place], self.labels[place]

    def __getitems__(self, places: list[int]) -> tuple[Tensor, Tensor]:
        first, last = places[0], places[-1]
        if places == list(range(first, last + 1)):  # a view, not a copy
            return self.features[first : last + 1], self.labels[first : last + 1]
        return self.features[places], self.labels[places]

    def loader(self, batch_size: int) -> DataLoader[Any]:
        return DataLoader(self, batch_size=batch_size, collate_fn=as_it_is)

    def batches(self, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        return zip(self.features.split(batch_size), self.labels.split(batch_size), strict=True)


def as_it_is(batch: Any) -> Any:
    """What ``Tokens`` returns is a batch already."""
    return batch


def training_tokens(work: Workload) -> Tokens:
    return Tokens(work.features, work.labels)


def query_tokens(work: Workload) -> Tokens:
    return Tokens(work.queries, work.query_labels)


def linear_head(work: Workload) -> nn.Linear:
    """The head in float32, with its bias."""
    C, width = work.head.shape
    head = nn.Linear(width - 1, C)
    with torch.no_grad():
        weight = torch.from_numpy(work.head)
        head.weight.copy_(weight[:, :-1])
        head.bias.copy_(weight[:, -1])
    return head
