"""Running by name: results as files, resuming, refusals, directions; and the page that is made of the results."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
import pytest
from experiments import results_page

from tagtrace._checks import DataError, OptionError
from tagtrace.cli import main
from tagtrace.cli.reproduce import reproduce as reproduce_command
from tagtrace.reproduce import EXPERIMENTS, DirectionError, parse_seeds, pick, reproduce
from tagtrace.reproduce.shared.experiment import Experiment, Found, Headline, encoder_name, read_found, run_seed
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.reproduce.shared.tables import markdown, spread
from tests.places import REPOSITORY


@dataclass
class Made:
    """An experiment that finds its seed, and remembers what it was asked to run."""

    ran: list[int] = field(default_factory=list)
    needs_encoder: bool = True

    def experiment(self, name: str = "made") -> Experiment:
        return Experiment(
            name, "section 0, figure 0", self.run, self.table, self.headlines, self.draw, self.check, self.needs_encoder
        )

    def run(self, setting: Setting, seed: int) -> Found:
        self.ran.append(seed)
        return {"value": seed, "pair": (1, 2), "told": setting.encoder_spec}

    def table(self, founds: Sequence[Found]) -> str:
        return markdown(["value", "pairs"], [[spread(f["value"] for f in founds), str([f["pair"] for f in founds])]])

    def headlines(self, founds: Sequence[Found]) -> list[Headline]:
        return [Headline("value", "7", spread(f["value"] for f in founds))]

    def draw(self, founds: Sequence[Found], folder: Path) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"made.{kind}" for kind in ("svg", "png")]
        for path in paths:
            path.write_text(f"{len(founds)}")
        return paths

    def check(self, founds: Sequence[Found]) -> list[str]:
        return [f"seed {found['seed']} is odd" for found in founds if found["seed"] % 2]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    one = Made()
    monkeypatch.setitem(EXPERIMENTS, "made", one.experiment())
    return one


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def setting(tmp_path: Path, lines: list[str]) -> Setting:
    return Setting(tmp_path, tmp_path / "out", "lexical", report=lines.append)


def test_a_seed_is_run_once_and_read_afterwards(made: Made, setting: Setting, lines: list[str]) -> None:
    first = run_seed(made.experiment(), setting, 4)
    assert run_seed(made.experiment(), setting, 4) == first
    assert made.ran == [4]
    assert first["pair"] == [1, 2], "as it will be read, so that a resumed run shows the same table"
    assert (first["experiment"], first["seed"], first["quick"], first["encoder"]) == ("made", 4, False, "lexical")
    assert first["cost"]["seconds"] >= 0
    assert first["cost"]["peak_memory"] > 10_000_000
    assert lines == ["made, seed 4: running", f"made, seed 4: found in {setting.out / 'made-4.json'}"]


def test_what_is_said_about_a_run_cannot_be_overwritten(made: Made, setting: Setting) -> None:
    with pytest.raises(AssertionError, match="may not have"):
        run_seed(replace(made.experiment(), run=lambda _, seed: {"encoder": seed}), setting, 0)


def test_a_run_that_fails_leaves_no_result(made: Made, setting: Setting) -> None:
    def fail(_: Setting, seed: int) -> Found:
        raise RuntimeError(f"killed at {seed}")

    with pytest.raises(RuntimeError):
        run_seed(replace(made.experiment(), run=fail), setting, 0)
    assert not setting.out.exists() or not list(setting.out.iterdir())
    assert run_seed(made.experiment(), setting, 0)["value"] == 0


@pytest.mark.parametrize("change", [{"quick": True}, {"encoder": "vectors:other.npz"}])
def test_results_of_another_run_are_not_taken(made: Made, setting: Setting, change: dict[str, object]) -> None:
    run_seed(made.experiment(), setting, 0)
    with pytest.raises(DataError, match="of another run"):
        run_seed(made.experiment(), replace(setting, **change), 0)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '"text"', '{"quick": false}'])
def test_a_file_that_is_no_result_is_refused(made: Made, setting: Setting, text: str) -> None:
    setting.out.mkdir()
    (setting.out / "made-0.json").write_text(text)
    with pytest.raises(DataError, match="is no result"):
        run_seed(made.experiment(), setting, 0)


def test_encoders_are_named_without_their_folders(setting: Setting, tmp_path: Path) -> None:
    (tmp_path / "some-bert").mkdir()
    assert encoder_name(replace(setting, encoder=str(tmp_path / "some-bert"))) == "transformer:some-bert"
    assert encoder_name(setting) == "lexical"
    assert encoder_name(replace(setting, encoder=None, quick=True)) == "vectors:glove6b_100d.npz"


def test_without_an_encoder(made: Made, setting: Setting) -> None:
    bare = replace(setting, encoder=None)
    with pytest.raises(OptionError, match="--encoder is missing"):
        run_seed(made.experiment(), bare, 0)
    assert made.ran == []
    made.needs_encoder = False
    assert run_seed(made.experiment(), bare, 0)["told"] == bare.word_vectors


def test_options_are_the_papers_or_the_quick_ones(setting: Setting) -> None:
    @dataclass(frozen=True)
    class Few:
        queries: int

    with pytest.raises(OptionError, match=r"exact.toml: unknown option .*removals"):
        setting.options("exact", Few)


def test_reproduce_prints_and_draws_over_all_seeds(made: Made, setting: Setting, lines: list[str]) -> None:
    text = reproduce("made", setting, (2, 4))
    assert text.splitlines()[0] == "made (section 0, figure 0), lexical, seeds 2, 4"
    assert "| 3.000 ± 1.414 | [[1, 2], [1, 2]] |" in text
    assert (setting.out / "made.png").read_text() == "2"
    assert f"wrote {setting.out / 'made.svg'}" in lines
    assert reproduce("made", setting, (2, 4, 6)).splitlines()[0].endswith("2, 4, 6")
    assert made.ran == [2, 4, 6]


def test_a_quick_run_fails_when_the_direction_is_another(made: Made, setting: Setting, lines: list[str]) -> None:
    assert reproduce("made", replace(setting, quick=True), (0, 2))
    with pytest.raises(DirectionError, match="made: not as expected: seed 1 is odd; seed 3 is odd"):
        reproduce("made", replace(setting, quick=True), (0, 1, 3))
    assert made.ran == [0, 2, 1, 3]
    assert "3" in reproduce("made", replace(setting, out=setting.out / "full"), (3,))
    assert lines[-1] == "made: not as expected: seed 3 is odd"


def test_without_matplotlib_there_is_a_table_and_a_line(
    made: Made, setting: Setting, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tagtrace.reproduce.find_spec", lambda _: None)
    assert "2.000" in reproduce("made", setting, (2,))
    assert "matplotlib" in lines[-1]
    assert made.ran == [2]
    assert not (setting.out / "made.png").exists()


def test_picking(made: Made, setting: Setting) -> None:
    assert [experiment.name for experiment in pick("made", setting)] == ["made"]
    assert [experiment.name for experiment in pick("all", setting)] == list(EXPERIMENTS)
    with pytest.raises(OptionError, match=r"no experiment 'mad'; expected exact, .*made or all"):
        pick("mad", setting)
    with pytest.raises(OptionError, match="is no folder; --data"):
        pick("made", replace(setting, data=setting.data / "absent"))
    with pytest.raises(OptionError, match="--encoder is missing"):
        pick("all", replace(setting, encoder=None))
    assert made.ran == []


def test_seeds() -> None:
    assert parse_seeds("3,0, 3,1") == (3, 0, 1)
    for text in ("", "a", "1,,2", "-1", "1.5"):
        with pytest.raises(OptionError, match="whole numbers"):
            parse_seeds(text)


def test_the_experiments_are_those_of_the_issue() -> None:
    assert list(EXPERIMENTS) == ["exact", "artifact", "errors", "noise", "dosage", "sensitivity"]
    assert all(name == experiment.name for name, experiment in EXPERIMENTS.items())
    assert set(results_page.DIFFERENCES) == set(results_page.SHOWS) == set(EXPERIMENTS)


# the page


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
    assert "## made: section 0, figure 0\n\nIt grows.\n\nWhat differs: Half the data.\n" in text
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
    assert "## linear: section 1\n\nWhat differs: Nothing.\n\nNot yet run.\n\n    tagtrace reproduce linear" in text
    assert "Not yet run: linear on an H200, linear on two cores." in text


@pytest.mark.usefixtures("page_of")
def test_the_default_encoder_is_not_in_the_command(tmp_path: Path) -> None:
    result(tmp_path / "two_cores", "linear", 0, "vectors:glove6b_100d.npz")
    (run,) = results_page.read_runs(tmp_path)
    assert run.command == "tagtrace reproduce linear --data DATA --out OUT --seeds 0"


@pytest.mark.usefixtures("page_of")
def test_the_page_mixes_neither_encoders_nor_quick_runs(tmp_path: Path) -> None:
    result(tmp_path / "two_cores", "made", 0)
    result(tmp_path / "two_cores", "made", 1, "vectors:x")
    with pytest.raises(DataError, match="several encoders"):
        results_page.read_runs(tmp_path)
    result(tmp_path / "two_cores", "made", 1, quick=True)
    with pytest.raises(DataError, match="quick"):
        results_page.read_runs(tmp_path)


def test_the_page_is_what_its_command_writes(tmp_path: Path) -> None:
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
    """The words and the numbers of a drawing, apart, so that numbers may differ in the last digits."""
    parts = re.split(r"(-?\d+\.\d+)", path.read_text("utf-8"))
    return parts[::2], [float(part) for part in parts[1::2]]


def test_each_command_on_the_page_can_be_given() -> None:
    text = (REPOSITORY / "docs/results.md").read_text("utf-8")
    found = re.findall(r"^ {4}tagtrace reproduce (.*)$", text, re.MULTILINE)
    assert len(found) >= len(EXPERIMENTS)
    for command in found:
        parent = click.Context(main, **main.context_settings)
        context = reproduce_command.make_context("reproduce", command.split(), parent)
        assert context.params["name"] in EXPERIMENTS
        assert parse_seeds(context.params["seeds"])
    assert all(f"## {experiment.name}: {experiment.section}\n" in text for experiment in EXPERIMENTS.values())


def test_kept_results_can_be_read_and_are_in_no_hidden_place() -> None:
    paths = list((REPOSITORY / "experiments/results/paper").glob("*/*.json"))
    assert len(paths) >= 3 * len(EXPERIMENTS)
    for path in paths:
        assert path.parent.name in results_page.MACHINES
        found = read_found(path)
        assert path.name == f"{found['experiment']}-{found['seed']}.json"
