"""Not in the paper: how much depends on two of its assumptions, that curvature and the encoder may be ignored.

Queries are mispredicted validation tokens with their gold labels, on a tagger with a refitted head.

**Curvature.** All training tokens are ranked for each query by g_q^T H^-1 g_k, with H the exact Hessian of the head;
by cheaper scores: the identity or Kronecker factors in place of H, and the cosine of gradients; and by ``relative``,
which is ``curvature`` divided by sizes from Kronecker factors (``shared.retrieval``). Reported are Spearman's
correlation over all scores, and the shares of the ``top`` supporters and opposers that are the same.

**Encoder.** Influence is computed for the head, with the encoder held fixed. Groups of training sentences are removed
and the *whole* tagger, including the encoder, is trained again (``sensitivity_removals``): does each query's loss
change as predicted? With an encoder that is not trained, retraining the head gives the true change, and the comparison
tests the experiment itself.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tagtrace.findings import read_trusted
from tagtrace.index import Index
from tagtrace.influence import Candidates
from tagtrace.influence.scoring.norms import dense_gradients
from tagtrace.influence.scoring.token_pass import TokenPass
from tagtrace.reproduce.experiments.sensitivity_removals import PREDICTIONS, Sizes, TokenQueries, Trainer, remove_groups
from tagtrace.reproduce.shared.conll import read_split
from tagtrace.reproduce.shared.device_curvature import DeviceCurvature
from tagtrace.reproduce.shared.experiment import Experiment, Headline, SeedResult
from tagtrace.reproduce.shared.figures import draw_scatter
from tagtrace.reproduce.shared.retraining_bench import spearman
from tagtrace.reproduce.shared.retrieval import divide
from tagtrace.reproduce.shared.sampling import at_most
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.reproduce.shared.tables import markdown, spread
from tagtrace.reproduce.shared.taggers import indexed

SIDES = ("supporters", "opposers")


@dataclass(frozen=True)
class SensitivityOptions:
    """See sensitivity.toml."""

    train: str
    validation: str
    num_train: int
    num_validation: int
    num_queries: int
    top: int
    num_groups: int
    group_size: int
    other_seeds: int
    transformer: dict[str, Any]
    other: dict[str, Any]


def run(setting: Setting, seed: int) -> SeedResult:
    """Train one tagger, choose its queries, and make both comparisons."""
    options = setting.options("sensitivity", SensitivityOptions)
    train = read_split(setting.data, options.train)
    train = train.with_sentences(at_most(train.sentences, options.num_train, random.Random(seed)))
    validation = read_split(setting.data, options.validation).sentences
    validation = at_most(validation, options.num_validation, random.Random(seed))
    is_transformer = setting.encoder_spec.startswith("transformer:")
    trainer = Trainer(setting, train, seed, options.transformer if is_transformer else options.other)
    tagger = trainer.tagger("whole")
    index = indexed(setting, f"sensitivity-{seed}-whole", tagger, train)
    trusted = read_trusted(index, tagger, validation).mispredicted()
    places = random.Random(seed).sample(range(len(trusted)), min(options.num_queries, len(trusted)))
    segments = trusted.segments[places]  # (Q, 3)
    numbers, local = segments[:, 0].unique(return_inverse=True)
    sentences = [one for one in validation if len(one) > 0]
    asked = TokenQueries(
        [sentences[number] for number in numbers.tolist()], torch.cat([local.unsqueeze(1), segments[:, 1:]], 1)
    )
    gradients = torch.cat([g for _, g in dense_gradients(index.head, trusted.rows, Candidates(segments))])  # (Q, P)
    setting.report("computing the Hessian")
    curved = DeviceCurvature(index, setting.device, "dense")
    moved = curved.solve(gradients).cpu()  # H^-1 g, (Q, P)
    found = {
        "options": asdict(options), "parameters": index.head.num_parameters, "sentences": index.num_sentences,
        "tokens": index.num_tokens, "queries": len(segments), "trainable": tagger.encoder.trainable,
        "curvature": compare_rankings(curved, gradients, moved, options.top),
    }  # fmt: skip
    if options.num_groups:
        sizes = Sizes(options.num_groups, options.group_size, options.other_seeds)
        found["removals"] = remove_groups(trainer, index, asked, moved, curved.solver, sizes)
    return found


def compare_rankings(
    curved: DeviceCurvature, gradients: Tensor, moved: Tensor, top: int
) -> dict[str, dict[str, float]]:
    """How well each cheaper score of all training tokens agrees with g_q^T H^-1 g_k, mean over queries."""
    index = curved.index
    norms = torch.cat([TokenPass(index.head, shard).norms() for shard in index.shards])  # (N,)
    rough = curved.solve(gradients, curved.kronecker).cpu()
    exact, plain = _products(index, moved), _products(index, gradients)  # (Q, N)
    scores = {
        "identity": plain,
        "cosine": divide(plain, norms),
        "kronecker": _products(index, rough),
        "relative": divide(exact, curved.rough_sizes),
    }
    return {name: agreement_of_rankings(exact, other, top) for name, other in scores.items()}


def _products(index: Index, directions: Tensor) -> Tensor:
    """V . g_k for every training token, (Q, N)."""
    return torch.cat([TokenPass(index.head, shard).products(directions) for shard in index.shards], 1).double()


def agreement_of_rankings(exact: Tensor, other: Tensor, top: int) -> dict[str, float]:
    """Spearman's correlation of two sets of scores (Q, N), and the shares of the ``top`` on each side that agree."""
    pairs = zip(exact.numpy(), other.numpy(), strict=True)
    return {
        "spearman": float(np.mean([spearman(*pair) for pair in pairs])),
        "supporters": shared(exact, other, top),
        "opposers": shared(-exact, -other, top),
    }


def shared(first: Tensor, second: Tensor, top: int) -> float:
    """The share of the ``top`` largest of each row of (Q, N) that both have in common, mean over rows.

    >>> shared(torch.tensor([[3.0, 2.0, 1.0, 0.0]]), torch.tensor([[3.0, 0.0, 2.0, 1.0]]), 2)
    0.5
    """
    top = min(top, first.shape[1])
    numbers = first.topk(top, 1).indices.unsqueeze(2), second.topk(top, 1).indices.unsqueeze(1)
    return float((numbers[0] == numbers[1]).any(2).double().mean())


def agreement(groups: Sequence[Mapping[str, Any]], name: str) -> dict[str, float]:
    """Pearson, Spearman and share of equal signs of predicted and actual changes, over all groups and queries.

    ``within`` is Pearson after each query's mean over the groups is subtracted. The queries were chosen because they
    are mispredicted, so any new training moves their losses in one direction; ``within`` does not contain this effect.
    """
    predicted, actual = (np.array([group[key] for group in groups]) for key in (name, "actual"))  # (groups, Q)
    inside = [(values - values.mean(0)).ravel() for values in (predicted, actual)]
    return {
        "pearson": float(np.corrcoef(predicted.ravel(), actual.ravel())[0, 1]),
        "within": float(np.corrcoef(*inside)[0, 1]) if len(groups) > 1 else float("nan"),
        "spearman": spearman(predicted.ravel(), actual.ravel()),
        "signs": float((np.sign(predicted) == np.sign(actual)).mean()),
    }


def on_targets(groups: Sequence[Mapping[str, Any]], name: str, key: str) -> float:
    """The mean change ``key`` of the queries that the groups ``name`` were chosen for; for random groups, of all.

    Every pair of group and query has the same weight, so a group for all queries counts more than a group for one.
    """
    return fmean(
        group[key][q]
        for group in groups if group["name"] == name
        for q in group["targets"] or range(len(group[key]))
    )  # fmt: skip


def difference(groups: Sequence[Mapping[str, Any]], key: str) -> float:
    """The mean change by removing supporters minus that by removing opposers, on the queries they were chosen for.

    Both are changes from the same tagger, so whatever is peculiar to it, or common to all retrained ones, cancels.
    """
    raised, lowered = (on_targets(groups, side, key) for side in SIDES)
    return raised - lowered


def kinds_of(groups: Sequence[Mapping[str, Any]]) -> set[str]:
    return {group["name"] for group in groups}


def table(results: Sequence[SeedResult]) -> str:
    """A table of rankings, then the tables of removals."""
    first = results[0]
    rows = [
        [name, *(spread([one["curvature"][name][key] for one in results], 2) for key in first["curvature"][name])]
        for name in first["curvature"]
    ]
    text = (
        f"{first['tokens']:,} training tokens ranked for {first['queries']} queries, head of {first['parameters']:,} "
        "parameters. Agreement with the exact Hessian:\n\n"
        + markdown(("score", "Spearman", *(f"top {first['options']['top']} {side} shared" for side in SIDES)), rows)
    )
    return text + _removal_tables([one["removals"] for one in results]) if "removals" in first else text


def _removal_tables(results: Sequence[SeedResult]) -> str:
    groups = [one["groups"] for one in results]
    num_points = sum(len(group["actual"]) for some in groups for group in some)
    agreements = {name: [agreement(some, name) for some in groups] for name in PREDICTIONS}
    rows = [[name, *(spread([one[key] for one in each], 2) for key in each[0])] for name, each in agreements.items()]
    text = (
        f"\nThe whole tagger trained again without {groups[0][0]['size']} sentences: {len(groups[0])} groups a seed, "
        f"{num_points} changes of a query's loss in all. Agreement of predicted and actual changes:\n\n"
        + markdown(("prediction", "Pearson", "Pearson within queries", "Spearman", "same sign"), rows)
    )
    means: list[list[str]] = []
    for kind in dict.fromkeys(group["name"] for group in groups[0]):
        cells = [spread([on_targets(some, kind, key) for some in groups]) for key in (*PREDICTIONS, "actual")]
        sizes = [_size([group["actual"] for group in some if group["name"] == kind]) for some in groups]
        means.append([f"{kind} removed", *cells, spread(sizes)])
    if all(kinds_of(some).issuperset(SIDES) for some in groups):
        cells = [spread([difference(some, key) for some in groups]) for key in (*PREDICTIONS, "actual")]
        means.append(["supporters minus opposers", *cells, "-"])
    noise = [one["other seeds"] for one in results]
    if all(noise):
        cells = [spread([fmean(map(fmean, some)) for some in noise]), spread([_size(some) for some in noise])]
        means.append(["nothing removed, another seed", "-", "-", *cells])
    header = ("", *PREDICTIONS, "actual", "size of actual, all queries")
    text += "\nMean change of the loss of the queries they were chosen for:\n\n" + markdown(header, means)
    return text + _noise_line(results)


def _noise_line(results: Sequence[SeedResult]) -> str:
    """For each seed, how far the mean over all queries moves when nothing, or a random group, is removed."""
    moved = [[fmean(one) for one in null_changes(found)] for found in results]
    if min(map(len, moved)) < 2:
        return ""
    each = ", ".join(f"{stdev(some):.2f}" for some in moved)
    return (
        "\nStandard deviation, within a seed, of the mean actual change of all queries when random sentences or none "
        f"are removed: {each}. Differences between groups should be compared with it.\n"
    )


def null_changes(removals: Mapping[str, Any]) -> list[Sequence[float]]:
    """The actual changes of all queries when another seed is used, or random sentences are removed."""
    return [*removals["other seeds"], *(one["actual"] for one in removals["groups"] if one["name"] == "random")]


def _size(changes: Sequence[Sequence[float]]) -> float:
    """The mean of their absolute values."""
    return fmean(abs(value) for some in changes for value in some)


def headlines(results: Sequence[SeedResult]) -> list[Headline]:
    """How far the identity is from the exact Hessian, and first order from retraining the whole tagger."""
    plain = [one["curvature"]["identity"]["spearman"] for one in results]
    lines = [Headline("Spearman of rankings without curvature and with it", "-", spread(plain, 2))]
    groups = [one["removals"]["groups"] for one in results if "removals" in one]
    if groups:
        values = [agreement(some, "first order")["pearson"] for some in groups]
        lines.append(Headline("Pearson of first order with the whole tagger retrained", "-", spread(values, 2)))
    return lines


def draw(results: Sequence[SeedResult], folder: Path) -> list[Path]:
    """Predicted against actual changes, all seeds together."""
    groups = [group for one in results if "removals" in one for group in one["removals"]["groups"]]
    if not groups:
        return []
    flat = {key: [value for group in groups for value in group[key]] for key in (*PREDICTIONS, "actual")}
    panels = {name: (flat[name], flat["actual"]) for name in PREDICTIONS}
    title = "Change of a query's loss without a group of training sentences"
    return draw_scatter(folder / "sensitivity", panels, title=title, x="predicted for the head", y="tagger retrained")


def check(results: Sequence[SeedResult]) -> list[str]:
    """Curvature must change the ranking, and removing supporters must raise the loss more than removing opposers.

    If the encoder is not trained, retraining the head must give the actual change.
    """
    lines: list[str] = []
    for one in results:
        plain = one["curvature"]["identity"]
        if plain["spearman"] > 0.9 or min(plain[side] for side in SIDES) > 0.9:
            lines.append(f"seed {one['seed']}: the ranking is the same without curvature: {plain}")
        if "removals" not in one:
            continue
        groups = one["removals"]["groups"]
        if len(groups) < len(SIDES):
            continue
        raised, lowered = (on_targets(groups, side, "actual") for side in SIDES)
        if raised <= lowered:
            lines.append(f"seed {one['seed']}: loss {raised:+.3f} without supporters, {lowered:+.3f} without opposers")
        if not one["trainable"] and (found := agreement(groups, "head retrained")["pearson"]) < 0.999:
            lines.append(f"seed {one['seed']}: the encoder is fixed, but Pearson of the head retrained is {found:.3f}")
    return lines


EXPERIMENT = Experiment(
    "sensitivity", "not in the paper: curvature, and the encoder", run, table, headlines, draw, check
)
