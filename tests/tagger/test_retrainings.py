"""Many trainings of one recipe: the same in one process and in several, resumed, and by the epoch that was kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError
from tagtrace.data import LabelSet
from tagtrace.data.invented import generate
from tagtrace.tagger import Lexical, LexicalOptions, Tagger, TrainOptions, new_tagger, train_tagger
from tagtrace.tagger.recipe import Recipe
from tagtrace.tagger.retrainings import RetrainingProgress, Variant, retrain_all

ROOT = Path(__file__).parent.parent.parent
CORPUS = generate(num_documents=20)
TRAIN, DEV = CORPUS.train[:16], CORPUS.dev[:4]
LABELS = LabelSet.from_sentences(CORPUS.train, "iob2")
OPTIONS = TrainOptions(epochs=3, batch_size=8, learning_rate=1e-2)


@dataclass(frozen=True)
class Weights:
    """The head's weights."""

    fails: bool = False

    def __call__(self, tagger: Tagger) -> Tensor:
        if self.fails:
            raise DataError("measured nothing")
        return tagger.head.flat()


def recipe(dev: bool = False) -> tuple[Recipe, Tagger]:
    torch.manual_seed(5)
    tagger = new_tagger(Lexical(LexicalOptions(buckets=64, width=6, hidden=5)), LABELS)
    train_tagger(tagger, TRAIN, DEV if dev else (), OPTIONS)
    return Recipe.of(tagger), tagger


VARIANTS = [Variant("all-0", TRAIN, 0), Variant("some-0", TRAIN[:9], 0), Variant("all-1", TRAIN, 1)]


def test_several_processes_give_the_same_as_one(tmp_path: Path) -> None:
    how, _ = recipe()
    seen: list[RetrainingProgress] = []
    work = (tmp_path / "work", {"data": "mine"})
    several = retrain_all(how, VARIANTS, Weights(), num_processes=2, work=work, progress=seen.append)
    assert [one.done for one in seen] == [1, 2, 3]
    assert seen[-1].seconds_left == 0
    one = retrain_all(how, VARIANTS, Weights())
    for first, second in zip(several, one, strict=True):
        torch.testing.assert_close(first, second)
    assert not torch.equal(one[0], one[1])
    assert not torch.equal(one[0], one[2])
    by_hand = how.untrained(1)
    train_tagger(by_hand, TRAIN, (), replace(OPTIONS, seed=1))
    torch.testing.assert_close(one[2], by_hand.head.flat())


def test_finished_runs_are_not_repeated_and_others_refused(tmp_path: Path) -> None:
    how, _ = recipe()
    work = (tmp_path / "work", {"data": "mine"})
    retrain_all(how, VARIANTS[:2], Weights(), work=work)
    seen: list[RetrainingProgress] = []
    retrain_all(how, VARIANTS, Weights(), work=work, progress=seen.append)
    assert [one.done for one in seen] == [3]
    with pytest.raises(OptionError, match="another run"):
        retrain_all(how, VARIANTS, Weights(), work=(tmp_path / "work", {"data": "other"}))


@pytest.mark.parametrize("num_processes", [1, 2])
def test_an_error_in_a_run_is_raised(num_processes: int) -> None:
    how, _ = recipe()
    with pytest.raises(DataError, match="measured nothing"):
        retrain_all(how, VARIANTS, Weights(fails=True), num_processes=num_processes)


def test_the_epoch_that_dev_data_chose_is_kept() -> None:
    how, tagger = recipe(dev=True)
    history = tagger.record["training"]["history"]
    assert how.stop_after == history["best_epoch"]
    tagger.record["training"]["history"]["best_epoch"] = 1
    (found,) = retrain_all(Recipe.of(tagger), VARIANTS[:1], Weights())
    expected = how.untrained(0)
    train_tagger(expected, TRAIN, (), OPTIONS, stop_after=1)
    torch.testing.assert_close(found, expected.head.flat())


@dataclass(frozen=True)
class Sleeps:
    """Notes its process, and takes long."""

    folder: Path

    def __call__(self, tagger: Tagger) -> Tensor:
        (self.folder / str(os.getpid())).touch()
        time.sleep(120)
        return tagger.head.flat()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_their_parent(tmp_path: Path, sent: signal.Signals) -> None:
    command = [sys.executable, "-c", "import sys; from tests.tagger import test_retrainings as t; t.sleep(sys.argv[1])"]
    parent = subprocess.Popen([*command, str(tmp_path)], cwd=ROOT, stderr=subprocess.DEVNULL)
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
    parent.send_signal(sent)
    parent.wait(20)
    wait_until(lambda: not any(is_running(path.name) for path in tmp_path.iterdir()))


def sleep(folder: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background
    retrain_all(recipe()[0], VARIANTS, Sleeps(Path(folder)), num_processes=2)


def is_running(number: str) -> bool:
    status = Path("/proc") / number / "status"
    return status.exists() and "State:\tZ" not in status.read_text()


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.2)
