"""The page that experiments/results_page.py writes from the stored results."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import click
import pytest
from experiments import results_page

from tagtrace._checks import DataError
from tagtrace.cli import main
from tagtrace.cli.reproduce import reproduce as reproduce_command
from tagtrace.reproduce import EXPERIMENTS, parse_seeds
from tagtrace.reproduce.shared.experiment import read_result
from tests.places import REPOSITORY
from tests.reproduce.made import Made


@pytest.fixture
def page_of(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page about two invented experiments."""
    linear = replace(Made(needs_encoder=False).experiment("linear"), section="section 1")
    monkeypatch.setattr(results_page, "EXPERIMENTS", {"made": made.experiment(), "linear": linear})
    monkeypatch.setattr(results_page, "DIFFERENCES", {"made": "Half the data.", "linear": "Nothing."})
    monkeypatch.setattr(results_page, "SHOWS", {"made": "It grows.", "linear": "It does not."})


def result(folder: Path, name: str, seed: int, encoder: str = "lexical", **more: object) -> None:
    cost = {"machine": "2 CPU threads", "seconds": 10.0 + seed, "peak_memory": 1_500_000_000, "peak_gpu_memory": 0}
    found = {"experiment": name, "seed": seed, "quick": False, "encoder": encoder, "cost": cost, "value": seed}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}-{seed}.json").write_text(json.dumps(found | {"pair": [1, 2]} | more))


@pytest.mark.usefixtures("page_of")
def test_the_page_has_tables_figures_commands_and_costs(tmp_path: Path) -> None:
    gpu = {"machine": "H200", "seconds": 7.0, "peak_memory": 2_000_000_000, "peak_gpu_memory": 3_000_000_000}
    for seed in (10, 2):
        result(tmp_path / "in/two_cores", "made", seed)
    result(tmp_path / "in/h200", "made", 1, "transformer:some-bert", cost=gpu)
    results_page.write_page(tmp_path / "in", tmp_path / "docs")
    text = (tmp_path / "docs/results.md").read_text("utf-8")
    assert "## made: section 0, figure 0\n\nIt grows.\n\nDifferences from the paper: Half the data.\n" in text
    assert "| [made](#made-section-0-figure-0) | value | lexical | 7 | 6.000 ± 5.657 | - |" in text
    assert "<details><summary>transformer:some-bert, seeds 1, on an H200</summary>" in text
    assert "It does not." not in text
    assert "### lexical, seeds 2, 10, on two cores" in text
    assert "| 6.000 ± 5.657 |" in text
    assert "\n    tagtrace reproduce made --data DATA --encoder lexical --out OUT --seeds 2,10\n" in text
    assert "--encoder ENCODERS/some-bert --out OUT --seeds 1\n" in text
    assert "| made | two cores (2 CPU threads) | lexical | 12, 20 | 1.5 |  |" in text
    assert "| made | an H200 (H200) | transformer:some-bert | 7 | 2.0 | 3.0 |" in text
    links = re.findall(r"\]\((results/[^)]+)\)", text)
    assert len(links) == 4
    assert all((tmp_path / "docs" / link).exists() for link in links)
    assert "## linear: section 1\n\nDifferences from the paper: Nothing.\n\nNot yet run.\n\n    tagtrace" in text
    assert "    tagtrace reproduce linear --data DATA --out OUT --seeds 0,1,2\n" in text
    assert "Not yet run: linear on an H200, linear on two cores." in text


@pytest.mark.usefixtures("page_of")
def test_the_default_encoder_is_not_in_the_command(tmp_path: Path) -> None:
    result(tmp_path / "two_cores", "linear", 0, "vectors:glove6b_100d.npz")
    (run,) = results_page.read_runs(tmp_path)
    assert run.command == "tagtrace reproduce linear --data DATA --out OUT --seeds 0"


@pytest.mark.usefixtures("page_of")
def test_several_encoders_and_quick_runs_are_refused(tmp_path: Path) -> None:
    result(tmp_path / "two_cores", "made", 0)
    result(tmp_path / "two_cores", "made", 1, "vectors:x")
    with pytest.raises(DataError, match="several encoders"):
        results_page.read_runs(tmp_path)
    result(tmp_path / "two_cores", "made", 1, quick=True)
    with pytest.raises(DataError, match="quick"):
        results_page.read_runs(tmp_path)


def test_the_page_in_docs_is_up_to_date(tmp_path: Path) -> None:
    results_page.write_page(REPOSITORY / "experiments/results/paper", tmp_path)
    assert (tmp_path / "results.md").read_text("utf-8") == (REPOSITORY / "docs/results.md").read_text("utf-8")
    written = {path.relative_to(tmp_path / "results"): path for path in (tmp_path / "results").rglob("*.*")}
    kept = {path.relative_to(REPOSITORY / "docs/results"): path for path in (REPOSITORY / "docs/results").rglob("*.*")}
    assert written.keys() == kept.keys()
    for name in (name for name in kept if name.suffix == ".svg"):
        words, numbers = drawn(kept[name])
        assert drawn(written[name])[0] == words
        assert drawn(written[name])[1] == pytest.approx(numbers, abs=0.01)


def drawn(path: Path) -> tuple[list[str], list[float]]:
    """The words and the numbers of a drawing, separately, because numbers may differ in the last digits."""
    parts = re.split(r"(-?\d+\.\d+)", path.read_text("utf-8"))
    return parts[::2], [float(part) for part in parts[1::2]]


def test_each_command_on_the_page_is_valid() -> None:
    text = (REPOSITORY / "docs/results.md").read_text("utf-8")
    found = re.findall(r"^ {4}tagtrace reproduce (.*)$", text, re.MULTILINE)
    assert len(found) >= len(EXPERIMENTS)
    for command in found:
        parent = click.Context(main, **main.context_settings)
        context = reproduce_command.make_context("reproduce", command.split(), parent)
        assert context.params["name"] in EXPERIMENTS
        assert parse_seeds(context.params["seeds"])
    assert all(f"## {experiment.name}: {experiment.section}\n" in text for experiment in EXPERIMENTS.values())


def test_stored_results_can_be_read_and_are_in_known_folders() -> None:
    paths = list((REPOSITORY / "experiments/results/paper").glob("*/*.json"))
    assert len(paths) >= 3 * len(EXPERIMENTS)
    for path in paths:
        assert path.parent.name in results_page.MACHINES
        found = read_result(path)
        assert path.name == f"{found['experiment']}-{found['seed']}.json"
