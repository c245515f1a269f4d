"""The simulated loop on a few invented sentences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tagtrace.data import violations
from tagtrace.data.labels import HIDDEN
from tagtrace.reproduce import EXPERIMENTS
from tagtrace.reproduce.loop.loop import LoopOptions, num_wrong
from tagtrace.reproduce.loop.loop_tables import ERRING, LOOP, check, draw, headlines, table
from tagtrace.reproduce.loop.reviewers import Reviewer
from tagtrace.reproduce.loop.tasks import Task, read_task
from tagtrace.reproduce.loop.taught_review import calibration_error, taught_states, token_ap
from tagtrace.reproduce.shared.experiment import run_seed
from tagtrace.reproduce.shared.setting import Setting
from tests.findings.teaching.made import made


def small_task() -> Task:
    return read_task(Path(), "demo/types", 0, 60)


def findings_of(task: Task) -> list:
    """A finding for every fourth sentence with a wrong label and one that is right for every other sentence."""
    found = []
    for number, (given, true) in enumerate(zip(task.corpus.sentences, task.true, strict=True)):
        for t, label in enumerate(given.labels):
            if label.startswith("B-") and (label != true.labels[t] or number % 3 == 0):
                new = true.labels[t] if label != true.labels[t] else "O"
                values = {"start": t, "stop": t + 1, "document": given.document, "rank": len(found) + 1}
                found.append(made(number, given.tokens[t], label, new, **values))
                break
    return found


def assert_alike(one: Any, other: Any) -> None:
    """The same but for the last digits, which differ with the number of threads and where numbers lie in memory."""
    if isinstance(other, dict):
        assert one.keys() == other.keys()
        for key in other:
            assert_alike(one[key], other[key])
    elif isinstance(other, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_alike(a, b)
    else:
        assert one == (pytest.approx(other, rel=1e-5) if isinstance(other, float) else other)


def test_a_review_that_teaches_only_removes_wrong_labels() -> None:
    task = small_task()
    given, findings = list(task.corpus.sentences), findings_of(task)
    states = taught_states(given, findings, Reviewer(task.true, task.labels.types), [10, 30])
    assert [one.state.num_decisions for one in states] == [10, 30]
    left = [num_wrong(given, task.true), *(one.state.num_wrong for one in states)]
    assert left[0] > left[1] > left[2]
    for one in states:
        assert all(task.true[n].labels[t] == label for (n, t), label in one.decided.labels.items())
        assert all(not violations(sentence.labels, "iob2") for sentence in one.fixed())
        known = sum(label != HIDDEN for sentence in one.trusted() for label in sentence.labels)
        assert known == len(one.decided)


def test_what_is_believed_is_measured_against_the_truth() -> None:
    task = small_task()
    given, findings = list(task.corpus.sentences), findings_of(task)
    (state,) = taught_states(given, findings, Reviewer(task.true, task.labels.types), [20])
    pairs = [
        (a, b) for one, true in zip(given, task.true, strict=True) for a, b in zip(one.labels, true.labels, strict=True)
    ]
    wrong = torch.tensor([a != b for a, b in pairs])
    lengths = torch.tensor([len(one) for one in given])
    starts, noise = lengths.cumsum(0) - lengths, torch.rand(len(wrong), generator=torch.Generator().manual_seed(0))
    assert token_ap(state, noise, starts, wrong) > token_ap(state, noise, starts, wrong.roll(7))
    assert 0 <= calibration_error(state, task.true) < 0.6
    assert calibration_error(state, task.true) != calibration_error(state, given)


def test_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(tmp_path, tmp_path, "lexical", quick=True, report=lambda _: None)
    small = {**vars(setting.options("loop", LoopOptions)), "other_tasks": ["demo/types"], "other_size": 60,
             "counts": [10], "most": 100, "other": {"epochs": 1}}  # fmt: skip
    monkeypatch.setattr(Setting, "options", lambda *_: LoopOptions(**small))
    found = run_seed(EXPERIMENTS["loop"], setting, 0)
    one = found["tasks"]["demo/types"]
    assert {LOOP, ERRING, "cleanlab", "random sentences"} <= set(one["contenders"])
    assert one["num_wrong"] >= one["contenders"][LOOP][0]["left_by_decisions"]
    assert one["num_wrong"] >= one["contenders"]["cleanlab"][0]["left"]
    again = run_seed(EXPERIMENTS["loop"], replace(setting, out=tmp_path / "again", jobs=2), 0)  # in a process
    (tmp_path / "loop-0.json").unlink()
    kept = run_seed(EXPERIMENTS["loop"], setting, 0)
    assert_alike(kept["tasks"], found["tasks"])  # trainings are read, and the rest is computed again
    assert_alike(again["tasks"], found["tasks"])
    text = table([found])
    assert "Wrong labels left, as a share of those there were after 10 decisions" in text
    assert "| noisy labels | 1.00 |" in text
    assert len(headlines([found])) == 3
    assert draw([found], tmp_path)
    spoiled = {**found, "tasks": {"demo/types": {**one, "num_wrong": -1}}}
    assert check([spoiled])
