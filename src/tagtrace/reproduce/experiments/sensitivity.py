"""Two things the paper takes for granted: that curvature may be ignored, and the encoder (not in the paper).

Queries are mispredicted validation tokens with their gold labels, on a tagger with its head refitted.

**Curvature.** All training tokens are ranked for each query by g_q^T H^-1 g_k, H the exact Hessian of the head, and by
what is cheaper: the identity or Kronecker factors in place of H, the cosine of gradients; and by ``relative``,
``curvature`` over sizes by Kronecker factors (``strongest``).
Told are Spearman's correlation of all scores, and how many of the ``top`` supporters, and opposers, are the same.

**Encoder.** Influence is worked out for the head, with the encoder held fixed. Groups of training sentences are removed
and the *whole* tagger is trained again, encoder too (``group_removal``): does each query's loss change as predicted?
With an encoder that is not trained, retraining the head is the truth, and the comparison a test of the experiment.
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
from tagtrace.reproduce.shared.conll import read_split
from tagtrace.reproduce.shared.device_curvature import Curved
from tagtrace.reproduce.shared.experiment import Experiment, Found, Headline
from tagtrace.reproduce.shared.figures import draw_scatter
from tagtrace.reproduce.shared.group_removal import PREDICTIONS, Asked, Sizes, Trainer, remove_groups
from tagtrace.reproduce.shared.retraining_bench import spearman
from tagtrace.reproduce.shared.retrieval import over
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


def run(setting: Setting, seed: int) -> Found:
    """One tagger, its queries, both comparisons."""
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
    asked = Asked(
        [sentences[number] for number in numbers.tolist()], torch.cat([local.unsqueeze(1), segments[:, 1:]], 1)
    )
    gradients = torch.cat([g for _, g in dense_gradients(index.head, trusted.rows, Candidates(segments))])  # (Q, P)
    setting.report("the Hessian")
    curved = Curved(index, setting.device, "dense")
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


def compare_rankings(curved: Curved, gradients: Tensor, moved: Tensor, top: int) -> dict[str, dict[str, float]]:
    """How each cheaper score of all training tokens agrees with g_q^T H^-1 g_k, mean over queries."""
    index = curved.index
    norms = torch.cat([TokenPass(index.head, shard).norms() for shard in index.shards])  # (N,)
    rough = curved.solve(gradients, curved.kronecker).cpu()
    exact, plain = _products(index, moved), _products(index, gradients)  # (Q, N)
    scores = {
        "identity": plain,
        "cosine": over(plain, norms),
        "kronecker": _products(index, rough),
        "relative": over(exact, curved.rough_sizes()),
    }
    return {name: agreement_of_rankings(exact, other, top) for name, other in scores.items()}


def _products(index: Index, directions: Tensor) -> Tensor:
    """V . g_k of every training token, (Q, N)."""
    return torch.cat([TokenPass(index.head, shard).products(directions) for shard in index.shards], 1).double()


def agreement_of_rankings(exact: Tensor, other: Tensor, top: int) -> dict[str, float]:
    """Of scores (Q, N): Spearman's correlation, and the shares of the ``top`` on each side that are in both."""
    pairs = zip(exact.numpy(), other.numpy(), strict=True)
    return {
        "spearman": float(np.mean([spearman(*pair) for pair in pairs])),
        "supporters": shared(exact, other, top),
        "opposers": shared(-exact, -other, top),
    }


def shared(first: Tensor, second: Tensor, top: int) -> float:
    """The share of the ``top`` largest of each row of (Q, N) that is among those of the other, mean over rows.

    >>> shared(torch.tensor([[3.0, 2.0, 1.0, 0.0]]), torch.tensor([[3.0, 0.0, 2.0, 1.0]]), 2)
    0.5
    """
    top = min(top, first.shape[1])
    numbers = first.topk(top, 1).indices.unsqueeze(2), second.topk(top, 1).indices.unsqueeze(1)
    return float((numbers[0] == numbers[1]).any(2).double().mean())


def agreement(groups: Sequence[Mapping[str, Any]], name: str) -> dict[str, float]:
    """Of predicted and actual changes over all groups and queries: Pearson, Spearman, share of equal signs.

    ``within``: Pearson after each query's mean over the groups is taken off. The queries were chosen as mispredicted,
    so training again, whatever is removed, moves their losses one way; of that, this is free.
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
    """The mean change by ``key`` of the queries that the groups ``name`` were chosen for; for random ones, of all.

    Every pair of a group and a query counts alike, so a group chosen for all queries counts more than one for one.
    """
    return fmean(
        group[key][q]
        for group in groups if group["name"] == name
        for q in group["targets"] or range(len(group[key]))
    )  # fmt: skip


def difference(groups: Sequence[Mapping[str, Any]], key: str) -> float:
    """The mean change by removing supporters less that by removing opposers, on the queries they were chosen for.

    Both are changes from one tagger: what is peculiar to it, and common to all trained again, cancels.
    """
    raised, lowered = (on_targets(groups, side, key) for side in SIDES)
    return raised - lowered


def kinds_of(groups: Sequence[Mapping[str, Any]]) -> set[str]:
    return {group["name"] for group in groups}


def table(founds: Sequence[Found]) -> str:
    """Rankings, then removals."""
    first = founds[0]
    rows = [
        [name, *(spread([one["curvature"][name][key] for one in founds], 2) for key in first["curvature"][name])]
        for name in first["curvature"]
    ]
    text = (
        f"{first['tokens']:,} training tokens ranked for {first['queries']} queries, head of {first['parameters']:,} "
        "parameters. Agreement with the exact Hessian:\n\n"
        + markdown(("score", "Spearman", *(f"top {first['options']['top']} {side} shared" for side in SIDES)), rows)
    )
    return text + _removal_tables([one["removals"] for one in founds]) if "removals" in first else text


def _removal_tables(founds: Sequence[Found]) -> str:
    groups = [one["groups"] for one in founds]
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
        means.append(["supporters less opposers", *cells, "-"])
    noise = [one["other seeds"] for one in founds]
    if all(noise):
        cells = [spread([fmean(map(fmean, some)) for some in noise]), spread([_size(some) for some in noise])]
        means.append(["nothing removed, another seed", "-", "-", *cells])
    header = ("", *PREDICTIONS, "actual", "size of actual, all queries")
    text += "\nMean change of the loss of the queries they were chosen for:\n\n" + markdown(header, means)
    return text + _noise_line(founds)


def _noise_line(founds: Sequence[Found]) -> str:
    """How far the mean over all queries moves when nothing, or a random group, is removed: of each seed."""
    moved = [[fmean(one) for one in null_changes(found)] for found in founds]
    if min(map(len, moved)) < 2:
        return ""
    each = ", ".join(f"{stdev(some):.2f}" for some in moved)
    return (
        "\nStandard deviation, within a seed, of the mean actual change of all queries when random sentences or none "
        f"are removed: {each}. Differences between groups are to be held against it.\n"
    )


def null_changes(removals: Mapping[str, Any]) -> list[Sequence[float]]:
    """The actual changes of all queries when another seed is taken, or random sentences are removed."""
    return [*removals["other seeds"], *(one["actual"] for one in removals["groups"] if one["name"] == "random")]


def _size(changes: Sequence[Sequence[float]]) -> float:
    """The mean of their absolute values."""
    return fmean(abs(value) for some in changes for value in some)


def headlines(founds: Sequence[Found]) -> list[Headline]:
    """How far the identity is from the exact Hessian, and the head from the whole tagger."""
    plain = [one["curvature"]["identity"]["spearman"] for one in founds]
    lines = [Headline("Spearman of rankings without curvature and with it", "-", spread(plain, 2))]
    groups = [one["removals"]["groups"] for one in founds if "removals" in one]
    if groups:
        values = [agreement(some, "first order")["pearson"] for some in groups]
        lines.append(Headline("Pearson of first order with the whole tagger retrained", "-", spread(values, 2)))
    return lines


def draw(founds: Sequence[Found], folder: Path) -> list[Path]:
    """Predicted against actual changes, all seeds together."""
    groups = [group for one in founds if "removals" in one for group in one["removals"]["groups"]]
    if not groups:
        return []
    flat = {key: [value for group in groups for value in group[key]] for key in (*PREDICTIONS, "actual")}
    panels = {name: (flat[name], flat["actual"]) for name in PREDICTIONS}
    title = "Change of a query's loss without a group of training sentences"
    return draw_scatter(folder / "sensitivity", panels, title=title, x="predicted for the head", y="tagger retrained")


def check(founds: Sequence[Found]) -> list[str]:
    """Curvature must change the ranking, and supporters' removal raise the loss above what opposers' does.

    Where the encoder is not trained, the head retrained must be the truth.
    """
    lines: list[str] = []
    for one in founds:
        plain = one["curvature"]["identity"]
        if plain["spearman"] > 0.9 or min(plain[side] for side in SIDES) > 0.9:
            lines.append(f"seed {one['seed']}: without curvature the ranking is the same: {plain}")
        if "removals" not in one:
            continue
        groups = one["removals"]["groups"]
        if len(groups) < len(SIDES):
            continue
        raised, lowered = (on_targets(groups, side, "actual") for side in SIDES)
        if raised <= lowered:
            lines.append(f"seed {one['seed']}: loss {raised:+.3f} without supporters, {lowered:+.3f} without opposers")
        if not one["trainable"] and (found := agreement(groups, "head retrained")["pearson"]) < 0.999:
            lines.append(f"seed {one['seed']}: features are fixed, but the head retrained agrees by {found:.3f} only")
    return lines


EXPERIMENT = Experiment(
    "sensitivity", "not in the paper: curvature, and the encoder", run, table, headlines, draw, check
)
