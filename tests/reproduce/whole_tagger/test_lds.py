"""The linear datamodelling score: on invented numbers, and a small run on real data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tagtrace.data.labels import HIDDEN
from tagtrace.reproduce import EXPERIMENTS
from tagtrace.reproduce.shared.experiment import run_seed
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.reproduce.whole_tagger import lds as experiment
from tagtrace.reproduce.whole_tagger.lds import between_seeds, lds
from tagtrace.reproduce.whole_tagger.lds_subsets import KINDS, LdsOptions, make_draw
from tests.places import DATA

RNG = np.random.default_rng(0)
HALVES = [sorted(RNG.choice(30, 15, replace=False).tolist()) for _ in range(40)]
MEMBER = np.array([[number in half for number in range(30)] for half in HALVES])  # (40, 30)
SCORES = torch.from_numpy(RNG.normal(size=(5, 30)))


def losses(noise: float, num_seeds: int = 3) -> np.ndarray:
    """Losses that rise as the sum of the scores in a subset, and noise: (40, seeds, 5)."""
    clean = (MEMBER @ SCORES.numpy().T)[:, None, :]
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


needs_data = pytest.mark.skipif(not (DATA / "conll2003_corrected").is_dir(), reason="no CoNLL-2003 here")


def small_options(setting: Setting) -> LdsOptions:
    options = setting.options("lds", LdsOptions)
    small = {**vars(options), "num_train": 60, "num_queries": 4, "num_segment_queries": 3, "num_subsets": 4,
             "other_segment_subsets": 4, "num_seeds": 2, "num_early": 2, "kinds": list(KINDS),
             "other": {"epochs": 4}}  # fmt: skip
    return LdsOptions(**small)


@needs_data
def test_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(DATA, tmp_path, "lexical", quick=True, report=lambda _: None)
    options = small_options(setting)
    monkeypatch.setattr(Setting, "options", lambda *_: options)
    monkeypatch.setattr("tagtrace.reproduce.whole_tagger.lds_predictors.peer_scores", lambda *_: {})
    found = run_seed(EXPERIMENTS["lds"], setting, 0)
    names = ["head, identity", "head, exact", "head, early", "whole tagger, one seed", "whole tagger, mean of 2"]
    parts = [
        f"whole tagger, one seed, {what}" for what in ("without curvature", "without embeddings", "after all epochs")
    ]
    assert [list(found[kind]["scores"]) for kind in options.kinds] == [[*names, *parts], names, names]
    assert [found[kind]["queries"] for kind in options.kinds] == [4, 3, 3]
    text = experiment.table([found])
    assert "60 sentences, 2 trainings on each subset" in text
    assert "Labels of 50% of the entities taken away, 4 subsets, 3 queries" in text
    assert experiment.headlines([found])[1].what == "linear datamodelling score, sentences, whole tagger, mean of 2"
    assert experiment.draw_figure([found], tmp_path)
    low = {name: {"lds": -0.1, "interval": [0, 0]} for name in names}
    assert experiment.check([{**found, "sentences": {**found["sentences"], "scores": low}}])


@needs_data
def test_draws_and_their_subsets(tmp_path: Path) -> None:
    setting = Setting(DATA, tmp_path, "lexical", quick=True, report=lambda _: None)
    options = small_options(setting)
    first, again = (make_draw(setting, options, 0) for _ in range(2))
    assert first.subsets == again.subsets
    assert [one.id for one in first.train.sentences] == [one.id for one in again.train.sentences]
    assert make_draw(setting, options, 1).subsets != first.subsets
    given = first.train.sentences
    subset = first.subsets["hidden"][0]
    hidden, other = first.changed("hidden", subset), first.changed("relabelled", subset)
    assert [len(one) for one in first.subsets["hidden"]] == [round(0.5 * len(first.entities))] * 4
    for number, (i, start, stop) in enumerate(first.entities.tolist()):
        inside = slice(start, stop)
        if number in subset:
            assert set(hidden[i].labels[inside]) == {HIDDEN}
            assert other[i].labels[start] == f"B-{first.new_types[number]}" != given[i].labels[start]
            spelled = first.new_labels()[number, : stop - start].tolist()
            assert list(other[i].labels[inside]) == list(first.labels.decode(spelled))
        else:
            assert hidden[i].labels[inside] == other[i].labels[inside] == given[i].labels[inside]
    kept = first.subsets["sentences"][0]
    assert [one.id for one in first.changed("sentences", kept)] == [given[i].id for i in kept]
