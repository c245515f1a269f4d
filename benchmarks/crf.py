"""CRF loss and gradient compared with pytorch-crf in one run: B = 32, T = 128 (ragged), C = 9 and 73.

    python benchmarks/crf.py --out benchmarks/results/crf.json

Needs the extra ``experiments`` (pytorch-crf). Times are the best and the median of ``--repeats`` alternating runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torchcrf import CRF

from tagtrace.tagger import Scores, crf
from tagtrace.tagger.scores import length_mask

B, T = 32, 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    results = [compare(num_labels, arguments.repeats) for num_labels in (9, 73)]
    for result in results:
        print(json.dumps(result))
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


def compare(num_labels: int, repeats: int) -> dict[str, float]:
    """Check that both give the same loss and gradient, then time them in turn."""
    torch.manual_seed(0)
    emissions = torch.randn(B, T, num_labels, requires_grad=True)
    labels = torch.randint(num_labels, (B, T))
    lengths = torch.randint(T // 2, T + 1, (B,))
    lengths[0] = T
    theirs = CRF(num_labels, batch_first=True)
    mask = length_mask(lengths, T)
    parameters = [theirs.transitions, theirs.start_transitions, theirs.end_transitions]

    def ours_step() -> tuple[Tensor, ...]:
        scores = Scores.of(emissions, parameters[0], lengths, parameters[1], parameters[2])
        loss = crf.joint_loss(scores, labels).sum()
        return (loss, *torch.autograd.grad(loss, [emissions, *parameters]))

    def their_step() -> tuple[Tensor, ...]:
        loss = -theirs(emissions, labels, mask=mask, reduction="sum")
        return (loss, *torch.autograd.grad(loss, [emissions, *parameters]))

    for our_value, their_value in zip(ours_step(), their_step(), strict=True):
        torch.testing.assert_close(our_value.float(), their_value, rtol=1e-3, atol=1e-3)
    ours, rival = time_in_turn(ours_step, their_step, repeats)
    return {
        "num_labels": num_labels,
        "ours_ms": round(1e3 * statistics.median(ours), 2),
        "pytorch_crf_ms": round(1e3 * statistics.median(rival), 2),
        "ours_best_ms": round(1e3 * min(ours), 2),
        "pytorch_crf_best_ms": round(1e3 * min(rival), 2),
        "times_as_fast": round(statistics.median(rival) / statistics.median(ours), 2),
    }


def time_in_turn(
    first: Callable[[], object], second: Callable[[], object], repeats: int
) -> tuple[list[float], list[float]]:
    """Seconds of each call; the two alternate so that other load affects both equally."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for step, seconds in zip((first, second), times, strict=True):
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
    return times


if __name__ == "__main__":
    main()
