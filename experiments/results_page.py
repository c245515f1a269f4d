"""Write docs/results.md, and its figures, from what ``tagtrace reproduce`` found.

    python experiments/results_page.py

Reads experiments/results/paper/MACHINE/NAME-SEED.json (MACHINE is h200 or two_cores), what `tagtrace reproduce` wrote
into its --out: copy the files there. Draws
figures into docs/results/MACHINE; takes its words from results_page.toml. Other places: ``--results DIR --docs DIR``.
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
from tagtrace.reproduce.shared.experiment import Found, read_found
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
    founds: Sequence[Found]

    @property
    def encoder(self) -> str:
        return self.founds[0]["encoder"]

    @property
    def is_main(self) -> bool:
        """Several seeds: a result; a single one is there for its cost and a second encoder."""
        return len(self.founds) > 1

    @property
    def seeds(self) -> str:
        return ",".join(str(found["seed"]) for found in self.founds)

    @property
    def command(self) -> str:
        """What makes these results again."""
        return command(self.experiment, self.encoder, self.seeds)


def command(experiment: Experiment, encoder: str, seeds: str) -> str:
    """What a user types; an encoder only where it is not the default."""
    is_default = not experiment.needs_encoder and encoder.startswith(("vectors:", "ENCODERS"))
    option = "" if is_default else f" --encoder {in_folder(encoder)}"
    return f"tagtrace reproduce {experiment.name} --data DATA{option} --out OUT --seeds {seeds}"


def in_folder(encoder: str) -> str:
    """As it is given: a folder with a transformer, vectors:DATA/glove/FILE; others by their kind alone."""
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
    """docs/results.md, and its figures in docs/results/."""
    runs = read_runs(results)
    if not runs:
        raise DataError(f"{results}: no results; they belong into its folders {' and '.join(MACHINES)}, by machine")
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
        for line in run.experiment.headlines(run.founds)
    ]
    return "## At a glance\n\n" + markdown(("", "what", "encoder", "paper", "ours", "difference"), rows)


def anchor(experiment: Experiment) -> str:
    """Of a section's heading, as GitHub and most others make it."""
    kept = (c for c in heading(experiment).lower() if c.isalnum() or c in " -")
    return "".join(kept).replace(" ", "-")


def heading(experiment: Experiment) -> str:
    return f"{experiment.name}: {experiment.section}"


def read_runs(results: Path) -> list[Run]:
    """All that was run, whole experiments only: no quick runs, one encoder for all seeds of a machine."""
    runs: list[Run] = []
    for experiment in EXPERIMENTS.values():
        for machine in MACHINES:
            paths = (results / machine).glob(f"{experiment.name}-*.json")
            founds = sorted((read_found(path) for path in paths), key=lambda found: found["seed"])
            encoders = sorted({found["encoder"] for found in founds})
            where = f"{results / machine}, {experiment.name}"
            if len(encoders) > 1:
                raise DataError(f"{where}: results of several encoders ({', '.join(encoders)}); keep those of one")
            if any(found["quick"] for found in founds):
                raise DataError(f"{where}: the result of a quick run; remove it")
            if founds:
                runs.append(Run(experiment, machine, founds))
    return runs


def section(experiment: Experiment, runs: Sequence[Run], docs: Path) -> str:
    """One experiment: what differs from the paper, and a table and figures for each machine it ran on."""
    own = [run for run in runs if run.experiment is experiment]
    parts = [f"## {heading(experiment)}\n"]
    if any(run.is_main for run in own):
        parts.append(paragraph(SHOWS[experiment.name]))
    parts.append(paragraph(f"What differs: {DIFFERENCES[experiment.name]}"))
    parts += [part(run, docs) for run in own] or [f"Not yet run.\n\n    {command(experiment, 'ENCODERS', '0,1,2')}\n"]
    return "\n".join(parts)


def paragraph(text: str) -> str:
    return fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False) + "\n"


def part(run: Run, docs: Path) -> str:
    """Table, figures and command; folded away if it is of a single seed."""
    name = f"{run.encoder}, seeds {run.seeds.replace(',', ', ')}, on {MACHINES[run.machine]}"
    if not run.is_main:
        return f"<details><summary>{name}</summary>\n\n{body(run, docs)}\n</details>\n"
    return f"### {name}\n\n{body(run, docs)}"


def body(run: Run, docs: Path) -> str:
    figures = run.experiment.draw(run.founds, docs / "results" / run.machine)
    pictures = [picture(path, docs) for path in figures if path.suffix == ".png"]
    return "\n".join([run.experiment.table(run.founds), *pictures, f"    {run.command}\n"])


def picture(path: Path, docs: Path) -> str:
    """A figure, and a link to the same as SVG."""
    place = path.relative_to(docs)
    return f"![{path.stem}]({place.as_posix()})\n\n[as SVG]({place.with_suffix('.svg').as_posix()})\n"


def costs(runs: Sequence[Run]) -> str:
    """Time and memory of each experiment on each machine."""
    introduction = (
        "## Cost\n\n"
        + paragraph(
            "Seconds of each seed, in the order of seeds, training included. Memory: the most that the process held, "
            "since it began; on the GPU, the most that was allocated."
        )
        + "\n"
        + paragraph(WORDS["side_by_side"])
    )
    header = ("experiment", "machine", "encoder", "seconds", "memory, GB", "GPU memory, GB")
    rows = [
        (
            run.experiment.name,
            f"{MACHINES[run.machine]} ({run.founds[0]['cost']['machine']})",
            run.encoder,
            ", ".join(f"{found['cost']['seconds']:.0f}" for found in run.founds),
            _gigabytes(run.founds, "peak_memory"),
            _gigabytes(run.founds, "peak_gpu_memory"),
        )
        for run in runs
    ]
    done = {(run.experiment.name, run.machine) for run in runs}
    missing = [
        f"{name} on {MACHINES[machine]}" for name in EXPERIMENTS for machine in MACHINES if (name, machine) not in done
    ]
    note = f"Not yet run: {', '.join(missing)}.\n" if missing else ""
    return "\n".join(text for text in (introduction, markdown(header, rows), note) if text)


def _gigabytes(founds: Sequence[Found], key: str) -> str:
    value = max(found["cost"][key] for found in founds)
    return f"{value / 1e9:.1f}" if value else ""


if __name__ == "__main__":
    main()
