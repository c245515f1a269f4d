"""tagtrace on the same workload: with its index to build, or with an index that is there already.

    python benchmarks/peers/tagtrace_engine.py FOLDER built|refitted|given

``built`` builds the index of the given features and head, computes the curvature and answers the queries. ``refitted``
also fits the head again, starting from the given one, as ``build_index`` does by default. ``given`` opens the index
that they left in FOLDER, without its curvature.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from measure import write
from torch import Tensor
from workload import SENTENCE, Workload

from tagtrace import (
    Explainer,
    HeadOptions,
    Index,
    IndexOptions,
    LabelSet,
    Query,
    Tagger,
    build_index,
    open_index,
    read_corpus,
)
from tagtrace.data import Corpus
from tagtrace.influence.scoring.token_pass import TokenPass
from tagtrace.tagger import Precomputed, new_tagger
from tagtrace.tagger.convex.products import compiled_loops

CURVATURE = "cg"
NAMES = tuple(f"LABEL{number}" for number in range(9))


def main() -> None:
    torch.set_num_threads(1)
    compiled_loops()  # an import, which no library's row counts
    folder, mode = Path(sys.argv[1]), sys.argv[2]
    work = Workload.load(folder)
    queries, labels, head = (torch.from_numpy(each) for each in (work.queries, work.query_labels, work.head))
    asked = [Query(one.unsqueeze(0), label.unsqueeze(0), 0, 1) for one, label in zip(queries, labels, strict=True)]
    place = folder / "index"
    if mode == "given":
        del work
        shutil.rmtree(place / "curvature", ignore_errors=True)

        def answer() -> Tensor:
            return influences(open_index(place), asked)
    else:
        corpus, arrays = written(work, folder / "corpus")
        tagger = given_tagger(arrays, head)
        options = IndexOptions(refit=mode == "refitted", l2=float(SENTENCE))
        del work

        def answer() -> Tensor:
            shutil.rmtree(place, ignore_errors=True)
            return influences(build_index(tagger, corpus, place, options), asked)

    settings = f"curvature {CURVATURE}, features in float16"
    write(folder, f"tagtrace_{mode}", answer, ("tagtrace", "torch"), settings)


def influences(index: Index, queries: list[Query]) -> Tensor:
    """The influence of every token on every query, (Q, N)."""
    explainer = Explainer(index, CURVATURE)
    gradients = torch.stack([query.gradient(index.head) for query in queries])  # (Q, P)
    directions = explainer.solver.solve(gradients).value  # (Q, P)
    products = [TokenPass(index.head, shard).products(directions) for shard in explainer.shards]
    return torch.cat(products, 1).div_(index.num_sentences)


def written(work: Workload, folder: Path) -> tuple[Corpus, Path]:
    """The labels as a CoNLL file of sentences of 20 tokens, and a folder with the features of its tokens."""
    folder.mkdir(exist_ok=True)
    lines = [f"word\t{NAMES[label]}{'' if (k + 1) % SENTENCE else chr(10)}" for k, label in enumerate(work.labels)]
    (folder / "train.conll").write_text("\n".join(lines) + "\n", encoding="utf-8")
    arrays = folder / "arrays"
    arrays.mkdir(exist_ok=True)
    np.save(arrays / "train.conll.npy", work.features.astype(np.float16))
    return read_corpus(folder / "train.conll"), arrays


def given_tagger(arrays: Path, head: Tensor) -> Tagger:
    tagger = new_tagger(Precomputed(arrays), LabelSet(NAMES, "plain"), HeadOptions("softmax"))
    tagger.head.double().set_flat(head.flatten())
    return tagger


if __name__ == "__main__":
    main()
