"""Fine-tune DistilBERT with a CRF on the original training sentences of conll2003_corrected, then refit its head.

    python experiments/distilbert_conll.py --data ../shared/data --encoder DIR --out experiments/results/distilbert.json

DIR is the folder of a transformer that Hugging Face's transformers can load. On one H200 the ``short`` recipe takes
about two minutes, and the ``paper`` recipe about eight.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import torch

from tagtrace.data import Corpus, LabelSet, read_corpus
from tagtrace.tagger import (
    RefitOptions,
    Step,
    Tagger,
    TrainOptions,
    build_encoder,
    new_tagger,
    refit_tagger,
    score_labels,
    train_tagger,
)

RECIPES = {
    "paper": TrainOptions(batch_size=32),
    "short": TrainOptions(
        epochs=4,
        batch_size=32,
        learning_rate=7e-5,
        head_learning_rate=1e-3,
        schedule="linear",
        dropout=0.1,
        keep="last",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--recipe", choices=RECIPES, nargs="+", default=["short", "paper"])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    folder = arguments.data / "conll2003_corrected"
    corpora = {s: read_corpus(folder / f"{s}_original.jsonl.gz") for s in ("train", "validation", "test")}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    results = {}
    for name in arguments.recipe:
        results[name] = run(name, arguments.encoder, corpora, arguments.seed)
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


def run(recipe: str, encoder: str, corpora: dict[str, Corpus], seed: int) -> dict[str, object]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    machine = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor()
    print(f"== recipe {recipe} on {machine}", flush=True)
    train = corpora["train"]
    labels = LabelSet.from_sentences(train.sentences, train.normalised_scheme)
    torch.manual_seed(seed)
    tagger = new_tagger(build_encoder(f"transformer:{encoder}", train.sentences), labels).to(device)
    start = time.monotonic()
    train_tagger(tagger, train.sentences, corpora["validation"].sentences, RECIPES[recipe], progress=show)
    train_seconds = time.monotonic() - start
    trained = evaluate(tagger, corpora)
    start = time.monotonic()
    refit_tagger(tagger, train.sentences, RefitOptions(), progress=show_refit)
    refit_seconds = time.monotonic() - start
    return {
        "machine": machine,
        "seed": seed,
        "train_seconds": train_seconds,
        "segment_f1": trained,
        "segment_f1_after_refit": evaluate(tagger, corpora),
        "refit_seconds": refit_seconds,
        "record": tagger.record,
    }


def evaluate(tagger: Tagger, corpora: dict[str, Corpus]) -> dict[str, float]:
    """Segment F1 in percent, with and without BIO constraints in decoding."""
    scores = {}
    for split in ("validation", "test"):
        sentences = corpora[split].sentences
        gold = [sentence.labels for sentence in sentences]
        for name, constrained in (("constrained", True), ("free", False)):
            card = score_labels(gold, tagger.predict(sentences, constrained=constrained), tagger.labels.scheme)
            scores[f"{split}_{name}"] = round(100 * card.segments.f1, 2)
    print(scores, flush=True)
    return scores


def show(step: Step) -> None:
    if step.dev_loss is not None:
        print(f"epoch {step.epoch} dev loss {step.dev_loss:.4f}, about {step.seconds_left:.0f} s left", flush=True)


def show_refit(step: int, objective: float, max_gradient: float) -> None:
    print(f"refit step {step} objective {objective:.8f} max |gradient| {max_gradient:.1e}", flush=True)


if __name__ == "__main__":
    main()
