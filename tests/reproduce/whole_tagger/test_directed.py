"""Chosen edits and training again: on invented answers, and a small run on real data."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from tagtrace._checks import DataError
from tagtrace.reproduce import EXPERIMENTS
from tagtrace.reproduce.shared.experiment import run_seed
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.reproduce.whole_tagger import directed
from tagtrace.reproduce.whole_tagger.directed import differences, share_flipped, share_unedited
from tagtrace.reproduce.whole_tagger.directed_choices import SCORES, DirectedOptions, kept_edits
from tagtrace.tagger import retrainings
from tests.places import DATA


def invented(raised: float) -> dict[str, Any]:
    """Two queries and one seed: the loss rises by ``raised`` without supporters; one of two predictions flips."""
    answers: dict[str, Any] = {"nothing-seed-100": [[1.0, 1.0], [3.0, 7.0]]}
    edits = {}
    for score in SCORES:
        for q in range(2):
            answers[f"supporters-{score}-{q}-seed-0"] = [1.0 + raised * (q + 1), 3.0]
            answers[f"opposers-{score}-{q}-seed-0"] = [1.0, 3.0]
            answers[f"flip-{score}-{q}-seed-0"] = [0.5, 3.0 + q]
            edits[f"flip-{score}-{q}"] = 10 + q
    options = {"num_seeds": 1, "group_size": 5, "most": 20}
    before = [[[1.0, 1.0], [3.0, 3.0]]]
    return {"queries": 2, "answers": answers, "before": before, "options": options, "edits": edits, "seed": 0,
            "num_sentences": 100}  # fmt: skip


def test_what_is_reported() -> None:
    found = invented(0.5)
    assert differences(found, SCORES[0], 0) == [0.5, 1.0]
    assert share_flipped(found, SCORES[1]) == 0.5
    assert share_unedited(found) == 0.5
    text = directed.table([found])
    assert "+0.750 ±" in text
    assert "| whole tagger | 50% | 10.5 |" in text
    assert directed.check([found]) == []
    assert directed.check([invented(-0.5)])


@pytest.mark.skipif(not (DATA / "conll2003_corrected").is_dir(), reason="no CoNLL-2003 here")
def test_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(DATA, tmp_path, "lexical", quick=True, report=lambda _: None)
    small = {**vars(setting.options("directed", DirectedOptions)), "num_train": 60, "num_queries": 2,
             "group_size": 5, "most": 4, "other": {"epochs": 4}}  # fmt: skip
    monkeypatch.setattr(Setting, "options", lambda *_: DirectedOptions(**small))
    found = run_seed(EXPERIMENTS["directed"], setting, 0)
    assert found["queries"] == 2
    assert len(found["answers"]) == 2 * 2 * 3 + 1
    assert max(found["edits"].values()) <= 4
    assert "60 sentences; 2 tokens" in directed.table([found])
    assert directed.draw([found], tmp_path)
    (tmp_path / "directed-0.json").unlink()
    rmtree(tmp_path / "work")  # the files beside the results are enough
    monkeypatch.setattr(retrainings, "train_tagger", None)
    again = run_seed(EXPERIMENTS["directed"], setting, 0)
    assert again["answers"] == found["answers"]
    with pytest.raises(DataError, match="edits for other queries or options"):
        kept_edits(tmp_path / "directed-0-flipped.json", {"options": {}}, dict)
