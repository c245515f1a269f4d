"""Predicted and actual changes of the loss (section 5.1 and figure 2 of the paper); every point is kept.

    python experiments/exact_influence.py --data ../shared/data --out experiments/results/exact_tokens.json
    ... --segments entity --out experiments/results/exact_entities.json
    ... --edit relabel --out experiments/results/exact_relabel.json
    ... --edit group --out experiments/results/exact_groups.json
    ... --encoder DIR --draws 0 --segments token entity --out experiments/results/exact_distilbert.json          (a GPU)

This is ``tagtrace reproduce exact`` with more kinds of edits. The linear model uses 1,000 training and 200 validation
sentences under 25 tokens, GloVe and syntactic features, and L2 strength 1. For each of 20 mispredicted validation
tokens, the 20 training tokens with the largest absolute first-order influence are removed one at a time and the model
is retrained exactly, in three random draws. ``--segments entity`` uses training entities of two or more tokens;
``--edit relabel`` gives each token its next most likely label instead of removing it; ``--edit group`` removes groups
of ten, drawn from the fifty most influential. ``--encoder`` fine-tunes an encoder on all original training sentences of
conll2003_corrected and uses its refitted head. ``refine`` makes up to three passes over the training data for each
edit, as ``tagtrace explain --refine`` does, ``refine_once`` one pass, and ``sentence_exact`` none.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from functools import partial
from pathlib import Path

import torch

from tagtrace.reproduce.experiments.exact import EXPERIMENT, ExactOptions, model
from tagtrace.reproduce.shared.retraining_bench import Bench, Edits, mispredicted
from tagtrace.reproduce.shared.setting import Setting

report = partial(print, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--segments", choices=("token", "entity"), nargs="+", default=["token"])
    parser.add_argument("--edit", choices=("remove", "relabel", "group"), default="remove")
    parser.add_argument("--encoder", help="folder of a transformer [default: the linear model]")
    parser.add_argument("--draws", type=int, nargs="+", default=[0, 1, 2], help="seeds of the draws")
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--top", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        run(arguments, Path(work))


def run(arguments: argparse.Namespace, work: Path) -> None:
    """Run all draws; results are written after each."""
    device = torch.device("cuda" if arguments.encoder and torch.cuda.is_available() else "cpu")
    setting = EXPERIMENT.with_encoder(Setting(arguments.data, work, arguments.encoder, device=device, report=report))
    options = setting.options("exact", ExactOptions)
    results: list[dict[str, object]] = []
    for seed in arguments.draws:
        generator = random.Random(seed)
        tagger, train, validation = model(setting, seed, options, generator)
        queries = generator.sample(mispredicted(tagger, validation), arguments.queries)
        for kind in arguments.segments:
            found = Bench(tagger, train, kind).run(queries, Edits(arguments.edit, arguments.top), generator, report)
            results.append({"draw": seed, "segments": kind, "edit": arguments.edit, **found})
            report(json.dumps({k: v for k, v in results[-1].items() if k != "points"}, indent=1))
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
