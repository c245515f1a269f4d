"""Queries on a GPU: ten million tokens in one pass, and CoNLL-2003 with a fine-tuned DistilBERT.

    python benchmarks/gpu.py --data ../shared/data --encoder DISTILBERT --out benchmarks/results/gpu.json

*scan*: 10 million tokens x 768 bfloat16 and 9 labels, random; the 100 strongest of both sides for one direction.
``read`` is a kernel that only reads the features. *conll*: a tagger trained on CoNLL-2003 train, its index, then the
curvature from nothing and 50 queries, then ``explain`` with ``refine`` for one misprediction.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tagtrace import Explainer, build_index, make_queries, read_corpus
from tagtrace.data import LabelSet
from tagtrace.index import Shard
from tagtrace.influence.scoring.gpu_scan import strongest_tokens
from tagtrace.influence.scoring.token_pass import TokenPass
from tagtrace.tagger import Head, TrainOptions, build_encoder, new_tagger, train_tagger

LABELS = LabelSet(("O", *(f"{p}-{t}" for t in ("PER", "ORG", "LOC", "MISC") for p in "BI")), "iob2")
READ_BLOCK = 16_384
RECIPE = TrainOptions(
    epochs=3, batch_size=32, learning_rate=7e-5, head_learning_rate=1e-3, schedule="linear", dropout=0.1, keep="last"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--encoder", type=Path)
    parser.add_argument("--tokens", type=int, default=10_000_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    results: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    results["scan"] = scan(arguments.tokens)
    print(json.dumps(results, indent=1), flush=True)
    if arguments.data and arguments.encoder:
        results["conll"] = conll(arguments.data, arguments.encoder, arguments.epochs)
        print(json.dumps(results["conll"], indent=1), flush=True)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


def scan(num_tokens: int) -> dict[str, Any]:
    """The kernel, a read of the features, and matmul with topk of torch, in turn."""
    torch.manual_seed(0)
    head = Head(768, LABELS).double().cuda()
    features = torch.empty(num_tokens, 768, dtype=torch.bfloat16, device="cuda")
    for part in features.split(2**20):
        part.normal_()
    errors = torch.softmax(2 * torch.randn(num_tokens, 9, device="cuda"), 1)
    labels = torch.randint(0, 9, (num_tokens,), device="cuda")
    errors -= torch.nn.functional.one_hot(labels, 9)
    shard = Shard(features, errors, labels, torch.full((num_tokens // 20,), 20), 0, 0)
    tokens, direction = TokenPass(head, shard), torch.randn_like(head.flat())
    weight = head.unflatten(direction)["weight"][:, :-1].bfloat16()

    def plain() -> None:
        scores = ((features @ weight.T).float() * errors).sum(1)
        scores.topk(100)
        scores.topk(100, largest=False)

    steps = {
        "read": lambda: read_only(features),
        "scan": lambda: strongest_tokens(tokens, direction, 100),
        "torch": plain,
    }
    found = time_in_turn(steps, 20)
    rows, scores = strongest_tokens(tokens, direction, 100)  # (2, 100) each
    exact = exact_scores(tokens, direction, rows.flatten()).view(2, -1)
    sample = torch.randperm(num_tokens, device="cuda")[:1_000_000]
    sample = sample[~torch.isin(sample, rows)]
    every = torch.cat([exact_scores(tokens, direction, some) for some in sample.split(100_000)])
    return {
        "tokens": num_tokens,
        "milliseconds": found,
        "times_a_read": round(found["scan"] / found["read"], 3),
        "largest_relative_error": float((scores - exact).abs().max() / exact.abs().max()),
        "others_that_are_stronger": int(((every > exact[0].min()) | (every < exact[1].max())).sum()),
        "others_sampled": len(sample),
    }


def exact_scores(tokens: TokenPass, direction: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """V . g_t in float64 for some rows, by the formula."""
    parts = tokens.head.unflatten(direction)
    weight, edges = parts["weight"], parts["transitions"]
    C = tokens.head.num_labels
    padded = torch.cat([edges, torch.zeros_like(edges[:1])])
    turned = torch.cat([edges.T, torch.zeros_like(edges[:1])])
    moved = tokens.shard.features[rows].double() @ weight[:, :-1].T + weight[:, -1]
    moved = moved + padded[tokens.before[rows]] + turned[tokens.after[rows]]
    assert moved.shape[1] == C
    return (moved * tokens.shard.errors[rows].double()).sum(1)


def read_only(features: torch.Tensor) -> torch.Tensor:
    """Reads every feature once: the sum of each block."""
    kernel: Any = importlib.import_module("read_kernel")

    flat = features.view(-1).view(torch.int32)
    out = torch.empty(-(-flat.numel() // READ_BLOCK), dtype=torch.int32, device=features.device)
    kernel.read_blocks[(len(out),)](flat, out, flat.numel(), BLOCK=READ_BLOCK, num_warps=8)
    return out


def conll(data: Path, encoder: Path, epochs: int) -> dict[str, Any]:
    """Train, index, then ask."""
    train = read_corpus(data / "conll2003" / "train.txt.gz")
    dev = read_corpus(data / "conll2003" / "dev.txt.gz")
    built = build_encoder(f"transformer:{encoder}", list(train.sentences), 0)
    tagger = new_tagger(built, LabelSet.from_sentences(train.sentences, "iob2"), seed=0).to("cuda")
    found: dict[str, Any] = {}
    _, found["train_s"] = timed(
        lambda: train_tagger(tagger, list(train.sentences), (), TrainOptions(**{**RECIPE.to_json(), "epochs": epochs}))
    )
    with tempfile.TemporaryDirectory() as folder:
        index, found["index_s"] = timed(lambda: build_index(tagger, train, Path(folder) / "index"))
        queries = make_queries(index.tagger(), dev, most=50)
        found["index_refit_steps"] = index.manifest.fit.num_steps
        found |= {"tokens": index.num_tokens, "parameters": index.head.num_parameters, "queries": len(queries)}
        for curvature in ("cg", "dense"):
            warm = Explainer(index, curvature, device="cuda")  # the copy to the GPU is measured apart
            _, found[f"{curvature}_copy_s"] = timed(lambda warm=warm: warm.shards)

            def ask(explainer: Explainer = warm) -> Any:
                explainer.prepare("influence")
                return list(explainer.explain_all(queries, top=10))

            _, found[f"{curvature}_and_50_queries_s"] = timed(ask)
            solution = warm.solver.try_solve(torch.stack([one.gradient(warm.head) for one in queries]))
            found[f"{curvature}_residual"] = float(solution.residual.max())
            found[f"{curvature}_steps"] = solution.num_steps
        warm.prepare("influence", "refine")
        _ = warm.optimum
        answer, found["first_refine_s"] = timed(lambda: warm.explain(queries[0], top=5, rung="refine"))
        for top in (5, 10):  # 5 is the default of the command
            times = [timed(lambda q=q, top=top: warm.explain(q, top=top, rung="refine"))[1] for q in queries[1:8]]
            found[f"refine_top_{top}_s"] = statistics.median(times)
        segments = [*answer.supporters[:3], *answer.opposers[:3]]
        verified, seconds = timed(lambda: [warm.verify(queries[0], one) for one in segments])
        found["verify_one_s"] = seconds / len(segments)
        found["refined_and_verified"] = [(one.refined.change, one.verified.change) for one in verified]  # type: ignore[union-attr]
    return found


def time_in_turn(steps: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median milliseconds of each step; the first rounds are not counted."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for repeat in range(repeats + 3):
        for name, step in steps.items():
            seconds = timed(step)[1]
            if repeat >= 3:
                times[name].append(1e3 * seconds)
    return {name: round(statistics.median(values), 3) for name, values in times.items()}


def timed(step: Callable[[], Any]) -> tuple[Any, float]:
    torch.cuda.synchronize()
    start = time.perf_counter()
    found = step()
    torch.cuda.synchronize()
    return found, time.perf_counter() - start


if __name__ == "__main__":
    main()
