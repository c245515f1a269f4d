"""Influence through the whole tagger: seconds to build it and to ask it, beside the seconds of one training.

    python benchmarks/whole.py lexical --out benchmarks/results/whole.json
    PYTHONPATH=src python benchmarks/whole.py ENCODER --out whole.json

ENCODER is the folder of a transformer. The text is invented, 2,000 sentences; nothing else should run beside it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import torch

from tagtrace.data import Corpus, LabelSet, ReadOptions, Sentence
from tagtrace.data.invented import generate
from tagtrace.index import IndexOptions, build_index
from tagtrace.influence import Query, WholeInfluence, build_whole, find_candidates, make_query
from tagtrace.influence.whole.slopes import SegmentLosses
from tagtrace.reproduce.shared.taggers import RECIPE
from tagtrace.tagger import Tagger, TrainOptions, build_encoder, new_tagger, train_tagger

T = TypeVar("T")
NUM_QUERIES = 6
"""The first one also computes the losses that later ones use again, and is reported apart."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder", help="lexical, or the folder of a transformer")
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3, help="early taggers")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    result = measure(given.encoder, given.sentences, given.seeds)
    print(json.dumps(result))
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def measure(encoder: str, num_sentences: int, num_seeds: int) -> dict[str, object]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    made = generate(0)
    train = made.train_true[:num_sentences]
    corpus = Corpus(Path("invented.conll"), train, "iob2", ReadOptions(), "invented")
    is_lexical = encoder == "lexical"
    recipe = TrainOptions(epochs=8, keep="last") if is_lexical else RECIPE
    labels = LabelSet.from_sentences([*train, *made.test], "iob2")

    def trained(seed: int) -> Tagger:
        spec = encoder if is_lexical else f"transformer:{encoder}"
        tagger = new_tagger(build_encoder(spec, train, seed), labels, seed=seed).to(device)
        train_tagger(tagger, train, (), replace(recipe, seed=seed))
        return tagger

    training, tagger = timed(lambda: trained(0), device)
    training = min(training, timed(lambda: trained(1), device)[0])  # the first one also warms up
    with TemporaryDirectory() as folder:
        index = build_index(tagger, corpus, Path(folder) / "index", IndexOptions(tolerance=1e-3))
        building, whole = timed(lambda: build_whole(index, num_seeds, tagger=tagger, device=device), device)
        queries = questions(tagger, made.test)
        sentences = [timed(lambda q=q: whole.sentence_scores([q]), device)[0] for q in queries]
        tokens = find_candidates(index, "token").segments
        by_token = ask_tokens(whole, queries, tokens, device)
        return {
            "encoder": "lexical" if is_lexical else Path(encoder).name,
            "device": torch.cuda.get_device_name()
            if device.type == "cuda"
            else f"{torch.get_num_threads()} CPU threads",
            "sentences": len(train),
            "tokens": len(tokens),
            "seeds": num_seeds,
            "training_s": round(training, 2),
            "building_s": round(building, 2),
            "building_in_trainings": round(building / training, 2),
            "query_sentences_s": summary(sentences),
            "query_tokens_s": summary(by_token),
        }


def ask_tokens(
    whole: WholeInfluence, queries: Sequence[Query], tokens: torch.Tensor, device: torch.device
) -> list[float]:
    asked = SegmentLosses(tokens)
    return [timed(lambda q=q: whole.segment_scores([q], asked), device)[0] for q in queries]


def questions(tagger: Tagger, test: Sequence[Sentence]) -> list[Query]:
    """Labelled test tokens that are part of an entity."""
    places = [(one, t) for one in test for t, label in enumerate(one.labels) if label != "O"]
    return [make_query(tagger, one, t, t + 1, "gold") for one, t in places[:NUM_QUERIES]]


def timed(what: Callable[[], T], device: torch.device) -> tuple[float, T]:
    start = time.perf_counter()
    found = what()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start, found


def summary(seconds: Sequence[float]) -> dict[str, float]:
    return {"first": round(seconds[0], 2), "median_of_others": round(statistics.median(seconds[1:]), 2)}


if __name__ == "__main__":
    main()
