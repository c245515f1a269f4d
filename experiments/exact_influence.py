"""Predicted against actual change of loss (the paper's section 5.1 and figure 2), every point kept.

    python experiments/exact_influence.py --data ../shared/data --out experiments/results/exact_influence.json

The linear model: 1,000 training and 200 validation sentences under 25 tokens, GloVe and syntactic features, L2
strength 1. 20 mispredicted validation tokens x their 20 most influential training tokens by absolute first-order
influence, each removed and the model retrained exactly; three random draws. ``--segments entity`` does the same with
entity segments of two or more tokens on the training side.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path

import numpy as np
import torch

from tagtrace import LabelSet, RefitOptions, Tagger, build_encoder, new_tagger, read_corpus, refit_tagger
from tagtrace.data import Sentence, segments
from tagtrace.influence import Edit, Query, Refiner, Retrainer, Screen
from tagtrace.influence.operators import Hessian
from tagtrace.influence.solvers import Cholesky
from tagtrace.tagger.objective import Objective


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--segments", choices=("token", "entity"), default="token")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--top", type=int, default=20)
    arguments = parser.parse_args()
    results = []
    for seed in range(arguments.draws):
        results.append(run(arguments, seed))
        print(json.dumps({k: v for k, v in results[-1].items() if k != "points"}, indent=1), flush=True)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(results) + "\n")


def run(arguments: argparse.Namespace, seed: int) -> dict[str, object]:
    generator = random.Random(seed)
    train = draw(arguments.data / "conll2003/train.txt.gz", 1000, generator)
    dev = draw(arguments.data / "conll2003/dev.txt.gz", 200, generator)
    tagger = new_tagger(
        build_encoder(f"vectors:{arguments.data / 'glove/glove6b_100d.npz'}", train),
        LabelSet.from_sentences(train, "iob2"),
    )
    refit_tagger(tagger, train, RefitOptions(l2=1.0, tolerance=1e-10))
    rows = tagger.rows(train)
    objective = Objective(tagger.head, rows, 1.0)
    theta = tagger.head.flat()
    start = time.monotonic()
    solver = Cholesky(Hessian(objective.hessian(theta)))
    refiner = Refiner(tagger.head, rows, solver.inverse)
    factor_seconds = time.monotonic() - start
    retrainer = Retrainer(objective, rows, theta, solver)
    candidates = training_segments(train, arguments.segments)
    screen = Screen(tagger.head, rows, candidates)
    queries = generator.sample(mispredicted(tagger, dev), arguments.queries)
    points = []
    seconds = {"refine": 0.0, "retrain": 0.0}
    worst_gradient = 0.0
    for number, query in enumerate(queries):
        gradient = query.gradient(tagger.head)
        first = screen.influence(solver.solve(gradient.unsqueeze(0)).value)[0]
        plain = screen.influence(gradient.unsqueeze(0))[0]
        before = float(query.loss(tagger.head).detach())
        for index in first.abs().topk(arguments.top).indices.tolist():
            chain, begin, stop = candidates[index].tolist()
            edit = [Edit(chain, begin, stop)]
            start = time.monotonic()
            effect = refiner.effects(edit, [query])[0]
            seconds["refine"] += time.monotonic() - start
            start = time.monotonic()
            retrained = retrainer.retrain(edit, tolerance=1e-8)
            seconds["retrain"] += time.monotonic() - start
            worst_gradient = max(worst_gradient, retrained.max_gradient)
            actual = float(query.loss(tagger.head.at(retrained.theta)).detach()) - before
            points.append({
                "query": number, "segment": [chain, begin, stop], "actual": actual,
                "identity": float(plain[index]), "first_order": float(first[index]), "refine": effect.change,
            })  # fmt: skip
        print(f"draw {seed}: query {number + 1}/{len(queries)}", flush=True)
    return {
        "draw": seed,
        "segments": arguments.segments,
        "points_kept": len(points),
        "parameters": tagger.head.num_parameters,
        "factor_seconds": factor_seconds,
        "refine_ms_per_segment": 1e3 * seconds["refine"] / len(points),
        "retrain_seconds_per_removal": seconds["retrain"] / len(points),
        "retrain_worst_max_gradient": worst_gradient,
        **{name: agreement(points, name) for name in ("identity", "first_order", "refine")},
        "points": points,
    }


def draw(path: Path, count: int, generator: random.Random) -> list[Sentence]:
    """A random draw of sentences under 25 tokens."""
    return generator.sample([s for s in read_corpus(path).sentences if len(s) < 25], count)


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


def agreement(points: list[dict[str, float]], name: str) -> dict[str, float]:
    """Pearson, Spearman, slope of actual on predicted through least squares, largest error: over all points."""
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
