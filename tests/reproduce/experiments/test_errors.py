"""Documents with annotation errors: checks, tables and figures, and the quick run on real data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tagtrace.reproduce.experiments.errors import (
    EXPERIMENT,
    check,
    draw,
    erroneous_corpus,
    table,
)
from tagtrace.reproduce.shared.document_rankings import PAPER
from tagtrace.reproduce.shared.experiment import SeedResult, run_seed
from tagtrace.reproduce.shared.recall_curves import curve_table, mean_curves, not_above
from tagtrace.reproduce.shared.setting import Setting
from tests.places import DATA


def invented(first: int, *, seed: int = 0, num_documents: int = 40) -> SeedResult:
    """A result in which all methods rank three wrong documents at ``first`` and the next two places."""
    found_at = [first, first + 1, first + 2]
    return {
        "seed": seed, "num_documents": num_documents, "num_wrong": 3, "ranks": dict.fromkeys(PAPER, found_at)
    }  # fmt: skip


def test_check_reports_rankings_no_better_than_chance() -> None:
    assert check([invented(1)]) == []
    reversed_ = check([invented(38)])
    assert len(reversed_) == 2
    assert "token loss, mean" in reversed_[0]
    partial = invented(1)
    partial["ranks"] = {"instance loss": [1, 2, 3]}
    assert len(check([partial])) == 12
    assert not_above([invented(1)], "instance loss", "instance loss") != []


def test_table_and_mean_curves_are_over_seeds() -> None:
    results = [invented(1), invented(3)]
    text = table(results)
    assert "| instance loss | 0.950 ± 0.035 |" in text  # areas 0.975 and 0.925
    assert "| chance | 0.512 ± 0.000 |" in text
    assert "without numbers" in text
    curves = mean_curves(results, ["instance loss"])
    assert curves["instance loss"][:5] == pytest.approx([1 / 6, 1 / 3, 2 / 3, 5 / 6, 1.0], abs=1e-4)
    assert curves["chance"][19] == 0.5
    assert "| at best | 0.975 ± 0.000 | 1.000 ± 0.000 | 1.000 ± 0.000 |" in text
    assert curve_table(results).count("\n") == 2 + 13 + 2


def test_draw_writes_both_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert [path.name for path in draw([invented(1)], tmp_path)] == [
        "errors.svg", "errors.png", "errors-all.svg", "errors-all.png"
    ]  # fmt: skip


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data in {DATA}; set TAGTRACE_DATA")
def test_the_papers_counts_of_documents() -> None:
    corpus, wrong = erroneous_corpus(DATA, 0, 0)
    assert (len(corpus.documents), len(wrong)) == (879, 122)


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data in {DATA}; set TAGTRACE_DATA")
def test_quick_run_finds_wrong_documents_sooner_than_chance(tmp_path: Path) -> None:
    found = run_seed(EXPERIMENT, Setting(DATA, tmp_path, quick=True, report=lambda _: None), 0)
    assert check([found]) == []
    assert found["num_documents"] == 100
    assert tuple(found["ranks"])[:13] == PAPER
    turned = {name: sorted(101 - rank for rank in places) for name, places in found["ranks"].items()}
    assert len(check([found | {"ranks": turned}])) == 2, "the opposite direction is reported"
