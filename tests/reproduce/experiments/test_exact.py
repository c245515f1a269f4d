"""Predicted and actual changes: the table, figure and check, and the quick run on real data."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

from tagtrace.reproduce.experiments.exact import EXPERIMENT, check, table
from tagtrace.reproduce.shared.experiment import SeedResult, run_seed
from tagtrace.reproduce.shared.retraining_bench import agreement
from tagtrace.reproduce.shared.setting import Setting
from tests.places import DATA


def invented_result(seed: int, **pearson: float) -> SeedResult:
    """A result in the form of ``run``, with two points."""
    numbers = {"spearman": 0.9, "slope": 1.5, "largest_error": 0.5, "range": 2.0}
    methods = {"identity": 0.4, "first_order": 0.85, "refine": 0.999} | pearson
    measures = {name: {"pearson": value, **numbers} for name, value in methods.items()}
    measures["identity"]["spearman"] = 0.4
    measures["refine"]["slope"] = 1.01
    some = [{"query": 0, "segments": [[0, 0, 1]], "actual": x, "first_order": x / 2, "refine": x} for x in (0.5, 2.5)]
    return {
        "seed": seed, "model": "linear model", "points_kept": 2, "points": some,
        "per_query": dict.fromkeys(methods, 0.6), **measures,
    }  # fmt: skip


def test_the_table_has_the_papers_number_and_the_difference() -> None:
    lines = table([invented_result(0, first_order=0.9), invented_result(1, first_order=0.94)]).splitlines()
    assert [cell.strip() for cell in lines[3].split("|")[1:5]] == [
        "first order", "0.920 ± 0.028", "0.865 (0.89 as printed, without one point)", "+0.055"
    ]  # fmt: skip
    other = table([invented_result(0) | {"model": "refitted head"}]).splitlines()
    assert [cell.strip() for cell in other[3].split("|")[3:5]] == ["-", "-"], "the paper has no such figure"
    assert "0.600 ± 0.000" in lines[2]
    assert "2, 2" in lines[-1]


def test_the_figure_has_a_panel_for_each_method_and_seed(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    svg, png = EXPERIMENT.draw([invented_result(0), invented_result(3)], tmp_path)
    text = svg.read_text("utf-8")
    assert all(panel in text for panel in ("first order, seed 0", "first order, seed 3", "refine, seed 3"))
    assert "slope 2.00" in text  # predictions of first order are half as large
    assert png.exists()


def test_check_reports_each_unmet_expectation() -> None:
    good = invented_result(0)
    assert check([good]) == []
    for name, key, value in (
        ("first_order", "pearson", -0.85),
        ("refine", "pearson", 0.8),
        ("refine", "slope", 3.0),
        ("identity", "spearman", 0.95),
        ("refine", "pearson", float("nan")),
    ):
        bad = deepcopy(good)
        bad[name][key] = value
        assert len(check([good, bad])) == 1, (name, key)


def test_a_full_run_needs_no_encoder(tmp_path: Path) -> None:
    setting = Setting(tmp_path, tmp_path)
    assert EXPERIMENT.with_encoder(setting).encoder_spec == f"vectors:{tmp_path / 'glove/glove6b_100d.npz'}"
    assert EXPERIMENT.with_encoder(replace(setting, encoder="lexical")).encoder_spec == "lexical"


@pytest.mark.skipif(not (DATA / "glove").is_dir(), reason=f"no real data in {DATA}; set TAGTRACE_DATA")
def test_the_quick_run_on_real_data(tmp_path: Path) -> None:
    lines: list[str] = []
    found = run_seed(EXPERIMENT, Setting(DATA, tmp_path, quick=True, report=lines.append), 0)
    assert check([found]) == []
    assert found["points_kept"] == len(found["points"]) == 40
    assert found["per_query"]["identity"] < found["per_query"]["first_order"] < found["per_query"]["refine"]
    reversed_ = deepcopy(found)
    for point in reversed_["points"]:
        point["first_order"] *= -1
    reversed_["first_order"] = agreement(reversed_["points"], "first_order")
    assert len(check([reversed_])) >= 1
