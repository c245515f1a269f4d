"""Checkpoints: a run that is killed ends with the same weights, and only a checkpoint of the same run is used."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from safetensors.torch import load_file
from torch import Tensor

from tagtrace._checks import TrainingError
from tagtrace.cli import main
from tagtrace.data import Sentence
from tagtrace.data.invented import write_invented
from tagtrace.tagger import HeadOptions, Step, Tagger, remove_checkpoint, train_tagger
from tests.tagger.test_training import (
    CORPUS,
    DEV,
    NOTHING,
    NUM_STEPS,
    SHORT,
    TRAIN,
    WORSE_AT_LAST,
    fresh,
    same,
    weights,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Killed(Exception):  # noqa: N818
    pass


def kill_at(step: int) -> Callable[[Step], None]:
    def progress(now: Step) -> None:
        if now.step == step:
            raise Killed

    return progress


@pytest.fixture(scope="module")
def uninterrupted() -> Tagger:
    tagger = fresh()
    train_tagger(tagger, TRAIN, DEV, SHORT)
    return tagger


@pytest.mark.parametrize("step", [1, 3, 5, 6, NUM_STEPS])  # inside an epoch, at the end of one, at the very end
def test_a_killed_run_ends_with_the_same_weights(uninterrupted: Tagger, tmp_path: Path, step: int) -> None:
    folder = tmp_path / "checkpoint"
    with pytest.raises(Killed):
        train_tagger(fresh(), TRAIN, DEV, SHORT, checkpoint=folder, progress=kill_at(step))
    resumed = fresh(seed=99)  # its own weights must not matter
    seen: list[int] = []
    train_tagger(resumed, TRAIN, DEV, SHORT, checkpoint=folder, progress=lambda now: seen.append(now.step))
    assert seen == list(range(step + 1, NUM_STEPS + 1)), "it must resume, not begin again"
    assert same(weights(resumed), weights(uninterrupted))
    assert resumed.record == uninterrupted.record


def test_a_run_killed_after_every_step_ends_with_the_same_weights(tmp_path: Path) -> None:
    options = replace(SHORT, schedule="linear", weight_decay=0.1, keep="last")
    whole = fresh()
    train_tagger(whole, TRAIN, DEV, options)
    for step in range(1, NUM_STEPS + 1):
        with pytest.raises(Killed):
            train_tagger(fresh(), TRAIN, DEV, options, checkpoint=tmp_path / "c", progress=kill_at(step))
    resumed = fresh()
    train_tagger(resumed, TRAIN, DEV, options, checkpoint=tmp_path / "c")
    assert same(weights(resumed), weights(whole))


def test_a_run_killed_after_its_best_epoch_still_ends_with_it(tmp_path: Path) -> None:
    whole, resumed = fresh(), fresh()
    history = train_tagger(whole, TRAIN, NOTHING, WORSE_AT_LAST)
    assert history.best_epoch is not None
    stop = kill_at(3 * history.best_epoch + 4)
    with pytest.raises(Killed):
        train_tagger(fresh(), TRAIN, NOTHING, WORSE_AT_LAST, checkpoint=tmp_path / "c", progress=stop)
    train_tagger(resumed, TRAIN, NOTHING, WORSE_AT_LAST, checkpoint=tmp_path / "c")
    assert same(weights(resumed), weights(whole))


def test_a_run_killed_while_it_writes_a_checkpoint_resumes_from_the_previous_one(
    uninterrupted: Tagger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "checkpoint"
    with pytest.raises(Killed):
        train_tagger(fresh(), TRAIN, DEV, SHORT, checkpoint=folder, progress=kill_at(4))

    def half_written(_tensors: dict[str, Tensor], path: Path, *_: object) -> None:
        path.write_bytes(b"half")
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("tagtrace._tensor_files.save_file", half_written)
        with pytest.raises(Killed):
            train_tagger(fresh(), TRAIN, DEV, SHORT, checkpoint=folder)
    resumed = fresh()
    seen: list[int] = []
    train_tagger(resumed, TRAIN, DEV, SHORT, checkpoint=folder, progress=lambda now: seen.append(now.step))
    assert seen[0] == 5
    assert same(weights(resumed), weights(uninterrupted))
    assert names(folder) == ["state.json", f"step-{NUM_STEPS}"]


def test_a_run_that_gets_sigkill_ends_with_the_same_weights(tmp_path: Path) -> None:
    write_invented(CORPUS, tmp_path / "data")
    command = ["train", str(tmp_path / "data" / "train.conll"), "--dev", str(tmp_path / "data" / "dev.conll")]
    command += ["--epochs", "2", "--device", "cpu"]
    killed = tmp_path / "killed"
    state = tmp_path / "killed.checkpoint" / "state.json"
    program = [sys.executable, "-c", "import torch; torch.set_num_threads(1); from tagtrace.cli import main; main()"]
    process = subprocess.Popen(
        [*program, *command, str(killed), "--checkpoint-seconds", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        give_up = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < give_up:
            if state.exists() and '"step"' in state.read_text():
                break
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        _, stderr = process.communicate()
    assert process.returncode == -signal.SIGKILL, stderr.decode()
    step = json.loads(state.read_text())["notes"]["step"]
    assert 0 < step < 16
    assert not killed.exists()
    resumed = CliRunner().invoke(main, [*command, str(killed)])
    assert resumed.exit_code == 0, resumed.output
    assert "resuming from" in resumed.stderr
    whole = CliRunner().invoke(main, [*command, str(tmp_path / "whole")])
    assert "resuming from" not in whole.stderr
    for file in ("head.safetensors", "encoder/encoder.safetensors"):
        assert same(load_file(killed / file), load_file(tmp_path / "whole" / file))
    assert names(tmp_path) == ["data", "killed", "whole"]


def test_the_last_checkpoint_stays_until_it_is_removed_and_nothing_else_is(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    seen: list[list[str]] = []
    train_tagger(fresh(), TRAIN, DEV, SHORT, checkpoint=folder, progress=lambda _: seen.append(names(folder)))
    assert seen == [["state.json", f"step-{step}"] for step in range(1, NUM_STEPS + 1)], "older tensors must go"
    again = fresh()
    train_tagger(again, TRAIN, DEV, SHORT, checkpoint=folder, progress=lambda _: pytest.fail("all steps were taken"))
    (folder / "notes.txt").write_text("mine")
    remove_checkpoint(folder)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_checkpoints_are_as_rare_as_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    options = replace(SHORT, checkpoint_seconds=1000)
    seen: list[int] = []
    train_tagger(
        fresh(), TRAIN, DEV, options, checkpoint=folder,
        progress=lambda now: seen.append(now.step) if folder.exists() else None,
    )  # fmt: skip
    assert seen == [NUM_STEPS], "only the last"


def relabelled(sentences: tuple[Sentence, ...]) -> tuple[Sentence, ...]:
    first = sentences[0]
    labels = ["O" if label != "O" else "B-PER" for label in first.labels[:1]] + list(first.labels[1:])
    return (first.with_labels(labels), *sentences[1:])


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("options", {"options": replace(SHORT, seed=5)}),
        ("data", {"train": relabelled(TRAIN)}),
        ("data", {"dev": DEV[:-1]}),
        ("head", {"tagger": {"head": HeadOptions(constrained=True)}}),
        ("unit", {"tagger": {"unit": "document"}}),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, what: str, changes: dict[str, Any]) -> None:
    folder = tmp_path / "checkpoint"
    with pytest.raises(Killed):
        train_tagger(fresh(), TRAIN, DEV, SHORT, checkpoint=folder, progress=kill_at(2))
    arguments = {"train": TRAIN, "dev": DEV, "options": SHORT, "tagger": {}} | changes
    other = fresh(**arguments["tagger"])
    before = weights(other)
    with pytest.raises(TrainingError, match=rf"another run \(different .*{what}.*restart"):
        train_tagger(other, arguments["train"], arguments["dev"], arguments["options"], checkpoint=folder)
    assert same(weights(other), before)
    remove_checkpoint(folder)
    train_tagger(other, arguments["train"], arguments["dev"], arguments["options"], checkpoint=folder)


@pytest.mark.parametrize("damage", ["state", "tensors", "missing"])
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "checkpoint"
    with pytest.raises(Killed):
        train_tagger(fresh(), TRAIN, DEV, SHORT, checkpoint=folder, progress=kill_at(2))
    tensors = folder / "step-2" / "weights.safetensors"
    if damage == "state":
        (folder / "state.json").write_text('{"step": 2')
    elif damage == "tensors":
        tensors.write_bytes(tensors.read_bytes()[:-10])
    else:
        tensors.unlink()
    with pytest.raises(TrainingError, match="restart") as error:
        train_tagger(fresh(), TRAIN, DEV, SHORT, checkpoint=folder)
    assert "\n" not in str(error.value)
