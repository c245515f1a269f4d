"""Training a transformer in float32 and in bfloat16, in turn in one run, and the F1 that each reaches.

    python benchmarks/training.py ENCODER --out benchmarks/results/training.json

ENCODER is the folder of a transformer. The text is invented (``tagtrace.data.invented``). Both trainings start from the
same weights; one epoch of each is timed at a time, after one epoch that is not counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from tagtrace.data import LabelSet, Sentence
from tagtrace.data.invented import generate
from tagtrace.tagger import Tagger, TrainOptions, build_encoder, new_tagger, score_labels, train_tagger
from tagtrace.tagger.training import multiplies_bfloat16

RECIPE = TrainOptions(epochs=1, batch_size=32, learning_rate=7e-5, head_learning_rate=1e-3, keep="last", dropout=0.1)
Format = Literal["float32", "bfloat16"]
FORMATS: tuple[Format, ...] = ("float32", "bfloat16")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder", type=Path)
    parser.add_argument("--sentences", type=int, default=320)
    parser.add_argument("--epochs", type=int, default=4, help="epochs of each that are timed")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    result = compare(f"transformer:{arguments.encoder}", arguments.sentences, arguments.epochs)
    print(json.dumps(result))
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


def compare(encoder: str, num_sentences: int, num_epochs: int) -> dict[str, object]:
    made = generate(0)
    train, test = made.train_true[:num_sentences], made.test[:num_sentences]
    labels = LabelSet.from_sentences([*train, *test], "iob2")
    taggers: dict[Format, Tagger] = {
        name: new_tagger(build_encoder(encoder, train, 0), labels, seed=0) for name in FORMATS
    }
    seconds: dict[Format, list[float]] = {name: [] for name in FORMATS}
    for epoch in range(num_epochs + 1):
        for name, tagger in taggers.items():
            taken = train_epoch(tagger, train, name, epoch)
            seconds[name] += [taken] if epoch else []
    median: dict[Format, float] = {name: statistics.median(times) for name, times in seconds.items()}
    return {
        "num_sentences": len(train),
        "num_epochs": num_epochs,
        "threads": torch.get_num_threads(),
        "cpu_multiplies_bfloat16": multiplies_bfloat16(),
        "seconds_per_epoch": {name: round(value, 2) for name, value in median.items()},
        "times_as_fast": round(median["float32"] / median["bfloat16"], 2),
        "f1": {name: round(100 * f1(tagger, test), 2) for name, tagger in taggers.items()},
    }


def train_epoch(tagger: Tagger, train: Sequence[Sentence], precision: Format, seed: int) -> float:
    """Seconds of one epoch."""
    options = replace(RECIPE, precision=precision, seed=seed)
    start = time.perf_counter()
    train_tagger(tagger, train, (), options)
    return time.perf_counter() - start


def f1(tagger: Tagger, test: Sequence[Sentence]) -> float:
    return score_labels([one.labels for one in test], tagger.predict(test), "iob2").segments.f1


if __name__ == "__main__":
    main()
