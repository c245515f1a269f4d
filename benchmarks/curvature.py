"""The engine at the size of CoNLL-2003, compared with an older checkout of tagtrace in the same run.

    python benchmarks/curvature.py --data ../shared/data/conll2003/train.txt.gz --landed OLD \\
        --out benchmarks/results/curvature.json

*index*: the index of CoNLL train with the lexical encoder as it is by default (D = 384, trained for one epoch), one
thread, here and by the checkout OLD (its folder; left out without --landed). *queries*: a CRF head on 203,621 tokens
with D = 768 and C = 9, of a lexical tagger trained for two epochs; curvature from nothing and 50 queries, here (``cg``,
residual at most 1e-4) and by the dense inverse of OLD. *one_query*: one query at a time on the same index, in turns
with a pass that only reads the features (``query.py``). *refine*: 200 segments refined, and a few of them verified.
*large*: 1,000 sentences with 73 labels made of the 9 by the word's hash, P = 61,466, with refine and verify. Each part
runs in a process of its own; memory is the most at any moment on top of the imports.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import torch
from query import BUFFER, TOP, read_mapped, time_in_turn

from tagtrace.data import Corpus, LabelSet, read_corpus
from tagtrace.index import Index, build_index, open_index
from tagtrace.influence import Edit, Explainer, Query, SegmentKind
from tagtrace.tagger import Lexical, LexicalOptions, TrainOptions, load_tagger, new_tagger, save_tagger, train_tagger

NUM_QUERIES = 50
PARTS = ("index", "queries", "one_query", "refine", "large")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="CoNLL-2003 train")
    parser.add_argument("--landed", type=Path, help="an older checkout to compare with")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--part", nargs=2, metavar=("PART", "FOLDER"), help="for internal use")
    arguments = parser.parse_args()
    if arguments.part:
        print(json.dumps(run_part(arguments.part[0], Path(arguments.part[1]), arguments.data)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        for results in measure(arguments, Path(temporary)):
            if arguments.out:
                kept = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
                arguments.out.write_text(json.dumps({**kept, **results}, indent=1) + "\n")


def measure(arguments: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """The results so far, after each part."""
    corpus, results = read_corpus(arguments.data), dict[str, Any]()
    for part in arguments.only:
        place = folder / part
        if part == "index":
            make_tagger(corpus, place)
        elif part == "large":
            results["large_index"] = make_index(many_labels(corpus), place, "plain")
        elif not (folder / "shared").exists():
            results["shared_index"] = make_index(corpus, folder / "shared", corpus.normalised_scheme)
        place = place if place.exists() else folder / "shared"
        before = {"load_average": round(os.getloadavg()[0], 2)}
        results[part] = {**before, **in_process(part, place, arguments.data)}
        print(part, json.dumps(results[part]), flush=True)
        if arguments.landed and part in ("index", "queries"):
            landed = in_process("dense" if part == "queries" else part, place, arguments.data, arguments.landed / "src")
            results[part] |= {"landed": landed, "times_faster": round(landed["all_s"] / results[part]["all_s"], 1)}
            print(part, json.dumps(results[part]), flush=True)
        yield results


def make_tagger(corpus: Corpus, folder: Path) -> None:
    """Train the lexical tagger for one epoch and save it."""
    torch.manual_seed(0)
    labels = LabelSet.from_sentences(corpus.sentences, corpus.normalised_scheme)
    tagger = new_tagger(Lexical(), labels, seed=0)
    train_tagger(tagger, list(corpus.sentences), (), TrainOptions(epochs=1, batch_size=32, schedule="linear"))
    save_tagger(tagger, folder)


def make_index(corpus: Corpus, folder: Path, scheme: str) -> dict[str, Any]:
    """Train a tagger with D = 768 and index its training data."""
    labels = LabelSet.from_sentences(corpus.sentences, scheme)
    torch.manual_seed(0)
    tagger = new_tagger(Lexical(LexicalOptions(hidden=768 - 128)), labels, seed=0)
    recipe = TrainOptions(epochs=2, batch_size=32, schedule="linear")
    _, train_s = timed(lambda: train_tagger(tagger, list(corpus.sentences), (), recipe))
    index, seconds = timed(lambda: build_index(tagger, corpus, folder))
    uncertain = sum(int((shard.errors.abs().amax(1) > 1e-3).sum()) for shard in index.shards)
    return {
        "train_s": round(train_s, 1),
        "index_s": round(seconds, 1),
        "tokens": index.num_tokens,
        "parameters": index.head.num_parameters,
        "max_gradient": index.manifest.fit.max_gradient,
        "tokens_with_an_error_above_0.001": uncertain,
        "megabytes": round(index.num_bytes / 1e6, 1),
    }


def many_labels(corpus: Corpus) -> Corpus:
    """73 labels: O, and each other label in 9 kinds by the word's hash."""

    def label(token: str, given: str) -> str:
        return "O" if given == "O" else f"{given.replace('-', '')}{crc32(token.encode()) % 9}"

    sentences = [
        replace(one, labels=tuple(label(*pair) for pair in zip(one.tokens, one.labels, strict=True)))
        for one in corpus.sentences[:1000]
    ]
    return replace(corpus, sentences=tuple(sentences), scheme="plain")


def in_process(part: str, place: Path, data: Path, source: Path | None = None) -> dict[str, Any]:
    environment = {**os.environ, **({"PYTHONPATH": str(source)} if source else {})}
    if part == "index":
        environment["OMP_NUM_THREADS"] = "1"
    command = [sys.executable, __file__, "--data", str(data), "--part", part, str(place)]
    found = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(found.stdout.splitlines()[-1])


def run_part(part: str, place: Path, data: Path) -> dict[str, Any]:
    if part == "index":
        return rebuild(place, read_corpus(data))
    index = open_index(place)
    shutil.rmtree(place / "curvature", ignore_errors=True)  # each part computes its own
    queries = draw_queries(index)
    import_loops()
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    found = {"queries": ask, "dense": ask_landed, "one_query": one_query, "refine": refine, "large": large}[part](
        index, queries
    )
    return {**found, "threads": torch.get_num_threads(), "at_most_mb": round(memory("VmHWM") - before, 1)}


def import_loops() -> None:
    """Import numba, as ``peers.py`` does, where the checkout uses it."""
    with suppress(ImportError):
        import tagtrace.tagger.convex.compiled  # noqa: F401, PLC0415  # pyright: ignore[reportMissingImports]


def rebuild(place: Path, corpus: Corpus) -> dict[str, Any]:
    """The index of the saved tagger's training data."""
    tagger = load_tagger(place)
    with tempfile.TemporaryDirectory() as folder:
        index, seconds = timed(lambda: build_index(tagger, corpus, Path(folder) / "index"))
        fit = index.manifest.fit
    return {"all_s": round(seconds, 2), "refit_steps": fit.num_steps, "max_gradient": fit.max_gradient}


def draw_queries(index: Index) -> list[Query]:
    """Tokens of training sentences with two features turned: something that the head has not seen."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for number in torch.randperm(index.num_sentences, generator=generator)[:NUM_QUERIES].tolist():
        rows = index.sentence_rows(number, torch.float64)
        place = int(torch.randint(0, len(rows.labels), (1,), generator=generator))
        found.append(Query(rows.features.roll(1, 1), rows.labels, place, place + 1))
    return found


def ask(index: Index, queries: list[Query]) -> dict[str, Any]:
    """Curvature from nothing by ``cg`` and all queries."""
    explainer = Explainer(index, "cg")
    gradients = torch.stack([query.gradient(explainer.head) for query in queries])
    solver, prepare = timed(lambda: explainer.solver)
    solution, solve = timed(lambda: solver.solve(gradients))

    def score() -> None:
        scorer = explainer._scorer("token", 1)
        for query, direction in zip(queries, solution.value, strict=True):
            scorer.score(query, "influence", torch.arange(len(scorer.candidates)), 100, direction)

    _, scan = timed(score)
    return {
        "prepare_s": round(prepare, 2), "solve_s": round(solve, 2), "scan_s": round(scan, 2),
        "all_s": round(prepare + solve + scan, 2), "steps": solution.num_steps,
        "residual": float(solution.residual.max()),
    }  # fmt: skip


def ask_landed(index: Index, queries: list[Query]) -> dict[str, Any]:
    """The same by the dense inverse, with the API of either checkout."""
    explainer = Explainer(index, "dense")
    _, prepare = timed(lambda: explainer.solver)
    _, scan = timed(lambda: [explainer.explain(query, top=100) for query in queries])
    return {"prepare_s": round(prepare, 2), "scan_s": round(scan, 2), "all_s": round(prepare + scan, 2)}


def one_query(index: Index, queries: list[Query]) -> dict[str, Any]:
    """Queries for tokens, without and with the solve, for entities and for segments, in turns with a pass."""
    identity, dense = Explainer(index, "identity"), Explainer(index, "dense")
    dense.prepare()
    buffer, count = torch.empty(BUFFER, index.head.dim, dtype=torch.float16), itertools.count()

    def ask(explainer: Explainer, kind: SegmentKind) -> Callable[[], object]:
        return lambda: explainer.explain(queries[next(count) % len(queries)], kind=kind, top=TOP)

    steps = {
        "read": lambda: read_mapped(index, buffer),
        "tokens": ask(identity, "token"),
        "tokens_with_solve": ask(dense, "token"),
        "entities": ask(identity, "entity"),
        "segments": ask(identity, "segment"),
    }
    median = {name: statistics.median(values) for name, values in time_in_turn(steps, 25).items()}
    return {
        "median_ms": {name: round(1e3 * value, 2) for name, value in median.items()},
        "times_a_read": {name: round(value / median["read"], 2) for name, value in median.items() if name != "read"},
    }


def refine(index: Index, queries: list[Query]) -> dict[str, Any]:
    """200 segments of a query, refined together; the first ten verified one by one."""
    explainer = Explainer(index, "auto")
    explainer.prepare("influence", "refine")
    _ = explainer.optimum, explainer.refiner, explainer.retrainer
    return _refine_and_verify(explainer, queries[0], 100, 10)


def large(index: Index, queries: list[Query]) -> dict[str, Any]:
    explainer = Explainer(index, "auto")
    found = ask(index, queries[:8])
    _ = explainer.optimum
    return {"parameters": index.head.num_parameters, **found, **_refine_and_verify(explainer, queries[0], 5, 3)}


def _refine_and_verify(explainer: Explainer, query: Query, top: int, num_verified: int) -> dict[str, Any]:
    shown = explainer.explain(query, top=top)
    segments = [one for pair in zip(shown.supporters, shown.opposers, strict=False) for one in pair]
    groups = [[Edit(one.sentence_number, one.start, one.stop)] for one in segments]
    refined, refine_s = timed(lambda: explainer.refiner.effects(groups, query))
    verified, verify_s = timed(lambda: [explainer.verify(query, one) for one in segments[:num_verified]])
    pairs = [(one.change, other.verified.change) for one, other in zip(refined, verified, strict=False)]  # type: ignore[union-attr]
    return {
        "segments": len(segments),
        "refine_s": round(refine_s, 2),
        "verify_one_s": round(verify_s / num_verified, 3),
        "refine_share_of_verify": round(refine_s / (verify_s / num_verified * len(segments)), 4),
        "refined_and_verified": pairs,
    }


def memory(name: str) -> float:
    """MB of this process by the name in /proc/self/status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1e3
    raise ValueError(name)


def timed(step: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = step()
    return found, time.perf_counter() - start


if __name__ == "__main__":
    main()
