"""Not in the paper: do influences foretell what happens when the whole tagger is trained again?

The linear datamodelling score (Park et al., 2023): the tagger is trained again, encoder included, on random halves of
its training sentences, with several seeds. For each query, a labelled validation token, the influences of the sentences
of a half are added up, and compared with the mean loss of the query after training on that half: Spearman's correlation
over the halves, mean over the queries. No predictor can do better than the noise of training permits: if one seed's
losses predict another's with correlation r, a perfect predictor of the mean of S seeds reaches about sqrt(S r / (1 +
(S - 1) r)).

Predictors: the head's gradients alone (``head, identity``) and with the exact Hessian (``head, exact``), on the tagger
trained to the end with its head refitted, as an index stores it; and gradients of all layers on taggers trained for a
quarter of their epochs (``whole tagger``), with one of them and averaged. The damping and the epoch of the last were
chosen on draw 0.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tagtrace.data import Corpus, LabelSet, Sentence
from tagtrace.index.fingerprints import content_fingerprint
from tagtrace.influence import Screen, WholeInfluence, find_candidates, make_query
from tagtrace.influence.whole.whole import mean_scores
from tagtrace.reproduce.shared.conll import read_split
from tagtrace.reproduce.shared.device_curvature import DeviceCurvature
from tagtrace.reproduce.shared.experiment import Experiment, Headline, SeedResult
from tagtrace.reproduce.shared.figures import draw_bars
from tagtrace.reproduce.shared.retraining_bench import spearman
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.reproduce.shared.tables import markdown, spread
from tagtrace.reproduce.shared.taggers import indexed, trained, with_index_head
from tagtrace.tagger import Tagger, crf
from tagtrace.tagger.recipe import Recipe
from tagtrace.tagger.retrainings import RetrainingProgress, Variant, retrain_all
from tagtrace.tagger.rows import pad_rows

NUM_SAMPLES = 1000
"""Bootstrap samples of the queries, for intervals."""


@dataclass(frozen=True)
class LdsOptions:
    """See lds.toml."""

    train: str
    validation: str
    num_train: int
    shortest: int
    longest: int
    num_queries: int
    num_subsets: int
    num_seeds: int
    num_early: int
    transformer: dict[str, Any]
    other: dict[str, Any]


@dataclass(frozen=True)
class Draw:
    """Training sentences, queries and halves, drawn by a seed."""

    train: Corpus
    asked: QueryLosses
    halves: list[list[int]]


@dataclass(frozen=True)
class QueryLosses:
    """The conditional losses of tokens (sentence number, start, stop) with their gold labels, (Q, 3)."""

    sentences: tuple[Sentence, ...]
    segments: Tensor

    @torch.no_grad()
    def __call__(self, tagger: Tagger) -> Tensor:
        """On a tagger, (Q,) float64."""
        rows = tagger.rows(self.sentences)
        scores = tagger.head(rows.features.to(tagger.head.weight), rows.lengths)
        return crf.conditional_loss(scores, pad_rows(rows.labels, rows.lengths), self.segments).double().cpu()


def run(setting: Setting, seed: int) -> SeedResult:
    """One draw: predictions, then the trainings that they are compared with."""
    options = setting.options("lds", LdsOptions)
    draw = make_draw(setting, options, seed)
    changes = options.transformer if setting.encoder_spec.startswith("transformer:") else options.other
    labels = LabelSet.from_sentences(draw.train.sentences, "iob2")
    name = f"lds-{seed}"
    tagger = trained(setting, name, draw.train, labels, seed=1000 + seed, **changes)
    scores, cost = predictions(setting, name, tagger, draw, options.num_early)
    losses = actual_losses(setting, name, tagger, draw, options.num_seeds)  # (halves, seeds, Q)
    return {
        "options": asdict(options), "sentences": len(draw.train.sentences), "tokens": draw.train.num_tokens,
        "queries": len(draw.asked.segments), "cost_s": cost, "between_seeds": between_seeds(losses),
        "scores": {key: lds(value, draw.halves, losses) for key, value in scores.items()},
    }  # fmt: skip


def make_draw(setting: Setting, options: LdsOptions, seed: int) -> Draw:
    """Sentences, queries and halves of one draw."""
    rng = random.Random(1000 + seed)

    def in_range(name: str) -> tuple[Corpus, list[Sentence]]:
        corpus = read_split(setting.data, name)
        return corpus, [one for one in corpus.sentences if options.shortest <= len(one) <= options.longest]

    corpus, sentences = in_range(options.train)
    train = rng.sample(sentences, options.num_train)
    _, validation = in_range(options.validation)
    places = [(i, t) for i, one in enumerate(validation) for t, label in enumerate(one.labels) if label != "O"]
    chosen = sorted(rng.sample(places, options.num_queries))
    numbers = sorted({i for i, _ in chosen})
    segments = torch.tensor([[numbers.index(i), t, t + 1] for i, t in chosen])
    asked = QueryLosses(tuple(validation[i] for i in numbers), segments)
    halves = [sorted(rng.sample(range(len(train)), len(train) // 2)) for _ in range(options.num_subsets)]
    return Draw(corpus.with_sentences(train), asked, halves)


def predictions(
    setting: Setting, name: str, tagger: Tagger, draw: Draw, num_early: int
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """The influence of every training sentence on every query by each predictor, (Q, N), and seconds."""
    index = indexed(setting, name, tagger, draw.train)
    refitted = with_index_head(tagger, index)
    queries = [
        make_query(refitted, draw.asked.sentences[number], start, stop, "gold")
        for number, start, stop in draw.asked.segments.tolist()
    ]
    gradients = torch.stack([query.gradient(index.head) for query in queries])  # (Q, P)
    screen = Screen(index.head, index.rows, find_candidates(index, "sentence").segments)
    setting.report("influence on the head")
    found = {"head, identity": screen.influence(gradients)}
    moved = DeviceCurvature(index, setting.device, "dense").solve(gradients).cpu()
    found["head, exact"] = screen.influence(moved)
    setting.report("influence through the whole tagger")
    start = time.monotonic()
    whole = WholeInfluence.build(tagger, draw.train.sentences, num_early)
    built = time.monotonic()
    each = [torch.stack([member.sentence_scores(query) for query in queries]) for member in whole.members]  # (Q, N)
    cost = {"build": built - start, "query": (time.monotonic() - built) / len(queries)}
    found["whole tagger, one seed"] = each[0]
    together = [mean_scores([scores[q] for scores in each]) for q in range(len(queries))]
    found[f"whole tagger, mean of {num_early}"] = torch.stack(together)
    return found, {key: round(value, 3) for key, value in cost.items()}


def actual_losses(setting: Setting, name: str, tagger: Tagger, draw: Draw, num_seeds: int) -> np.ndarray:
    """The losses of the queries after training on each half with each seed, (halves, seeds, Q)."""
    sentences = draw.train.sentences
    variants = [
        Variant(f"half-{number}-seed-{seed}", [sentences[i] for i in half], seed)
        for number, half in enumerate(draw.halves)
        for seed in range(num_seeds)
    ]
    recipe = Recipe.of(tagger)
    asked = [list(one.tokens) for one in draw.asked.sentences]
    owner = {
        **recipe.to_json(), "data": content_fingerprint(draw.train), "halves": draw.halves,
        "device": setting.device.type, "queries": [asked, draw.asked.segments.tolist()],
    }  # fmt: skip

    def report(progress: RetrainingProgress) -> None:
        if progress.done % 8 == 0 or progress.done == progress.total:
            line = f"{progress.done} of {progress.total} trainings, about {progress.seconds_left:.0f} s left"
            setting.report(line)

    found = retrain_all(
        recipe, variants, draw.asked, device=setting.device, num_processes=setting.jobs,
        work=(setting.work / name / "retrainings", owner), progress=report,
    )  # fmt: skip
    return torch.stack(found).view(len(draw.halves), num_seeds, -1).numpy()


def lds(scores: Tensor, halves: Sequence[Sequence[int]], losses: np.ndarray) -> dict[str, Any]:
    """The score of influences (Q, N), and its interval over queries."""
    totals = np.stack([scores[:, list(half)].sum(1).double().numpy() for half in halves])  # (halves, Q)
    actual = losses.mean(1)  # (halves, Q)
    each = np.array([spearman(-totals[:, q], actual[:, q]) for q in range(actual.shape[1])])
    drawn = np.random.default_rng(0).integers(0, len(each), (NUM_SAMPLES, len(each)))
    low, high = np.quantile(each[drawn].mean(1), (0.025, 0.975))
    return {"lds": float(each.mean()), "interval": [float(low), float(high)]}


def between_seeds(losses: np.ndarray) -> dict[str, float]:
    """How well one seed predicts another, and what a perfect predictor of their mean would reach."""
    num_seeds = losses.shape[1]
    if num_seeds < 2:
        return {"one": float("nan"), "ceiling": float("nan")}
    pairs = [(a, b) for a in range(num_seeds) for b in range(a)]
    one = fmean(spearman(losses[:, a, q], losses[:, b, q]) for a, b in pairs for q in range(losses.shape[2]))
    return {"one": one, "ceiling": float(np.sqrt(max(num_seeds * one / (1 + (num_seeds - 1) * one), 0.0)))}


def table(results: Sequence[SeedResult]) -> str:
    """The score of each predictor for each draw, with its interval."""
    first = results[0]
    rows = [[name, *(_cell(one["scores"][name]) for one in results)] for name in first["scores"]]
    rows.append(["one seed predicts another", *(f"{one['between_seeds']['one']:.2f}" for one in results)])
    rows.append(["ceiling", *(f"{one['between_seeds']['ceiling']:.2f}" for one in results)])
    options = first["options"]
    costs = [one["cost_s"] for one in results]
    return (
        f"{first['sentences']:,} sentences, {first['queries']} queries, {options['num_subsets']} halves, "
        f"{options['num_seeds']} seeds each. Spearman of predicted and actual losses, mean over queries, with 95 % "
        "intervals over queries:\n\n"
        + markdown(("prediction", *(f"draw {one['seed']}" for one in results)), rows)
        + f"\nSeconds: {spread([cost['build'] for cost in costs], 1)} to build for {options['num_early']} seeds, "
        f"{spread([cost['query'] for cost in costs], 2)} for a query.\n"
    )


def _cell(found: Mapping[str, Any]) -> str:
    low, high = found["interval"]
    return f"{found['lds']:.3f} ({low:.2f} to {high:.2f})"


def headlines(results: Sequence[SeedResult]) -> list[Headline]:
    """The head's best and that of the whole tagger."""
    names = list(results[0]["scores"])
    return [
        Headline(f"linear datamodelling score, {name}", "-", spread([one["scores"][name]["lds"] for one in results]))
        for name in (names[1], names[-1])
    ]


def draw_figure(results: Sequence[SeedResult], folder: Path) -> list[Path]:
    """A bar for each predictor."""
    names = list(results[0]["scores"])
    bars = {name: {"": [one["scores"][name]["lds"] for one in results]} for name in names}
    ceilings = [one["between_seeds"]["ceiling"] for one in results]
    if not any(np.isnan(ceilings)):
        bars["ceiling"] = {"": ceilings}
    title = "How well influences foretell training the whole tagger again"
    return draw_bars(folder / "lds", bars, title=title, y="linear datamodelling score")


def check(results: Sequence[SeedResult]) -> list[str]:
    """The whole tagger must foretell better than chance, and better than its head without curvature."""
    lines: list[str] = []
    for one in results:
        values = [found["lds"] for found in one["scores"].values()]
        if values[-1] <= 0.0 or values[-1] <= values[0]:
            lines.append(f"draw {one['seed']}: score {values[-1]:.3f} of the whole tagger, {values[0]:.3f} of the head")
    return lines


EXPERIMENT = Experiment(
    "lds", "not in the paper: the whole tagger", run, table, headlines, draw_figure, check, default_encoder="lexical"
)
