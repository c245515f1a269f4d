"""Many training runs of one recipe, on variants of its data, in several processes; finished ones are kept.

Runs on one GPU go on side by side too, best under NVIDIA's MPS. Each process has an equal share of torch's threads.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context, parent_process
from pathlib import Path

import torch
from torch import Tensor

from tagtrace._checks import OptionError, TrainingError
from tagtrace._run_folder import RunFolder
from tagtrace.data.labels import HIDDEN
from tagtrace.data.sentence import Sentence
from tagtrace.tagger.convex.refit import refit_tagger
from tagtrace.tagger.recipe import Recipe
from tagtrace.tagger.tagger import Tagger, pick_device
from tagtrace.tagger.training import train_tagger

MARKER = "retrainings.json"

Measure = Callable[[Tagger], Tensor]
"""What is measured on a trained tagger. It must be possible to send it to other processes."""


@dataclass(frozen=True)
class Variant:
    """One run: its name, its training sentences and its seed."""

    name: str
    sentences: Sequence[Sentence]
    seed: int


@dataclass(frozen=True)
class RetrainingProgress:
    """How many runs are done, and how many seconds the others are expected to take."""

    done: int
    total: int
    seconds_left: float


def retrain_all(
    recipe: Recipe,
    variants: Sequence[Variant],
    measure: Measure,
    *,
    device: str | torch.device = "cpu",
    num_processes: int = 1,
    work: tuple[Path, Mapping[str, object]] | None = None,
    progress: Callable[[RetrainingProgress], None] | None = None,
) -> list[Tensor]:
    """Train a tagger for each variant and return what ``measure`` finds on it, in the order of the variants.

    ``work`` is a folder that keeps finished runs, so that an interrupted call resumes, and what they depend on apart
    from their names: another call's runs are refused.
    """
    if any(HIDDEN in one.labels for variant in variants for one in variant.sentences):
        check_can_hide(recipe)
    kept = None if work is None else RunFolder(work[0], MARKER, work[1], "runs").open()
    found: dict[int, Tensor] = {}
    for place, variant in enumerate(variants):
        saved = kept.read(f"{variant.name}.safetensors") if kept else None
        if saved is not None:
            found[place] = saved["measured"]
    started, num_before = time.monotonic(), len(found)
    todo = [place for place in range(len(variants)) if place not in found]
    task = _Task(recipe, measure, str(pick_device(device)), _threads_each(min(num_processes, len(todo))))
    for place, measured in _run(task, {place: variants[place] for place in todo}, num_processes):
        found[place] = measured
        if kept:
            kept.add({f"{variants[place].name}.safetensors": {"measured": measured}})
        if progress is not None:
            done = len(found)
            each = (time.monotonic() - started) / (done - num_before)
            progress(RetrainingProgress(done, len(variants), each * (len(variants) - done)))
    return [found[place] for place in range(len(variants))]


def check_can_hide(recipe: Recipe) -> None:
    """Raise OptionError if labels cannot be hidden from trainings by this recipe."""
    if recipe.refit is not None:
        raise OptionError(
            "the tagger's head was refitted after training, which needs every label, so that labels cannot be removed "
            "when the whole tagger is trained again; relabel them instead, or retrain only the head"
        )


def expected_seconds(recipe: Recipe, sentences: Sequence[Sentence], device: str | torch.device = "cpu") -> float:
    """How long one run takes, about, from the time of a few steps."""
    tagger, options = recipe.untrained(recipe.options.seed).to(pick_device(device)), recipe.options
    joined = tagger.joined(sentences)
    some = joined[:: max(len(joined) // (3 * options.batch_size), 1)]
    times: list[float] = []
    train_tagger(tagger, some, (), replace(options, epochs=2), progress=lambda _: times.append(time.monotonic()))
    each = (times[-1] - times[0]) / max(len(times) - 1, 1)
    return each * (recipe.stop_after or options.epochs) * -(-len(joined) // options.batch_size)


@dataclass(frozen=True)
class _Task:
    """What a process needs for every run."""

    recipe: Recipe
    measure: Measure
    device: str
    num_threads: int | None

    def __call__(self, variant: Variant) -> Tensor:
        if self.num_threads is not None:
            torch.set_num_threads(self.num_threads)
        tagger = self.recipe.untrained(variant.seed).to(torch.device(self.device))
        options = replace(self.recipe.options, seed=variant.seed)
        train_tagger(tagger, variant.sentences, (), options, stop_after=self.recipe.stop_after)
        if self.recipe.refit is not None:
            refit_tagger(tagger, variant.sentences, self.recipe.refit)
        return self.measure(tagger).cpu()


def _threads_each(num_processes: int) -> int | None:
    """None if there is one process, which leaves torch as it is."""
    return None if num_processes <= 1 else max(torch.get_num_threads() // num_processes, 1)


def _run(task: _Task, variants: dict[int, Variant], num_processes: int) -> Iterator[tuple[int, Tensor]]:
    if num_processes <= 1 or len(variants) <= 1:
        yield from ((place, task(variant)) for place, variant in variants.items())
        return
    pending: dict[Future[Tensor], int] = {}
    with _pool(min(num_processes, len(variants)), task.num_threads) as pool:
        waiting = iter(variants.items())
        while True:
            for place, variant in waiting:  # few at a time: their sentences are copied
                pending[pool.submit(task, variant)] = place
                if len(pending) >= num_processes:
                    break
            if not pending:
                return
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                yield pending.pop(future), _result(future)


def _result(future: Future[Tensor]) -> Tensor:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise TrainingError(
            "a process that trained a tagger has ended; use fewer processes if memory is short, and in a script call "
            'this only under if __name__ == "__main__"'
        ) from error


def _start_process() -> None:
    """An interrupt is for the parent, which ends its processes; if the parent is killed, they end too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


@contextmanager
def _pool(num_processes: int, num_threads: int | None) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes, which start with few threads; after an error they are ended."""
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    os.environ.update(dict.fromkeys(before, str(num_threads or 1)))
    pool = ProcessPoolExecutor(num_processes, mp_context=get_context("spawn"), initializer=_start_process)
    try:
        yield pool
        pool.shutdown()
    except BaseException:
        for process in list((pool._processes or {}).values()):  # pyright: ignore[reportPrivateUsage]
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
