"""Not in the paper: does the whole tagger, trained again, do what sentences and labels were chosen for?

Queries are validation tokens that taggers of several seeds mispredict in the same way, and whose label can change alone
(no I- follows). For each of them, and for each score (influence on the head with its exact Hessian; influence through
the whole tagger),

- *removal*: the sentences that most support, or most oppose, its gold label are left out;
- *flip*: at most ``most`` training labels are changed, those whose change should most move its prediction: by their
  first-order effect on the head's margin, or by ``WholeFlip.edits``;

and the whole tagger is trained again with the seeds of the unedited taggers. Reported are the loss of the gold label
without supporters less that without opposers, and the share of predictions that change; beside it, the share that
changes when nothing is edited but the seeds are others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, stdev

from torch import Tensor

from tagtrace.data import LabelSet
from tagtrace.influence import make_query
from tagtrace.influence.edits.seed_effects import edited_sentences
from tagtrace.influence.whole.stored import build_whole
from tagtrace.reproduce.shared.experiment import Experiment, Headline, SeedResult
from tagtrace.reproduce.shared.figures import draw_bars
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.reproduce.shared.tables import markdown, spread
from tagtrace.reproduce.shared.taggers import indexed, trained, with_index_head
from tagtrace.reproduce.whole_tagger.answers import Trainings
from tagtrace.reproduce.whole_tagger.directed_choices import (
    SCORES,
    DirectedOptions,
    Groups,
    TokenAnswers,
    draw_sentences,
    flips,
    kept_edits,
    removals,
    stable_errors,
)
from tagtrace.tagger.recipe import Recipe
from tagtrace.tagger.retrainings import Variant

OTHER_SEEDS = 100
"""The first seed of the taggers that show how many predictions change without edits."""


def run(setting: Setting, seed: int) -> SeedResult:
    """One draw of training sentences and queries."""
    options, name = setting.options("directed", DirectedOptions), f"directed-{seed}"
    train, validation = draw_sentences(setting, options, seed)
    labels = LabelSet.from_sentences(train.sentences, "iob2")
    is_transformer = setting.encoder_spec.startswith("transformer:")
    changes = options.transformer if is_transformer else options.other
    tagger = trained(setting, name, train, labels, seed=1000 + seed, **changes)
    trainings, seeds = Trainings(setting, name, Recipe.of(tagger), train), range(options.num_seeds)
    setting.report("training without edits")
    most = options.num_queries if is_transformer else min(options.num_queries, options.other_queries)
    asked, before = stable_errors(trainings, validation, most, seed, [*seeds, 1000 + seed])
    index = indexed(setting, name, tagger, train)
    refitted, places = with_index_head(tagger, index), asked.segments.tolist()
    queries = [make_query(refitted, asked.sentences[i], start, stop, "gold") for i, start, stop in places]
    whole = build_whole(index, options.num_early, tagger=tagger, device=setting.device)
    owner = {"options": asdict(options), "queries": asked.to_json()}

    def answers(kind: str, groups: Groups) -> dict[str, Tensor]:
        return group_answers(trainings, kind, groups, seeds, asked, labels)

    removed = kept_edits(
        setting.out / f"{name}-removed.json", owner,
        lambda: removals(setting, index, whole, queries, options.group_size),
    )  # fmt: skip
    found = answers("removed", removed)
    flipped = kept_edits(
        setting.out / f"{name}-flipped.json", owner,
        lambda: flips(setting, index, whole, tagger, asked, before[0, 1].long(), options),
    )  # fmt: skip
    found |= answers("flipped", flipped)
    others = [Variant(f"nothing-seed-{OTHER_SEEDS + s}", train.sentences, OTHER_SEEDS + s) for s in seeds]
    unedited = trainings.answers("other-seeds", others, asked, {"queries": asked.to_json()})
    found |= {one.name: answer for one, answer in zip(others, unedited, strict=True)}
    return {
        "options": asdict(options), "num_sentences": len(train.sentences), "queries": len(queries),
        "before": before[: options.num_seeds].tolist(),
        "edits": {name: len(edits) for name, edits in flipped.items()},
        "answers": {name: one.tolist() for name, one in found.items()},
    }  # fmt: skip


def group_answers(
    trainings: Trainings, kind: str, groups: Groups, seeds: Sequence[int], asked: TokenAnswers, labels: LabelSet
) -> dict[str, Tensor]:
    """The loss and label of the query that each group is for, (2,), after training with its edits and each seed."""
    edited = {name: edited_sentences(labels, trainings.train.sentences, edits) for name, edits in groups.items()}
    variants = [Variant(f"{name}-seed-{s}", sentences, s) for s in seeds for name, sentences in edited.items()]
    given = json.dumps([[one.labels for one in sentences] for sentences in edited.values()])
    about = {"labels": hashlib.sha256(given.encode()).hexdigest(), "queries": asked.to_json()}
    trainings.setting.report(f"training again, {len(variants)} times")
    found = trainings.answers(kind, variants, asked, about)  # (variants, 2, Q)
    return {one.name: answer[:, int(one.name.split("-")[2])] for one, answer in zip(variants, found, strict=True)}


def differences(result: SeedResult, score: str, seed: int) -> list[float]:
    """For each query, its loss without supporters less that without opposers, with one seed."""
    answers = result["answers"]
    return [
        answers[f"supporters-{score}-{q}-seed-{seed}"][0] - answers[f"opposers-{score}-{q}-seed-{seed}"][0]
        for q in range(result["queries"])
    ]


def share_flipped(result: SeedResult, score: str) -> float:
    """The share of predictions that change, over queries and seeds."""
    before, answers, seeds = result["before"][0][1], result["answers"], range(result["options"]["num_seeds"])
    return fmean(answers[f"flip-{score}-{q}-seed-{s}"][1] != before[q] for q in range(result["queries"]) for s in seeds)


def share_unedited(result: SeedResult) -> float:
    """The same with nothing but other seeds."""
    before, others = (
        result["before"][0][1],
        [labels for name, (_, labels) in result["answers"].items() if name.startswith("nothing")],
    )
    return fmean(labels[q] != before[q] for labels in others for q in range(result["queries"]))


def table(results: Sequence[SeedResult]) -> str:
    """The differences for each draw and seed, then the shares of flipped predictions."""
    first, options = results[0], results[0]["options"]
    seeds = range(options["num_seeds"])
    rows = [
        [score, *(_cell(differences(one, score, s)) for one in results for s in seeds),
         spread([fmean(differences(one, score, s)) for one in results for s in seeds])]
        for score in SCORES
    ]  # fmt: skip
    header = ("score", *(f"draw {one['seed']}, seed {s}" for one in results for s in seeds), "mean")
    flipped = [
        [score, *(f"{share_flipped(one, score):.0%}" for one in results),
         ", ".join(f"{_mean_size(one, score):.1f}" for one in results)]
        for score in SCORES
    ]  # fmt: skip
    flipped.append(["nothing edited, other seeds", *(f"{share_unedited(one):.0%}" for one in results), "-"])
    return (
        f"{first['num_sentences']:,} sentences; {', '.join(str(one['queries']) for one in results)} tokens that all "
        f"seeds mispredict in the same way. {options['group_size']} sentences left out: loss of the gold label without "
        "supporters less that without opposers, mean over tokens with 95 % intervals:\n\n"
        + markdown(header, rows)
        + f"\nAt most {options['most']} training labels changed: share of the predictions that change, over "
        f"{options['num_seeds']} seeds:\n\n"
        + markdown(("chosen by", *(f"draw {one['seed']}" for one in results), "labels changed, mean"), flipped)
    )


def _cell(values: Sequence[float]) -> str:
    width = 1.96 * stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{fmean(values):+.3f} ± {width:.3f}"


def _mean_size(result: SeedResult, score: str) -> float:
    return fmean(size for name, size in result["edits"].items() if name.startswith(f"flip-{score}-"))


def headlines(results: Sequence[SeedResult]) -> list[Headline]:
    """Differences and flips by each score."""
    lines: list[Headline] = []
    for score in SCORES:
        seeds = range(results[0]["options"]["num_seeds"])
        values = [fmean(differences(one, score, s)) for one in results for s in seeds]
        lines.append(Headline(f"loss without supporters less without opposers, {score}", "-", spread(values)))
        shares = [share_flipped(one, score) for one in results]
        lines.append(Headline(f"share of predictions flipped, {score}", "-", spread(shares, 2)))
    return lines


def draw(results: Sequence[SeedResult], folder: Path) -> list[Path]:
    """A bar for each score."""
    seeds = range(results[0]["options"]["num_seeds"])
    bars = {
        score: {
            "loss without supporters less without opposers": [
                fmean(differences(one, score, s)) for one in results for s in seeds
            ],
            "share of predictions flipped": [share_flipped(one, score) for one in results],
        }
        for score in SCORES
    }
    bars["nothing edited"] = {"share of predictions flipped": [share_unedited(one) for one in results]}
    title = "The whole tagger trained again, for chosen predictions"
    return draw_bars(folder / "directed", bars, title=title, y="", digits=2)


def check(results: Sequence[SeedResult]) -> list[str]:
    """Without supporters the loss must be higher than without opposers, by the whole tagger's score."""
    lines: list[str] = []
    for one in results:
        found = fmean(fmean(differences(one, SCORES[1], s)) for s in range(one["options"]["num_seeds"]))
        if found <= 0:
            lines.append(f"draw {one['seed']}: loss {found:+.3f} without supporters less without opposers")
    return lines


EXPERIMENT = Experiment(
    "directed", "not in the paper: chosen edits", run, table, headlines, draw, check, default_encoder="lexical"
)
