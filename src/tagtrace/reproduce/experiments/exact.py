"""Section 5.1 and figure 2: the change of a query's loss that influence predicts, against exact retraining.

The paper's model is linear: word vectors and syntactic features under a CRF (the default encoder). With an encoder that
can be trained, the refitted head is examined. For mispredicted validation tokens, each with its gold label, the
training tokens with the largest absolute first-order influence are removed one at a time and the head is retrained.
Every point is kept.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from tagtrace.data import LabelSet, Sentence, read_corpus
from tagtrace.reproduce.shared.experiment import Experiment, Headline, SeedResult
from tagtrace.reproduce.shared.figures import draw_scatter
from tagtrace.reproduce.shared.retraining_bench import L2, REFINED, Bench, Edits, agreement_per_query, mispredicted
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.reproduce.shared.tables import markdown, spread
from tagtrace.reproduce.shared.taggers import trained
from tagtrace.tagger import RefitOptions, Tagger, build_encoder, new_tagger, refit_tagger

METHODS = {"identity": "identity", "first_order": "first order", "refine": "refine"}
"""By their names in the results: without curvature; the paper's; ours."""
PAPER = {"pearson": 0.865, "slope": 1.62}
"""Over all 400 points of the table that the paper's authors released; the paper prints 0.89, without one point."""
PAPER_PRINTED = 0.89
LINEAR = "linear model"
COLUMNS = {"pearson": 3, "spearman": 3, "slope": 2, "largest_error": 2}
"""The measures in the table, with their number of digits."""
OPTIMUM = RefitOptions(l2=L2, tolerance=1e-10)

Model = tuple[Tagger, list[Sentence], list[Sentence]]
"""A tagger whose head is optimal on its training sentences, the training sentences, and the validation sentences."""


@dataclass(frozen=True)
class ExactOptions:
    """See exact.toml."""

    train_sentences: int
    validation_sentences: int
    shorter_than: int
    queries: int
    removals: int


def run(setting: Setting, seed: int) -> SeedResult:
    """Run one draw of sentences and queries."""
    options = setting.options("exact", ExactOptions)
    generator = random.Random(seed)
    tagger, train, validation = model(setting, seed, options, generator)
    wrong = mispredicted(tagger, validation)
    queries = generator.sample(wrong, min(options.queries, len(wrong)))
    setting.report(f"exact-{seed}: {len(queries)} queries x {options.removals} retrainings")
    bench = Bench(tagger, train, refined={"refine": REFINED["refine"]})
    result = bench.run(queries, Edits(top=options.removals), generator, setting.report)
    per_query = {name: agreement_per_query(result["points"], name) for name in METHODS}
    return {"model": LINEAR if is_linear(setting) else "refitted head", "per_query": per_query, **result}


def is_linear(setting: Setting) -> bool:
    return setting.encoder_spec.startswith("vectors:")


def model(setting: Setting, seed: int, options: ExactOptions, generator: random.Random) -> Model:
    """The paper's linear model on a draw of sentences, or an encoder fine-tuned on all sentences."""
    return (_linear if is_linear(setting) else _fine_tuned)(setting, seed, options, generator)


def _linear(setting: Setting, _: int, options: ExactOptions, generator: random.Random) -> Model:
    folder = setting.data / "conll2003"
    train = draw_sentences(folder / "train.txt.gz", options.train_sentences, options.shorter_than, generator)
    validation = draw_sentences(folder / "dev.txt.gz", options.validation_sentences, options.shorter_than, generator)
    labels = LabelSet.from_sentences(train, "iob2")
    tagger = new_tagger(build_encoder(setting.encoder_spec, train), labels).to(setting.device)
    refit_tagger(tagger, train, OPTIMUM)
    return tagger, train, validation


def _fine_tuned(setting: Setting, seed: int, options: ExactOptions, generator: random.Random) -> Model:
    folder = setting.data / "conll2003_corrected"
    corpus = read_corpus(folder / "train_original.jsonl.gz")
    validation = list(read_corpus(folder / "validation_original.jsonl.gz").sentences)
    if setting.quick:
        corpus = corpus.with_sentences(generator.sample(corpus.sentences, options.train_sentences))
    train = list(corpus.sentences)
    labels = LabelSet.from_sentences(train, "iob2")
    tagger = trained(setting, f"exact-{seed}", corpus, labels, seed)
    refit_tagger(tagger, train, OPTIMUM)
    return tagger, train, generator.sample(validation, len(validation))


def draw_sentences(path: Path, count: int, shorter_than: int, generator: random.Random) -> list[Sentence]:
    """A random draw of short sentences."""
    return generator.sample([s for s in read_corpus(path).sentences if len(s) < shorter_than], count)


def table(results: Sequence[SeedResult]) -> str:
    """Agreement with retraining over all points of a draw, and among the points of one query."""
    header = (
        "predicted by", "Pearson", "paper", "difference", "Spearman", "slope of actual on predicted", "largest error",
        "Spearman within a query",
    )  # fmt: skip
    rows: list[list[str]] = []
    for name, title in METHODS.items():
        values = {key: spread((result[name][key] for result in results), digits) for key, digits in COLUMNS.items()}
        paper, difference = "-", "-"
        if name == "first_order" and results[0]["model"] == LINEAR:
            paper, difference = _beside_paper(results)
            values["slope"] += f" (paper: {PAPER['slope']})"
        within = spread(result["per_query"][name] for result in results)
        rows.append([title, values["pearson"], paper, difference, *list(values.values())[1:], within])
    points = ", ".join(str(result["points_kept"]) for result in results)
    ranges = spread((result["refine"]["range"] for result in results), 2)
    note = (
        f"Points of each draw: {points}; range of the actual changes: {ranges}. {results[0]['model'].capitalize()}.\n"
    )
    return markdown(header, rows) + "\n" + note


def _beside_paper(results: Sequence[SeedResult]) -> tuple[str, str]:
    """The paper's correlation of first order, and our correlation minus it, both over all points."""
    paper = PAPER["pearson"]
    ours = fmean(result["first_order"]["pearson"] for result in results)
    return f"{paper} ({PAPER_PRINTED} as printed, without one point)", f"{ours - paper:+.3f}"


def headlines(results: Sequence[SeedResult]) -> list[Headline]:
    """Pearson's correlation with retraining, of first order and of refine."""
    first, refined = ([result[name]["pearson"] for result in results] for name in ("first_order", "refine"))
    what = f"Pearson with exact retraining, {results[0]['model']}"
    paper, difference = _beside_paper(results) if results[0]["model"] == LINEAR else ("-", "-")
    return [
        Headline(f"{what}, first order", paper, spread(first), difference),
        Headline(f"{what}, refine", "-", spread(refined)),
    ]


def draw(results: Sequence[SeedResult], folder: Path) -> list[Path]:
    """Figure 2 for first order, as in the paper, and for refine, with a panel for each draw."""
    panels = {
        f"{METHODS[name]}, seed {result['seed']}": _columns(result, name)
        for name in ("first_order", "refine")
        for result in results
    }
    title = f"Change of a query's loss when a training token is removed ({results[0]['model']})"
    return draw_scatter(folder / "exact", panels, title=title, x="predicted", y="actual, by exact retraining")


def _columns(result: SeedResult, name: str) -> tuple[list[float], list[float]]:
    return [point[name] for point in result["points"]], [point["actual"] for point in result["points"]]


def check(results: Sequence[SeedResult]) -> list[str]:
    """First order must agree with retraining, refine must agree better, and identity worse than first order."""
    lines: list[str] = []
    for result in results:
        first, refined, identity = (result[name] for name in ("first_order", "refine", "identity"))
        if not first["pearson"] > 0.7:
            lines.append(f"seed {result['seed']}: Pearson of first order {first['pearson']:.3f}, expected above 0.7")
        if not refined["pearson"] > max(first["pearson"], 0.98):
            lines.append(f"seed {result['seed']}: Pearson of refine {refined['pearson']:.3f}, expected above 0.98")
        if not abs(refined["slope"] - 1) < abs(first["slope"] - 1):
            lines.append(f"seed {result['seed']}: slope of refine {refined['slope']:.2f}, expected closer to 1")
        if not identity["spearman"] < first["spearman"]:
            lines.append(f"seed {result['seed']}: identity ranks as well as first order ({identity['spearman']:.3f})")
    return lines


EXPERIMENT = Experiment("exact", "section 5.1, figure 2", run, table, headlines, draw, check, needs_encoder=False)
