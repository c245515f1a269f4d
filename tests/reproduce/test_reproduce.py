"""Running experiments by name: tables, figures, directions, seeds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from experiments import results_page

from tagtrace._checks import OptionError
from tagtrace.reproduce import EXPERIMENTS, DirectionError, parse_seeds, pick, reproduce
from tagtrace.reproduce.shared.setting import Setting
from tests.reproduce.made import Made


def test_reproduce_prints_and_draws_over_all_seeds(made: Made, setting: Setting, lines: list[str]) -> None:
    text = reproduce("made", setting, (2, 4))
    assert text.splitlines()[0] == "made (section 0, figure 0), lexical, seeds 2, 4"
    assert "| 3.000 ± 1.414 | [[1, 2], [1, 2]] |" in text
    assert (setting.out / "made.png").read_text() == "2"
    assert f"wrote {setting.out / 'made.svg'}" in lines
    assert reproduce("made", setting, (2, 4, 6)).splitlines()[0].endswith("2, 4, 6")
    assert made.ran == [2, 4, 6]


def test_a_quick_run_fails_if_the_result_has_another_direction(made: Made, setting: Setting, lines: list[str]) -> None:
    assert reproduce("made", replace(setting, quick=True), (0, 2))
    with pytest.raises(DirectionError, match="made: unexpected result: seed 1 is odd; seed 3 is odd"):
        reproduce("made", replace(setting, quick=True), (0, 1, 3))
    assert made.ran == [0, 2, 1, 3]
    assert "3" in reproduce("made", replace(setting, out=setting.out / "full"), (3,))
    assert lines[-1] == "made: unexpected result: seed 3 is odd"


def test_without_matplotlib_there_is_a_table_and_a_message(
    made: Made, setting: Setting, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tagtrace.reproduce.find_spec", lambda _: None)
    assert "2.000" in reproduce("made", setting, (2,))
    assert "matplotlib" in lines[-1]
    assert made.ran == [2]
    assert not (setting.out / "made.png").exists()


def test_experiments_are_picked_by_name(made: Made, setting: Setting) -> None:
    assert [experiment.name for experiment in pick("made", setting)] == ["made"]
    assert [experiment.name for experiment in pick("all", setting)] == list(EXPERIMENTS)
    with pytest.raises(OptionError, match=r"no experiment 'mad'; expected exact, .*made or all"):
        pick("mad", setting)
    with pytest.raises(OptionError, match="absent: is not a folder; expected the folder that contains conll2003"):
        pick("made", replace(setting, data=setting.data / "absent"))
    with pytest.raises(OptionError, match="no encoder was given"):
        pick("all", replace(setting, encoder=None))
    assert made.ran == []


def test_seeds_are_whole_numbers_separated_by_commas() -> None:
    assert parse_seeds("3,0, 3,1") == (3, 0, 1)
    for text in ("", "a", "1,,2", "-1", "1.5"):
        with pytest.raises(OptionError, match="expected whole numbers"):
            parse_seeds(text)


def test_every_experiment_is_on_the_page() -> None:
    names = "exact artifact errors noise dosage sensitivity lds directed loop"
    assert list(EXPERIMENTS) == names.split()
    assert all(name == experiment.name for name, experiment in EXPERIMENTS.items())
    assert set(results_page.DIFFERENCES) == set(results_page.SHOWS) == set(EXPERIMENTS)
