"""Running one seed: its result as a file, resuming, and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tagtrace._checks import DataError, OptionError
from tagtrace.reproduce.shared.experiment import SeedResult, encoder_name, run_seed
from tagtrace.reproduce.shared.setting import Setting
from tests.reproduce.made import Made


def test_a_seed_is_run_once_and_read_afterwards(made: Made, setting: Setting, lines: list[str]) -> None:
    first = run_seed(made.experiment(), setting, 4)
    assert run_seed(made.experiment(), setting, 4) == first
    assert made.ran == [4]
    assert first["pair"] == [1, 2], "as it is read later, so that a resumed run shows the same table"
    assert (first["experiment"], first["seed"], first["quick"], first["encoder"]) == ("made", 4, False, "lexical")
    assert first["cost"]["seconds"] >= 0
    assert first["cost"]["peak_memory"] > 10_000_000
    assert lines == ["made, seed 4: running", f"made, seed 4: read from {setting.out / 'made-4.json'}"]


def test_an_experiment_cannot_overwrite_the_entries_about_its_run(made: Made, setting: Setting) -> None:
    with pytest.raises(AssertionError, match="must not have the keys"):
        run_seed(replace(made.experiment(), run=lambda _, seed: {"encoder": seed}), setting, 0)


def test_a_run_that_fails_leaves_no_result(made: Made, setting: Setting) -> None:
    def fail(_: Setting, seed: int) -> SeedResult:
        raise RuntimeError(f"killed at {seed}")

    with pytest.raises(RuntimeError):
        run_seed(replace(made.experiment(), run=fail), setting, 0)
    assert not setting.out.exists() or not list(setting.out.iterdir())
    assert run_seed(made.experiment(), setting, 0)["value"] == 0


@pytest.mark.parametrize("change", [{"quick": True}, {"encoder": "vectors:other.npz"}])
def test_results_of_a_run_with_other_options_are_refused(
    made: Made, setting: Setting, change: dict[str, object]
) -> None:
    run_seed(made.experiment(), setting, 0)
    with pytest.raises(DataError, match="run with other options"):
        run_seed(made.experiment(), replace(setting, **change), 0)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '"text"', '{"quick": false}'])
def test_a_file_that_is_not_a_result_is_refused(made: Made, setting: Setting, text: str) -> None:
    setting.out.mkdir()
    (setting.out / "made-0.json").write_text(text)
    with pytest.raises(DataError, match="is not a result of an experiment; remove the file"):
        run_seed(made.experiment(), setting, 0)


def test_encoders_are_named_without_their_parent_folders(setting: Setting, tmp_path: Path) -> None:
    (tmp_path / "some-bert").mkdir()
    assert encoder_name(replace(setting, encoder=str(tmp_path / "some-bert"))) == "transformer:some-bert"
    assert encoder_name(setting) == "lexical"
    assert encoder_name(replace(setting, encoder=None, quick=True)) == "vectors:glove6b_100d.npz"


def test_an_experiment_may_need_an_encoder(made: Made, setting: Setting) -> None:
    bare = replace(setting, encoder=None)
    with pytest.raises(OptionError, match="no encoder was given"):
        run_seed(made.experiment(), bare, 0)
    assert made.ran == []
    made.needs_encoder = False
    assert run_seed(made.experiment(), bare, 0)["spec"] == bare.word_vectors
