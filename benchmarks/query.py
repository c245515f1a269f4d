"""Disk, memory and time of one query over all tokens of CoNLL-2003 train, with D = 768.

    python benchmarks/query.py --data ../shared/data/conll2003/train.txt.gz --out benchmarks/results/query.json

Features are rows of a random table, chosen by each token's hash, and the head is random, because the cost of a query
does not depend on their values. Nor does it depend on the values of the curvature, so a random positive definite matrix
of the Hessian's size (P = 7,002) is factored instead. docs/benchmarks.md explains each figure.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self
from zlib import crc32

import torch
from torch import Tensor

from tagtrace._progress import Progress
from tagtrace.data import LabelSet, Sentence, read_corpus
from tagtrace.index import Index, IndexOptions, build_index, open_index
from tagtrace.influence import Explainer, Query
from tagtrace.influence.curvature.choice import Curvature
from tagtrace.influence.curvature.inverse_file import save_inverse
from tagtrace.influence.curvature.operators import Operator
from tagtrace.influence.curvature.solvers import Cholesky
from tagtrace.tagger import Encoder, new_tagger

D = 768
TOP = 100
BUFFER = 2048
"""Number of tokens whose features ``read_mapped`` copies at once, into the same buffer each time."""


class HashEncoder(Encoder):
    """A random row for each token, chosen by its hash."""

    kind = "hashed"
    trainable = False
    dim = D
    table: Tensor

    def __init__(self, num_rows: int = 4096) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.register_buffer("table", torch.randn(num_rows, D, generator=generator) / D**0.5)

    def prepare(self, sentence: Sentence) -> list[int]:
        return [crc32(token.encode()) % len(self.table) for token in sentence.tokens]

    def forward(self, batch: Sequence[list[int]]) -> Tensor:
        return self.table[torch.tensor([row for prepared in batch for row in prepared])]

    def save(self, folder: Path) -> None:
        raise NotImplementedError

    @classmethod
    def load(cls, folder: Path) -> Self:
        raise NotImplementedError


class RandomMatrix(Operator):
    """A positive definite matrix of the Hessian's size, R R^T + I."""

    def __init__(self, size: int) -> None:
        super().__init__(size, 0.0, torch.device("cpu"))
        generator = torch.Generator().manual_seed(0)
        self.root = torch.randn(size, 64, generator=generator, dtype=torch.float64) / size**0.5

    def __call__(self, vectors: Tensor) -> Tensor:
        return vectors @ self.root @ self.root.T + vectors

    def dense(self, progress: Progress | None = None) -> Tensor:  # noqa: ARG002
        matrix = self.root @ self.root.T
        matrix.diagonal().add_(1.0)
        return matrix


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="CoNLL-2003 train")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--fresh", nargs=2, metavar=("INDEX", "CURVATURE"), help="for internal use")
    arguments = parser.parse_args()
    if arguments.fresh:
        print(
            json.dumps(fresh_query(Path(arguments.fresh[0]), "dense" if arguments.fresh[1] == "dense" else "identity"))
        )
        return
    if not arguments.data:
        parser.error("--data is required")
    with tempfile.TemporaryDirectory() as temporary:
        results = measure(arguments.data, Path(temporary) / "index", arguments.repeats)
    text = json.dumps(results, indent=1)
    print(text)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(text + "\n")


def measure(data: Path, folder: Path, repeats: int) -> dict[str, Any]:
    corpus = read_corpus(data)
    labels = LabelSet.from_sentences(corpus.sentences, corpus.normalised_scheme)
    build_index(new_tagger(HashEncoder(), labels), corpus, folder, IndexOptions(refit=False))
    index = open_index(folder)
    save_inverse(index, 0.0, Cholesky(RandomMatrix(index.head.num_parameters)))
    fresh = {name: in_fresh_process(folder, name) for name in ("identity", "dense")}
    return {
        "num_tokens": index.num_tokens,
        "num_parameters": index.head.num_parameters,
        "load_average": os.getloadavg()[0],
        "disk": disk(index),
        "memory": {name: memory(found, index, name) for name, found in fresh.items()},
        "cold": {name: found["seconds"] for name, found in fresh.items()},
        "time": {f"{count} threads": with_threads(index, repeats, count) for count in thread_counts()},
    }


def disk(index: Index) -> dict[str, float]:
    """Bytes per token, by kind of file."""
    found: dict[str, float] = {}
    for path in sorted(path for path in index.folder.iterdir() if path.is_file()):
        kind = path.name.split("-")[0].removesuffix(".safetensors").removesuffix(".json")
        found[kind] = found.get(kind, 0.0) + path.stat().st_size / index.num_tokens
    return {**{k: round(v, 2) for k, v in found.items()}, "all_bytes_a_token": round(sum(found.values()), 1)}


def in_fresh_process(folder: Path, curvature: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--fresh", str(folder), curvature]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def fresh_query(folder: Path, curvature: Curvature) -> dict[str, Any]:
    """Time and memory of reading the files and of one query, in a process that has read nothing of the index."""
    seconds = {}
    forget(folder)
    seconds["read_files_s"] = timed(lambda: read_files(folder))
    forget(folder)
    memory = {"imports": resident()}
    explainer, query = prepare(open_index(folder), curvature)
    memory["before"] = resident()
    seconds["first_query_s"] = timed(lambda: explainer.explain(query, top=TOP))
    memory["after"] = resident()
    return {"seconds": {name: round(value, 3) for name, value in seconds.items()}, "memory": memory}


def memory(fresh: dict[str, Any], index: Index, curvature: str) -> dict[str, float | bool]:
    """MB on top of the imports, and the limit of index + 200 MB; a dense query reads the inverse kept in the index."""
    imports, before, after = (fresh["memory"][name] for name in ("imports", "before", "after"))
    kept = sum(path.stat().st_size for path in (index.folder / "curvature").iterdir())
    allowed = (index.num_bytes + (kept if curvature == "dense" else 0)) / 1e6 + 200
    found = {
        "imports": imports["held"],
        "prepared": before["held"] - imports["held"],
        "preparing_at_most": before["peak"] - imports["held"],
        "after_query": after["held"] - imports["held"],
        "at_most": after["peak"] - imports["held"],
        "of_it_index": after["files"] - imports["files"],
        "index_plus_200": allowed,
    }
    return {**{name: round(value, 1) for name, value in found.items()}, "within": found["at_most"] <= allowed}


def resident() -> dict[str, float]:
    """MB of this process: at most, now, and how much of it is mapped files."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    values = {name: rest.split()[0] for name, _, rest in (line.partition(":") for line in lines) if rest.strip()}
    names = {"peak": "VmHWM", "held": "VmRSS", "files": "RssFile"}
    return {name: int(values[key]) * 1024 / 1e6 for name, key in names.items()}


def prepare(index: Index, curvature: Curvature) -> tuple[Explainer, Query]:
    """An explainer with its curvature factored, and a query for the first token of a sentence."""
    explainer = Explainer(index, curvature)
    explainer.prepare()
    number = next(number for number, length in enumerate(index.lengths.tolist()) if length >= 20)
    rows = index.sentence_rows(number, torch.float32)
    return explainer, Query(rows.features, rows.labels, 0, 1)


def thread_counts() -> list[int]:
    return sorted({torch.get_num_threads(), 1}, reverse=True)


def with_threads(index: Index, repeats: int, count: int) -> dict[str, Any]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        return times(index, repeats)
    finally:
        torch.set_num_threads(before)


def times(index: Index, repeats: int) -> dict[str, Any]:
    """Time reads, whole queries and their parts in turn, so that other load affects all of them equally."""
    identity, query = prepare(index, "identity")
    dense, _ = prepare(index, "dense")
    gradient = query.gradient(index.head).unsqueeze(0)
    passes = identity._passes
    scores = torch.cat([one.products(gradient)[0] for one in passes])
    buffer = torch.empty(BUFFER, D, dtype=torch.float16)
    seconds = time_in_turn(
        {
            "read": lambda: read_mapped(index, buffer),
            "read_files": lambda: read_files(index.folder),
            "query": lambda: identity.explain(query, top=TOP),
            "query_with_solve": lambda: dense.explain(query, top=TOP),
            "query_entities": lambda: identity.explain(query, kind="entity", top=TOP),
            "query_segments": lambda: identity.explain(query, kind="segment", top=TOP),
            "part_gradient": lambda: query.gradient(index.head),
            "part_solve": lambda: dense.solver.solve(gradient),
            "part_products": lambda: [one.products(gradient) for one in passes],
            "part_top": lambda: [scores.topk(TOP, largest=largest) for largest in (True, False)],
            "plain_product": lambda: plain_product(index, gradient),
        },
        repeats,
    )
    median = {name: statistics.median(values) for name, values in seconds.items()}
    queries = ("query", "query_with_solve", "query_entities", "query_segments")
    return {
        "median_ms": {name: round(1e3 * value, 2) for name, value in median.items()},
        "best_ms": {name: round(1e3 * min(values), 2) for name, values in seconds.items()},
        "times_a_read": {name: round(median[name] / median["read"], 2) for name in queries},
        "times_a_read_best": {name: round(min(seconds[name]) / min(seconds["read"]), 2) for name in queries},
        "times_a_read_of_files": {name: round(median[name] / median["read_files"], 2) for name in queries},
    }


def read_mapped(index: Index, buffer: Tensor) -> None:
    """Copy all stored features through one buffer, with as many threads as a query."""
    for shard in index.shards:
        for part in shard.features.split(len(buffer)):
            buffer[: len(part)].copy_(part)


def read_files(folder: Path) -> None:
    """Read the feature files through one buffer with system calls."""
    buffer = memoryview(bytearray(2**20))
    for path in folder.glob("shard-*"):
        with path.open("rb", buffering=0) as stream:
            while stream.readinto(buffer):
                pass


def forget(folder: Path) -> None:
    """Ask the system to drop the index from its page cache."""
    for path in (path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as stream:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def plain_product(index: Index, directions: Tensor) -> None:
    """The main product of the pass in its simplest form: large chunks, one product each."""
    weight = index.head.unflatten(directions)["weight"].flatten(0, 1).float()  # (C, D + 1)
    for shard in index.shards:
        for features in shard.features.split(16_384):
            torch.addmm(weight[:, -1], features.float(), weight[:, :-1].T)  # (n, C)


def time_in_turn(steps: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each step; the first round is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for repeat in range(repeats + 1):
        for name, step in steps.items():
            found = timed(step)
            if repeat:
                seconds[name].append(found)
    return seconds


def timed(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
