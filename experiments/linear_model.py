"""The paper's linear model (section 5.1): GloVe and syntactic features, 1,000 short CoNLL sentences, refit exactly.

    python experiments/linear_model.py --data ../shared/data --out experiments/results/linear_model.json

Reports the time until max |gradient| <= 1e-6 and the tagger's F1 on 200 short dev sentences.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path

from tagtrace.data import LabelSet, Sentence, read_corpus
from tagtrace.tagger import RefitOptions, build_encoder, new_tagger, refit_tagger, score_labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    train = draw(arguments.data / "conll2003/train.txt.gz", 1000, arguments.seed)
    dev = draw(arguments.data / "conll2003/dev.txt.gz", 200, arguments.seed)
    labels = LabelSet.from_sentences(train, "iob2")
    start = time.monotonic()
    encoder = build_encoder(f"vectors:{arguments.data / 'glove/glove6b_100d.npz'}", train)
    tagger = new_tagger(encoder, labels)
    encoded = time.monotonic()
    result = refit_tagger(
        tagger, train, RefitOptions(l2=1.0, tolerance=1e-6), progress=lambda *step: print(*step, flush=True)
    )
    report = {
        "sentences": len(train),
        "tokens": sum(map(len, train)),
        "features": encoder.dim,
        "parameters": tagger.head.num_parameters,
        "newton_steps": result.num_steps,
        "max_gradient": result.max_gradient,
        "objective": result.objective,
        "load_seconds": round(encoded - start, 2),
        "refit_seconds": round(time.monotonic() - encoded, 2),
        "dev_segment_f1": score_labels([s.labels for s in dev], tagger.predict(dev), "iob2").segments.f1,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


def draw(path: Path, count: int, seed: int) -> Sequence[Sentence]:
    """A random sample of sentences under 25 tokens."""
    short = [sentence for sentence in read_corpus(path).sentences if len(sentence) < 25]
    return random.Random(seed).sample(short, count)


if __name__ == "__main__":
    main()
