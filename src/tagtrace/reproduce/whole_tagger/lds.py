"""Not in the paper: do influences foretell what happens when the whole tagger is trained again?

The linear datamodelling score (Park et al., 2023): the tagger is trained again, encoder included, on random subsets of
its training data, with several seeds (``lds_subsets``). For each query, a labelled validation token, the influences of
what is left out or changed are added up (``lds_predictors``), and compared with the mean loss of the query after that
training: Spearman's correlation over the subsets, mean over the queries. No predictor can do better than the noise of
training permits: if one seed's losses predict another's with correlation r, a perfect predictor of the mean of S seeds
reaches about sqrt(S r / (1 + (S - 1) r)).

The damping and the epoch of the whole tagger's scores were chosen on draw 0, with halves of the sentences.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tagtrace._tensor_files import write_tensors
from tagtrace.reproduce.shared.experiment import Experiment, Headline, SeedResult
from tagtrace.reproduce.shared.figures import draw_bars
from tagtrace.reproduce.shared.retraining_bench import spearman
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.reproduce.shared.tables import markdown, spread
from tagtrace.reproduce.shared.taggers import trained
from tagtrace.reproduce.whole_tagger.lds_predictors import Predictors
from tagtrace.reproduce.whole_tagger.lds_subsets import KINDS, Kind, LdsOptions, actual_losses, make_draw

NUM_SAMPLES = 1000
"""Bootstrap samples of the queries, for intervals."""
WHAT: dict[Kind, str] = {
    "sentences": "Training on random halves of the sentences",
    "hidden": "Labels of {hidden_share:.0%} of the entities taken away",
    "relabelled": "Another type for {relabelled_share:.0%} of the entities",
}


def run(setting: Setting, seed: int) -> SeedResult:
    """One draw: predictions, then the trainings that they are compared with."""
    options = setting.options("lds", LdsOptions)
    draw = make_draw(setting, options, seed)
    changes = options.transformer if setting.encoder_spec.startswith("transformer:") else options.other
    name = f"lds-{seed}"
    start, is_kept = time.monotonic(), (setting.work / name / "tagger").exists()
    tagger = trained(setting, name, draw.train, draw.labels, seed=1000 + seed, **changes)
    training = None if is_kept else round(time.monotonic() - start, 3)
    some = torch.linspace(0, options.num_queries - 1, options.num_segment_queries).long()  # (q,)
    predictors = Predictors(setting, name, tagger, draw, options.kinds, some)
    scores, cost = predictors.run(options.num_early)
    every = {f"{kind}: {key}": value.float() for kind, some in scores.items() for key, value in some.items()}
    write_tensors(setting.work / name, "scores.safetensors", every)
    found: SeedResult = {
        "options": asdict(options), "num_sentences": len(draw.train.sentences), "num_tokens": draw.train.num_tokens,
        "num_entities": len(draw.entities), "cost_s": {**cost, "training": training},
    }  # fmt: skip
    for kind in options.kinds:
        setting.report(f"training on subsets: {kind}")
        losses = actual_losses(setting, name, tagger, draw, kind, options.num_seeds)  # (subsets, seeds, Q)
        if kind != "sentences":
            losses = losses[:, :, some.numpy()]
        sign = -1.0 if kind == "sentences" else 1.0  # a sentence in the subset is kept, an entity changed
        each = {key: lds(sign * value, draw.subsets[kind], losses) for key, value in scores[kind].items()}
        found[kind] = {
            "subsets": len(losses),
            "queries": losses.shape[2],
            "scores": each,
            "between_seeds": between_seeds(losses),
        }
    return found


def lds(effects: Tensor, subsets: Sequence[Sequence[int]], losses: np.ndarray) -> dict[str, Any]:
    """The score of effects (Q, N) of the members of a subset on the losses, and its interval over queries."""
    totals = np.stack([effects[:, list(some)].sum(1).double().numpy() for some in subsets])  # (subsets, Q)
    actual = losses.mean(1)  # (subsets, Q)
    each = np.array([spearman(totals[:, q], actual[:, q]) for q in range(actual.shape[1])])
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


def with_kind(results: Sequence[SeedResult]) -> dict[Kind, list[SeedResult]]:
    """For each kind of subsets, the draws that have it."""
    found: dict[Kind, list[SeedResult]] = {kind: [one for one in results if kind in one] for kind in KINDS}
    return {kind: some for kind, some in found.items() if some}


def table(results: Sequence[SeedResult]) -> str:
    """The score of each predictor for each draw, with its interval."""
    first, options = results[0], results[0]["options"]
    text = (
        f"{first['num_sentences']:,} sentences, {options['num_seeds']} trainings on each subset. "
        "Spearman of predicted and actual losses, mean over queries, with 95 % intervals over queries.\n"
    )
    for kind, some in with_kind(results).items():
        parts = [one[kind] for one in some]
        names = dict.fromkeys(name for part in parts for name in part["scores"])
        rows = [[name, *(_cell(one["scores"].get(name)) for one in parts)] for name in names]
        rows.append(["one seed predicts another", *(f"{one['between_seeds']['one']:.2f}" for one in parts)])
        rows.append(["ceiling", *(f"{one['between_seeds']['ceiling']:.2f}" for one in parts)])
        header = ("prediction", *(f"draw {one['seed']}" for one in some))
        counts = f"{parts[0]['subsets']} subsets, {parts[0]['queries']} queries"
        text += f"\n{WHAT[kind].format(**options)}, {counts}:\n\n{markdown(header, rows)}"
    costs = [one["cost_s"] for one in results]
    trainings = [cost["training"] for cost in costs if cost["training"] is not None]
    return text + (
        f"\nSeconds for the whole tagger's scores, {options['num_early']} seeds: "
        f"{spread([cost['build'] for cost in costs], 1)} to build, {spread([cost['query'] for cost in costs], 2)} to "
        f"score all sentences for one query, {spread([cost['tokens'] for cost in costs], 2)} all tokens. "
        + (f"One tagger trains in {spread(trainings, 1)}.\n" if trainings else "\n")
    )


def _cell(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "-"
    low, high = found["interval"]
    return f"{found['lds']:.3f} ({low:.2f} to {high:.2f})"


def best(part: Mapping[str, Any]) -> str:
    """The name of the predictor that averages early taggers."""
    return next(name for name in part["scores"] if name.startswith("whole tagger, mean"))


def headlines(results: Sequence[SeedResult]) -> list[Headline]:
    """The head's and that of the whole tagger."""
    return [
        Headline(
            f"linear datamodelling score, {kind}, {name}",
            "-",
            spread([one[kind]["scores"][name]["lds"] for one in some]),
        )
        for kind, some in with_kind(results).items()
        for name in ("head, exact", best(some[0][kind]))
    ]


def draw_figure(results: Sequence[SeedResult], folder: Path) -> list[Path]:
    """A bar for each predictor and kind."""
    bars: dict[str, dict[str, list[float]]] = {}
    for kind, some in with_kind(results).items():
        for name in some[0][kind]["scores"]:
            values = [one[kind]["scores"][name]["lds"] for one in some if name in one[kind]["scores"]]
            bars.setdefault(name, {})[kind] = values
        ceilings = [one[kind]["between_seeds"]["ceiling"] for one in some]
        if not any(np.isnan(ceilings)):
            bars.setdefault("ceiling", {})[kind] = ceilings
    if "ceiling" in bars:  # last
        bars["ceiling"] = bars.pop("ceiling")
    title = "How well influences foretell training the whole tagger again"
    return draw_bars(folder / "lds", bars, title=title, y="linear datamodelling score", digits=2)


def check(results: Sequence[SeedResult]) -> list[str]:
    """The whole tagger must foretell better than chance, and better than its head without curvature."""
    lines: list[str] = []
    for one in results:
        for kind in with_kind([one]):
            scores = one[kind]["scores"]
            whole, head = scores[best(one[kind])]["lds"], scores["head, identity"]["lds"]
            if whole <= max(head, 0.0):
                lines.append(
                    f"draw {one['seed']}, {kind}: score {whole:.3f} of the whole tagger, {head:.3f} of the head"
                )
    return lines


EXPERIMENT = Experiment(
    "lds", "not in the paper: the whole tagger", run, table, headlines, draw_figure, check, default_encoder="lexical"
)
