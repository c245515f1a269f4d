"""Write docs/results.md and its figures from the results of ``tagtrace reproduce``.

    python experiments/results_page.py

Reads experiments/results/paper/MACHINE/NAME-SEED.json, where MACHINE is h200 or two_cores: copy the files there from
the folder that ``tagtrace reproduce`` wrote. Figures are drawn into docs/results/MACHINE, and the text is taken from
results_page.toml. ``--results DIR`` and ``--docs DIR`` name other folders.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

from tagtrace._checks import DataError
from tagtrace.reproduce import EXPERIMENTS, Experiment
from tagtrace.reproduce.shared.experiment import SeedResult, read_result
from tagtrace.reproduce.shared.tables import markdown

ROOT = Path(__file__).parent.parent
MACHINES = {"h200": "an H200", "two_cores": "two cores"}
WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
SHOWS: dict[str, str] = WORDS["shows"]
DIFFERENCES: dict[str, str] = WORDS["differences"]


@dataclass(frozen=True)
class Run:
    """The seeds of one experiment on one machine."""

    experiment: Experiment
    machine: str
    results: Sequence[SeedResult]

    @property
    def encoder(self) -> str:
        return self.results[0]["encoder"]

    @property
    def is_main(self) -> bool:
        """Whether the run has several seeds; single seeds are shown for their cost and for a second encoder."""
        return len(self.results) > 1

    @property
    def seeds(self) -> str:
        return ",".join(str(result["seed"]) for result in self.results)

    @property
    def command(self) -> str:
        """The command that makes these results."""
        return command(self.experiment, self.encoder, self.seeds)


def command(experiment: Experiment, encoder: str, seeds: str) -> str:
    """The command as a user types it, with the encoder if it is not the default."""
    is_default = not experiment.needs_encoder and encoder.startswith(("vectors:", "ENCODERS"))
    option = "" if is_default else f" --encoder {in_folder(encoder)}"
    return f"tagtrace reproduce {experiment.name} --data DATA{option} --out OUT --seeds {seeds}"


def in_folder(encoder: str) -> str:
    """The encoder as a command names it: the folder of a transformer, vectors:DATA/glove/FILE, or only a kind."""
    kind, _, source = encoder.partition(":")
    if not source:
        return encoder
    return f"ENCODERS/{source}" if kind == "transformer" else f"{kind}:DATA/glove/{source}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "experiments/results/paper")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    given = parser.parse_args()
    try:
        write_page(given.results, given.docs)
    except DataError as error:
        sys.exit(f"results_page: {error}")
    print(f"wrote {given.docs / 'results.md'}")


def write_page(results: Path, docs: Path) -> None:
    """Write docs/results.md, and its figures in docs/results/."""
    runs = read_runs(results)
    if not runs:
        raise DataError(f"{results}: has no results; expected them in the subfolders {' and '.join(MACHINES)}")
    sections = [section(experiment, runs, docs) for experiment in EXPERIMENTS.values()]
    docs.mkdir(parents=True, exist_ok=True)
    text = "\n".join([WORDS["introduction"], glance(runs), *sections, WORDS["data"], costs(runs)])
    (docs / "results.md").write_text(text, encoding="utf-8")


def glance(runs: Sequence[Run]) -> str:
    """The headlines of every run of several seeds."""
    rows = [
        (
            f"[{run.experiment.name}](#{anchor(run.experiment)})",
            line.what,
            run.encoder.removeprefix("transformer:"),
            *line[1:],
        )
        for run in runs
        if run.is_main
        for line in run.experiment.headlines(run.results)
    ]
    return "## At a glance\n\n" + markdown(("", "what", "encoder", "paper", "ours", "difference"), rows)


def anchor(experiment: Experiment) -> str:
    """The anchor of a section's heading, as GitHub makes it."""
    kept = (c for c in heading(experiment).lower() if c.isalnum() or c in " -")
    return "".join(kept).replace(" ", "-")


def heading(experiment: Experiment) -> str:
    return f"{experiment.name}: {experiment.section}"


def read_runs(folder: Path) -> list[Run]:
    """All stored runs. Quick runs, and several encoders for the same experiment and machine, are refused."""
    runs: list[Run] = []
    for experiment in EXPERIMENTS.values():
        for machine in MACHINES:
            paths = (folder / machine).glob(f"{experiment.name}-*.json")
            results = sorted((read_result(path) for path in paths), key=lambda result: result["seed"])
            encoders = sorted({result["encoder"] for result in results})
            where = f"{folder / machine}, {experiment.name}"
            if len(encoders) > 1:
                raise DataError(f"{where}: has results of several encoders ({', '.join(encoders)}); keep those of one")
            if any(result["quick"] for result in results):
                raise DataError(f"{where}: has the result of a quick run; remove it")
            if results:
                runs.append(Run(experiment, machine, results))
    return runs


def section(experiment: Experiment, runs: Sequence[Run], docs: Path) -> str:
    """One experiment: differences from the paper, and a table and figures for each machine that ran it."""
    own = [run for run in runs if run.experiment is experiment]
    parts = [f"## {heading(experiment)}\n"]
    if any(run.is_main for run in own):
        parts.append(paragraph(SHOWS[experiment.name]))
    parts.append(paragraph(f"Differences from the paper: {DIFFERENCES[experiment.name]}"))
    parts += [part(run, docs) for run in own] or [f"Not yet run.\n\n    {command(experiment, 'ENCODERS', '0,1,2')}\n"]
    return "\n".join(parts)


def paragraph(text: str) -> str:
    return fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False) + "\n"


def part(run: Run, docs: Path) -> str:
    """Table, figures and command of a run, folded if it has a single seed."""
    name = f"{run.encoder}, seeds {run.seeds.replace(',', ', ')}, on {MACHINES[run.machine]}"
    if not run.is_main:
        return f"<details><summary>{name}</summary>\n\n{body(run, docs)}\n</details>\n"
    return f"### {name}\n\n{body(run, docs)}"


def body(run: Run, docs: Path) -> str:
    figures = run.experiment.draw(run.results, docs / "results" / run.machine)
    pictures = [picture(path, docs) for path in figures if path.suffix == ".png"]
    return "\n".join([run.experiment.table(run.results), *pictures, f"    {run.command}\n"])


def picture(path: Path, docs: Path) -> str:
    """A figure, and a link to its SVG."""
    place = path.relative_to(docs)
    return f"![{path.stem}]({place.as_posix()})\n\n[as SVG]({place.with_suffix('.svg').as_posix()})\n"


def costs(runs: Sequence[Run]) -> str:
    """Time and memory of each experiment on each machine."""
    introduction = (
        "## Cost\n\n"
        + paragraph(
            "Seconds are given for each seed in order and include training. Memory is the largest size of the process "
            "since it started; GPU memory is the most that was allocated."
        )
        + "\n"
        + paragraph(WORDS["side_by_side"])
    )
    header = ("experiment", "machine", "encoder", "seconds", "memory, GB", "GPU memory, GB")
    rows = [
        (
            run.experiment.name,
            f"{MACHINES[run.machine]} ({run.results[0]['cost']['machine']})",
            run.encoder,
            ", ".join(f"{result['cost']['seconds']:.0f}" for result in run.results),
            _gigabytes(run.results, "peak_memory"),
            _gigabytes(run.results, "peak_gpu_memory"),
        )
        for run in runs
    ]
    done = {(run.experiment.name, run.machine) for run in runs}
    missing = [
        f"{name} on {MACHINES[machine]}" for name in EXPERIMENTS for machine in MACHINES if (name, machine) not in done
    ]
    note = f"Not yet run: {', '.join(missing)}.\n" if missing else ""
    return "\n".join(text for text in (introduction, markdown(header, rows), note) if text)


def _gigabytes(results: Sequence[SeedResult], key: str) -> str:
    value = max(result["cost"][key] for result in results)
    return f"{value / 1e9:.1f}" if value else ""


if __name__ == "__main__":
    main()
