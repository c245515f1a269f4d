"""``tagtrace reproduce`` for a machine that has only torch, numpy, safetensors and transformers.

PYTHONPATH=src python experiments/reproduce.py NAME --data DIR --encoder DIR --out DIR [--seeds 0,1] [--jobs 14]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from tagtrace._checks import TagtraceError
from tagtrace.reproduce import EXPERIMENTS, Setting, parse_seeds, pick, reproduce


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help=f"{', '.join(EXPERIMENTS)} or all")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", help="folder of a transformer, vectors:FILE or lexical")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    device = given.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    setting = Setting(given.data, given.out, given.encoder, given.quick, torch.device(device), report, given.jobs)
    try:
        for experiment in pick(given.name, setting):
            print(reproduce(experiment.name, setting, parse_seeds(given.seeds)), flush=True)
    except (TagtraceError, OSError) as error:
        sys.exit(f"reproduce: {' '.join(str(error).split())}")


def report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
