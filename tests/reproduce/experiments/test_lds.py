"""The linear datamodelling score: on invented numbers, and a small run on real data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tagtrace.reproduce import EXPERIMENTS
from tagtrace.reproduce.experiments import lds as experiment
from tagtrace.reproduce.experiments.lds import LdsOptions, between_seeds, lds, make_draw
from tagtrace.reproduce.shared.experiment import run_seed
from tagtrace.reproduce.shared.setting import Setting
from tests.places import DATA

RNG = np.random.default_rng(0)
HALVES = [sorted(RNG.choice(30, 15, replace=False).tolist()) for _ in range(40)]
MEMBER = np.array([[number in half for number in range(30)] for half in HALVES])  # (40, 30)
SCORES = torch.from_numpy(RNG.normal(size=(5, 30)))


def losses(noise: float, num_seeds: int = 3) -> np.ndarray:
    """Losses that fall as the sum of the scores in a half, and noise: (40, seeds, 5)."""
    clean = -(MEMBER @ SCORES.numpy().T)[:, None, :]
    return clean + noise * RNG.normal(size=(len(HALVES), num_seeds, 5))


def test_true_scores_foretell_and_others_do_not() -> None:
    assert lds(SCORES, HALVES, losses(0.0))["lds"] == pytest.approx(1.0)
    assert lds(-SCORES, HALVES, losses(0.0))["lds"] == pytest.approx(-1.0)
    others = lds(torch.from_numpy(RNG.normal(size=(5, 30))), HALVES, losses(0.0))
    assert abs(others["lds"]) < 0.4
    noisy = lds(SCORES, HALVES, losses(4.0))
    low, high = noisy["interval"]
    assert 0.3 < low < noisy["lds"] < high < 0.95


def test_the_ceiling_is_what_true_scores_reach() -> None:
    seeds = [between_seeds(losses(4.0)) for _ in range(30)]
    reached = np.mean([lds(SCORES, HALVES, losses(4.0))["lds"] for _ in range(30)])
    assert np.mean([one["ceiling"] for one in seeds]) == pytest.approx(reached, abs=0.05)
    assert np.isnan(between_seeds(losses(1.0, num_seeds=1))["ceiling"])


@pytest.mark.skipif(not (DATA / "conll2003_corrected").is_dir(), reason="no CoNLL-2003 here")
def test_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(DATA, tmp_path, "lexical", quick=True, report=lambda _: None)
    options = setting.options("lds", LdsOptions)
    small = {**vars(options), "num_train": 60, "num_queries": 4, "num_subsets": 4, "num_seeds": 2, "num_early": 2,
             "other": {"epochs": 4}}  # fmt: skip
    monkeypatch.setattr(Setting, "options", lambda *_: LdsOptions(**small))
    found = run_seed(EXPERIMENTS["lds"], setting, 0)
    assert list(found["scores"]) == [
        "head, identity",
        "head, exact",
        "whole tagger, one seed",
        "whole tagger, mean of 2",
    ]
    text = experiment.table([found])
    assert "60 sentences, 4 queries, 4 halves, 2 seeds each" in text
    assert experiment.headlines([found])[1].what == "linear datamodelling score, whole tagger, mean of 2"
    first, again = (make_draw(setting, LdsOptions(**small), seed) for seed in (0, 0))
    assert first.halves == again.halves
    assert [one.id for one in first.train.sentences] == [one.id for one in again.train.sentences]
    assert make_draw(setting, LdsOptions(**small), 1).halves != first.halves
    bad = {**found, "scores": {name: {"lds": -0.1, "interval": [0, 0]} for name in found["scores"]}}
    assert experiment.check([bad])
