"""Predicted against actual change of loss (the paper's section 5.1 and figure 2), every point kept.

    python experiments/exact_influence.py --data ../shared/data --out experiments/results/exact_tokens.json
    ... --segments entity --out experiments/results/exact_entities.json
    ... --edit relabel --out experiments/results/exact_relabel.json
    ... --edit group --out experiments/results/exact_groups.json
    ... --encoder DIR --draws 0 --segments token entity --out experiments/results/exact_distilbert.json          (a GPU)

The linear model: 1,000 training and 200 validation sentences under 25 tokens, GloVe and syntactic features, L2
strength 1. 20 mispredicted validation tokens x their 20 most influential training tokens by absolute first-order
influence, each removed and the model retrained exactly; three random draws. ``--segments entity`` does the same with
entity segments of two or more tokens on the training side; ``--edit relabel`` gives each token the label the model
finds next likely instead of removing it; ``--edit group`` removes groups of ten, drawn from the fifty most
influential. ``--encoder`` fine-tunes that encoder on all original training sentences of conll2003_corrected and uses
its refitted head. ``refine`` spends two passes over the training data on each edit, as ``tagtrace explain --refine``
does; ``refine_once`` one, ``sentence_exact`` none.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from tagtrace import (
    LabelSet,
    RefitOptions,
    Sentence,
    Tagger,
    TrainOptions,
    build_encoder,
    new_tagger,
    read_corpus,
    refit_tagger,
    train_tagger,
)
from tagtrace.data import segments
from tagtrace.influence import Edit, Query, Refiner, Retrainer, Screen
from tagtrace.influence.operators import Hessian
from tagtrace.influence.solvers import Cholesky
from tagtrace.tagger.objective import Objective

SHORT = TrainOptions(
    epochs=4, batch_size=32, learning_rate=7e-5, head_learning_rate=1e-3, schedule="linear", dropout=0.1, keep="last"
)
REFINED = ("sentence_exact", "refine_once", "refine")
"""The sentence-exact estimate, with none, one and two passes over the training data."""
METHODS = ("identity", "first_order", *REFINED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--segments", choices=("token", "entity"), nargs="+", default=["token"])
    parser.add_argument("--edit", choices=("remove", "relabel", "group"), default="remove")
    parser.add_argument("--encoder", help="a Hugging Face directory; without it, the linear model")
    parser.add_argument("--draws", type=int, nargs="+", default=[0, 1, 2], help="their seeds")
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--top", type=int, default=20)
    arguments = parser.parse_args()
    results: list[dict[str, object]] = []
    for seed in arguments.draws:
        generator = random.Random(seed)
        tagger, train, dev = (transformer if arguments.encoder else linear)(arguments, generator)
        queries = generator.sample(mispredicted(tagger, dev), arguments.queries)
        for kind in arguments.segments:
            found = run(Bench(tagger, train, kind), queries, arguments, generator)
            results.append({"draw": seed, "segments": kind, "edit": arguments.edit, **found})
            print(json.dumps({k: v for k, v in results[-1].items() if k != "points"}, indent=1), flush=True)
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(results) + "\n")


def run(
    bench: Bench, queries: list[Query], arguments: argparse.Namespace, generator: random.Random
) -> dict[str, object]:
    """Every point of one draw, and how well each method agrees with retraining."""
    points = []
    for number, query in enumerate(queries):
        points += bench.compare(number, query, arguments, generator)
        print(f"query {number + 1}/{len(queries)}", flush=True)
    return {
        "points_kept": len(points),
        "parameters": bench.head.num_parameters,
        "factor_seconds": bench.factor_seconds,
        "milliseconds": {name: 1e3 * seconds / len(points) for name, seconds in bench.seconds.items()},
        "retrain_worst_max_gradient": bench.worst_gradient,
        **{name: agreement(points, name) for name in METHODS if name in points[0]},
        "points": points,
    }


def linear(arguments: argparse.Namespace, generator: random.Random) -> tuple[Tagger, list[Sentence], list[Sentence]]:
    train = draw(arguments.data / "conll2003/train.txt.gz", 1000, generator)
    dev = draw(arguments.data / "conll2003/dev.txt.gz", 200, generator)
    encoder = build_encoder(f"vectors:{arguments.data / 'glove/glove6b_100d.npz'}", train)
    tagger = new_tagger(encoder, LabelSet.from_sentences(train, "iob2"))
    refit_tagger(tagger, train, RefitOptions(l2=1.0, tolerance=1e-10))
    return tagger, train, dev


def transformer(
    arguments: argparse.Namespace, generator: random.Random
) -> tuple[Tagger, list[Sentence], list[Sentence]]:
    folder = arguments.data / "conll2003_corrected"
    train = list(read_corpus(folder / "train_original.jsonl.gz").sentences)
    dev = list(read_corpus(folder / "validation_original.jsonl.gz").sentences)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    encoder = build_encoder(f"transformer:{arguments.encoder}", train)
    tagger = new_tagger(encoder, LabelSet.from_sentences(train, "iob2")).to(device)
    train_tagger(tagger, train, (), SHORT)
    refit_tagger(tagger, train, RefitOptions(l2=1.0, tolerance=1e-10))
    return tagger, train, generator.sample(dev, len(dev))


def draw(path: Path, count: int, generator: random.Random) -> list[Sentence]:
    """A random draw of sentences under 25 tokens."""
    return generator.sample([s for s in read_corpus(path).sentences if len(s) < 25], count)


class Bench:
    """Everything that predicts, and the retraining that judges it."""

    def __init__(self, tagger: Tagger, train: list[Sentence], kind: str) -> None:
        self.tagger, self.head = tagger, tagger.head
        self.rows = tagger.rows(train).to(tagger.device)
        self.segments = training_segments(train, kind)
        objective = Objective(self.head, self.rows, 1.0)
        start = time.monotonic()
        self.solver = Cholesky(Hessian(objective.hessian(self.head.flat())))
        inverse = self.solver.inverse
        self.refiners = {
            name: Refiner(self.head, self.rows, inverse, objective, num_passes)
            for num_passes, name in enumerate(REFINED)
        }
        self.factor_seconds = time.monotonic() - start
        self.retrainer = Retrainer(objective, self.rows, self.head.flat(), self.solver)
        self.screen = Screen(self.head, self.rows, self.segments)
        self.seconds: dict[str, float] = dict.fromkeys((*REFINED, "retrain"), 0.0)
        self.worst_gradient = 0.0

    def compare(
        self, number: int, query: Query, arguments: argparse.Namespace, generator: random.Random
    ) -> list[dict[str, float]]:
        """One point for each edit of one query's most influential segments."""
        gradient = query.gradient(self.head).unsqueeze(0)
        first = self.screen.influence(self.solver.solve(gradient).value)[0]
        plain = self.screen.influence(gradient)[0]
        before = float(query.loss(self.head).detach())
        choices = self.choose(first, arguments, generator)
        groups = [[self.edit(index, arguments.edit) for index in chosen] for chosen in choices]
        predicted = {name: self.refined(name, groups, query) for name in self.refiners}
        points = []
        for number_of_choice, (chosen, group) in enumerate(zip(choices, groups, strict=True)):
            start = time.monotonic()
            retrained = self.retrainer.retrain(group, tolerance=1e-8)
            self.seconds["retrain"] += time.monotonic() - start
            self.worst_gradient = max(self.worst_gradient, retrained.max_gradient)
            actual = float(query.loss(self.head.at(retrained.theta)).detach()) - before
            point = {"query": number, "segments": self.segments[chosen].tolist(), "actual": actual}
            point |= {name: changes[number_of_choice] for name, changes in predicted.items()}
            if arguments.edit != "relabel":  # first order of a removal; a relabelling has none of its own here
                point |= {"identity": float(plain[chosen].sum()), "first_order": float(first[chosen].sum())}
            points.append(point)
        return points

    def refined(self, name: str, groups: list[list[Edit]], query: Query) -> list[float]:
        """The changes of the query's loss that a refiner predicts."""
        start = time.monotonic()
        effects = self.refiners[name].effects(groups, query)
        self.seconds[name] += time.monotonic() - start
        return [effect.change for effect in effects]

    def choose(
        self, influence: torch.Tensor, arguments: argparse.Namespace, generator: random.Random
    ) -> list[list[int]]:
        """The most influential segments one by one, or groups of ten of the fifty most influential."""
        if arguments.edit != "group":
            return [[index] for index in influence.abs().topk(arguments.top).indices.tolist()]
        pool = influence.abs().topk(50).indices.tolist()
        return [generator.sample(pool, 10) for _ in range(arguments.top)]

    def edit(self, index: int, kind: str) -> Edit:
        chain, start, stop = self.segments[index].tolist()
        return Edit(chain, start, stop, self.next_likely(chain, start, stop) if kind == "relabel" else None)

    def next_likely(self, chain: int, start: int, stop: int) -> tuple[int, ...]:
        """For each token the likeliest label that it does not have, given the labels around the segment."""
        lengths = self.rows.lengths
        first = int(lengths[:chain].sum())
        part = slice(first, first + int(lengths[chain]))
        query = Query(self.rows.features[part].double(), self.rows.labels[part], start, stop)
        likely = query.probabilities(self.head)
        likely[torch.arange(stop - start), query.labels[start:stop]] = -1.0
        return tuple(likely.argmax(1).tolist())


def training_segments(sentences: list[Sentence], kind: str) -> torch.Tensor:
    """Every token, or every entity of two or more tokens, as (chain, start, stop)."""
    found = []
    for chain, sentence in enumerate(sentences):
        if kind == "token":
            found += [(chain, t, t + 1) for t in range(len(sentence))]
        else:
            found += [(chain, s.start, s.stop) for s in segments(sentence.labels, "iob2") if s.stop - s.start > 1]
    return torch.tensor(found)


def mispredicted(tagger: Tagger, sentences: list[Sentence]) -> list[Query]:
    """Every token whose predicted label is wrong, with its gold label as the query's."""
    rows = tagger.rows(sentences)
    features, labels = (t.split(rows.lengths.tolist()) for t in (rows.features, rows.labels))
    return [
        Query(features[i].double(), labels[i], t, t + 1)
        for i, (sentence, path) in enumerate(zip(sentences, tagger.predict(sentences), strict=True))
        for t in range(len(sentence))
        if path[t] != sentence.labels[t]
    ]


def agreement(points: Sequence[dict[str, float]], name: str) -> dict[str, float]:
    """Pearson, Spearman, least-squares slope of actual on predicted, largest error: over all points."""
    predicted, actual = (np.array([point[key] for point in points]) for key in (name, "actual"))
    first, second = (values.argsort().argsort() for values in (predicted, actual))
    return {
        "pearson": float(np.corrcoef(predicted, actual)[0, 1]),
        "spearman": float(np.corrcoef(first, second)[0, 1]),
        "slope": float(np.polyfit(predicted, actual, 1)[0]),
        "largest_error": float(np.abs(predicted - actual).max()),
        "range": float(actual.max() - actual.min()),
    }


if __name__ == "__main__":
    main()
