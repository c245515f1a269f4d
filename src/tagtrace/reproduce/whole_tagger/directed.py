"""Not in the paper: does the whole tagger, trained again, do what sentences and labels were chosen for?

Queries are validation tokens that taggers of several seeds mispredict in the same way, and whose label can change alone
(no I- follows). For each of them, and for each
score (influence on the head with its exact Hessian; influence through the whole tagger),

- *removal*: the sentences that most support, or most oppose, its gold label are left out;
- *flip*: at most ``most`` training labels are changed, chosen to change its prediction (``Explainer.flip`` for the
  head, ``WholeFlip.edits`` for the whole tagger);

and the whole tagger is trained again with the seeds of the unedited taggers. Reported are the loss of the gold label
without supporters less that without opposers, and the share of predictions that change; beside it, the share that
changes when nothing is edited but the seeds are others.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError
from tagtrace.data import Corpus, LabelSet, Sentence
from tagtrace.index import Index
from tagtrace.index.fingerprints import content_fingerprint
from tagtrace.influence import Edit, Explainer, Query, Screen, WholeInfluence, find_candidates, make_query
from tagtrace.influence.edits.seed_effects import RetrainOptions, edited_sentences
from tagtrace.influence.whole.flip_whole import WholeFlip
from tagtrace.influence.whole.stored import build_whole
from tagtrace.reproduce.shared.conll import read_split
from tagtrace.reproduce.shared.experiment import Experiment, Headline, SeedResult
from tagtrace.reproduce.shared.figures import draw_bars
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.reproduce.shared.tables import markdown, spread
from tagtrace.reproduce.shared.taggers import indexed, trained, with_index_head
from tagtrace.reproduce.whole_tagger.lds_subsets import QueryLosses, reporting
from tagtrace.tagger import Tagger
from tagtrace.tagger.recipe import Recipe
from tagtrace.tagger.retrainings import Variant, retrain_all

SCORES = ("head, exact", "whole tagger")
OTHER_SEEDS = 100
"""The first seed of the taggers that show how many predictions change without edits."""


@dataclass(frozen=True)
class DirectedOptions:
    """See directed.toml."""

    train: str
    validation: str
    num_train: int
    shortest: int
    longest: int
    num_queries: int
    other_queries: int
    num_seeds: int
    num_early: int
    group_size: int
    most: int
    transformer: dict[str, Any]
    other: dict[str, Any]


@dataclass(frozen=True)
class TokenAnswers:
    """The loss of the gold label and the predicted label of tokens (sentence number, start, stop), (Q, 3)."""

    sentences: tuple[Sentence, ...]
    segments: Tensor

    @torch.no_grad()
    def __call__(self, tagger: Tagger) -> Tensor:
        """(2, Q) float64"""
        paths = tagger.predict(self.sentences)
        labels = [tagger.labels.index(paths[i][t]) for i, t, _ in self.segments.tolist()]
        return torch.stack([QueryLosses(self.sentences, self.segments)(tagger), torch.tensor(labels).double()])


@dataclass(frozen=True)
class Trainings:
    """Trains the tagger again and again, and keeps every answer."""

    setting: Setting
    name: str
    recipe: Recipe
    train: Corpus

    def answers(
        self, kind: str, runs: Mapping[str, tuple[Sequence[Sentence], int]], asked: TokenAnswers
    ) -> dict[str, Tensor]:
        """What ``asked`` finds after training on the sentences of each run with its seed, kept as ``kind``."""
        variants = [Variant(name, sentences, seed) for name, (sentences, seed) in runs.items()]
        queries = [[list(one.tokens) for one in asked.sentences], asked.segments.tolist()]
        digest = content_fingerprint(self.train)
        labels = [[one.labels for one in sentences] for sentences, _ in runs.values()]
        edited = hashlib.sha256(json.dumps(labels).encode()).hexdigest()  # names alone do not say what was edited
        owner = {
            **self.recipe.to_json(), "data": digest, "labels": edited, "queries": queries,
            "device": self.setting.device.type,
        }  # fmt: skip
        found = retrain_all(
            self.recipe, variants, asked, device=self.setting.device, num_processes=self.setting.jobs,
            work=(self.setting.work / self.name / f"runs-{kind}", owner), progress=reporting(self.setting.report),
        )  # fmt: skip
        return dict(zip(runs, found, strict=True))


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
    most_queries = options.num_queries if is_transformer else min(options.num_queries, options.other_queries)
    asked, before = stable_errors(trainings, tagger, validation, most_queries, seed, options.num_seeds)
    index = indexed(setting, name, tagger, train)
    refitted, places = with_index_head(tagger, index), asked.segments.tolist()
    queries = [make_query(refitted, asked.sentences[i], start, stop, "gold") for i, start, stop in places]
    whole = build_whole(index, options.num_early, tagger=tagger, device=setting.device)
    groups = removals(setting, index, whole, queries, options.group_size)
    groups |= flips(setting, index, whole, tagger, asked, before[0][1].long(), options.most)
    runs = {
        f"{name}-seed-{s}": (edited_sentences(index, train.sentences, edits), s)
        for name, edits in groups.items() for s in seeds
    }  # fmt: skip
    runs |= {f"nothing-seed-{OTHER_SEEDS + s}": (train.sentences, OTHER_SEEDS + s) for s in seeds}
    setting.report(f"training again, {len(runs)} times")
    found = trainings.answers("edited", runs, asked)
    return {
        "options": asdict(options), "num_sentences": len(train.sentences), "queries": len(queries),
        "before": [one.tolist() for one in before],
        "edits": {name: len(edits) for name, edits in groups.items() if name.startswith("flip")},
        "answers": {name: one.tolist() for name, one in target_answers(found).items()},
    }  # fmt: skip


def target_answers(found: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Of each run, the loss and label of the query that it is for; of runs without edits, those of all queries."""
    return {name: one if name.startswith("nothing") else one[:, int(name.split("-")[2])] for name, one in found.items()}


def draw_sentences(setting: Setting, options: DirectedOptions, seed: int) -> tuple[Corpus, list[Sentence]]:
    """Training sentences drawn by seed, and all validation sentences of these lengths."""

    def in_range(corpus: Corpus) -> list[Sentence]:
        return [one for one in corpus.sentences if options.shortest <= len(one) <= options.longest]

    train = read_split(setting.data, options.train)
    chosen = random.Random(1000 + seed).sample(in_range(train), options.num_train)
    return train.with_sentences(chosen), in_range(read_split(setting.data, options.validation))


def stable_errors(
    trainings: Trainings, tagger: Tagger, validation: Sequence[Sentence], most: int, seed: int, num_seeds: int
) -> tuple[TokenAnswers, list[Tensor]]:
    """Tokens that the tagger and all seeds mispredict in the same way; and for each seed their losses and labels."""
    every = torch.tensor([[i, t, t + 1] for i, one in enumerate(validation) for t in range(len(one))])
    everything = TokenAnswers(tuple(validation), every)
    runs = {f"nothing-seed-{s}": (trainings.train.sentences, s) for s in range(num_seeds)}
    found = list(trainings.answers("unedited", runs, everything).values())  # (2, tokens) each
    gold = [label for one in validation for label in one.labels]
    labels = torch.stack([one[1].long() for one in (*found, everything(tagger))])  # (seeds + 1, tokens)
    is_same = (labels == labels[0]).all(0)
    names = trainings.recipe.labels.labels
    is_inside = torch.tensor([name.startswith("I-") for name in names])[labels[-1]]  # (tokens,)
    continues = torch.cat([is_inside[1:] & (every[1:, 1] > 0), is_inside.new_zeros(1)])  # no other label fits alone
    wrong = [
        t for t in (is_same & ~continues).nonzero().squeeze(1).tolist() if names[int(labels[0, t])] != gold[t]
    ]  # fmt: skip
    if not wrong:
        raise DataError("no validation token is mispredicted by every tagger in the same way; use more sentences")
    if len(wrong) > most:
        wrong = sorted(random.Random(seed).sample(wrong, most))
    numbers = sorted({int(every[t, 0]) for t in wrong})
    segments = torch.tensor([[numbers.index(int(every[t, 0])), *every[t, 1:].tolist()] for t in wrong])
    return TokenAnswers(tuple(validation[i] for i in numbers), segments), [one[:, wrong] for one in found]


def removals(
    setting: Setting, index: Index, whole: WholeInfluence, queries: Sequence[Query], size: int
) -> dict[str, list[Edit]]:
    """For each score, query and side, the edits that take whole sentences away."""
    setting.report("influence of sentences")
    sentences = find_candidates(index, "sentence").segments
    gradients = torch.stack([query.gradient(index.head) for query in queries])
    moved = Explainer(index, "dense", device=setting.device).solver.solve(gradients.to(setting.device)).value.cpu()
    influences = (Screen(index.head, index.rows, sentences).influence(moved), whole.sentence_scores(queries))
    found: dict[str, list[Edit]] = {}
    for score, influence in zip(SCORES, influences, strict=True):
        for number, row in enumerate(influence):
            for side, sign in (("supporters", 1.0), ("opposers", -1.0)):
                chosen = (sign * row).topk(size).indices.tolist()
                found[f"{side}-{score}-{number}"] = [Edit(*sentences[one].tolist()) for one in chosen]
    return found


def flips(
    setting: Setting,
    index: Index,
    whole: WholeInfluence,
    tagger: Tagger,
    asked: TokenAnswers,
    predicted: Tensor,
    most: int,
) -> dict[str, list[Edit]]:
    """For each score and query, the labels that are changed; the predictions are those of the unedited taggers."""
    explainer = Explainer(index, device=setting.device)
    chooser = WholeFlip(index, whole, explainer.optimum, explainer.rows, RetrainOptions(), setting.device)
    refitted = with_index_head(tagger, index)
    found: dict[str, list[Edit]] = {}
    for number, (i, start, stop) in enumerate(asked.segments.tolist()):
        setting.report(f"labels that should flip prediction {number + 1} of {len(asked.segments)}")
        query = make_query(refitted, asked.sentences[i], start, stop).with_labels(predicted[number : number + 1])
        by_head, by_whole = list[Edit](), list[Edit]()
        with suppress(OptionError):  # the labels around it, with the refitted head, allow no other
            by_head = list(explainer.flip(query, "relabel", most=most).edits)
        with suppress(OptionError):
            by_whole = chooser.edits(query, "relabel", "token", most)
        found |= {f"flip-{SCORES[0]}-{number}": by_head, f"flip-{SCORES[1]}-{number}": by_whole}
    return found


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
