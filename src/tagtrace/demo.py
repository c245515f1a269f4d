"""The demo: the whole path on invented newswire with planted label errors, with nothing to download."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tagtrace._files import folder_moved_when_whole
from tagtrace._table import Described, Table
from tagtrace.data import read_corpus, summarise
from tagtrace.data.invented import InventedCorpus, generate, write_invented
from tagtrace.data.summary import summary_table
from tagtrace.findings import AuditOptions, run_audit
from tagtrace.findings.audit import FoldProgress
from tagtrace.index import Index, build_index
from tagtrace.influence import Explainer, Query, make_query
from tagtrace.review.project import write_project_file
from tagtrace.tagger import Step, Tagger, TrainOptions, mispredictions, save_tagger, train
from tagtrace.tagger.refit import RefitProgress

RECIPE = TrainOptions(epochs=6, batch_size=32, schedule="linear")
NUM_FOLDS = 3


@dataclass(frozen=True)
class DemoOutput:
    """Where the demo reports: results, notes on what it does, and progress."""

    show: Callable[[Described | Table | str], None] = print
    note: Callable[[str], None] = print
    training: Callable[[Step], None] | None = None
    refitting: RefitProgress | None = None
    folds: FoldProgress | None = None


def run_demo(folder: str | Path, seed: int = 0, output: DemoOutput | None = None) -> None:
    """Invent newswire with planted label errors, train a tagger, explain a misprediction and find the errors.

    Everything is written to ``folder``, which is replaced if it is the folder of an earlier demo.
    """
    output, start, folder = output or DemoOutput(), time.monotonic(), Path(folder)
    corpus = generate(seed)
    with folder_moved_when_whole(folder, overwrite=True, marker="data/planted.jsonl") as aside:
        write_invented(corpus, aside / "data")
    tagger = _train(folder, corpus, seed, output)
    output.note("building the index of the training data (the head is refitted exactly)")
    train_data = read_corpus(folder / "data" / "train.conll")
    index = build_index(tagger, train_data, folder / "index", refit_progress=output.refitting)
    _explain(folder, index, corpus, output)
    _audit(folder, index, output)
    data = folder / "data"
    write_project_file(
        folder, index=folder / "index", data=data / "train.conll", dev=data / "dev.conll", audit=folder / "audit"
    )
    output.show(f"To decide on the findings in the browser: tagtrace review {folder}")
    output.show(f"Everything is in {folder} ({time.monotonic() - start:.0f} s in all).")


def _train(folder: Path, corpus: InventedCorpus, seed: int, output: DemoOutput) -> Tagger:
    """Train the offline tagger, evaluate it and save it."""
    files = {split: read_corpus(folder / "data" / f"{split}.conll") for split in ("train", "dev", "test")}
    output.show(summary_table([summarise(file) for file in files.values()]))
    kinds = [error.kind for error in corpus.errors]
    output.show(
        f"Planted in train: {kinds.count('systematic')} systematic errors (clubs labelled LOC in one kind of report) "
        f"and {kinds.count('random')} random ones."
    )
    output.note("training the offline tagger")
    tagger = train(files["train"], files["dev"], options=replace(RECIPE, seed=seed), progress=output.training)
    for split in ("dev", "test"):
        output.show(tagger.evaluate(files[split]).table(f"{split} (true labels)"))
    save_tagger(tagger, folder / "tagger")
    return tagger


def _explain(folder: Path, index: Index, corpus: InventedCorpus, output: DemoOutput) -> None:
    """Show what taught the first club that is predicted to be a place."""
    query = _first_club_predicted_as_place(folder, index)
    if query is None:
        return
    found = Explainer(index, "identity").explain(query, "cosine", top=5)
    output.show(found)
    planted = {(error.sentence, t) for error in corpus.errors for t in range(error.start, error.stop)}
    hits = sum((one.sentence.id, one.start) in planted for one in found.supporters)
    assert query.sentence is not None
    output.show(f"{hits} of the {len(found.supporters)} supporters are planted errors.")
    output.show(
        f"The same again: tagtrace explain {folder / 'index'} --data {folder / 'data' / 'dev.conll'} "
        f"--sentence {query.sentence.id} --segment {query.start}:{query.stop} --score cosine --curvature identity"
    )


def _first_club_predicted_as_place(folder: Path, index: Index) -> Query | None:
    tagger, dev = index.tagger(), read_corpus(folder / "data" / "dev.conll")
    for one in mispredictions(tagger, dev):
        for t in range(one.start, one.stop):
            if one.sentence.labels[t] == "B-ORG" and one.predicted[t] == "B-LOC":
                return make_query(tagger, one.sentence, t, t + 1)
    return None


def _audit(folder: Path, index: Index, output: DemoOutput) -> None:
    """Find the planted errors, with the dev data as the trusted ones, and measure how many were found."""
    output.note(f"auditing the training labels: {NUM_FOLDS} taggers, each trained without a part of the documents")
    dev, true = (read_corpus(folder / "data" / f"{name}.conll") for name in ("dev", "train_true"))
    audit = run_audit(
        index,
        dev,
        AuditOptions(num_folds=NUM_FOLDS),
        truth=true,
        work=folder / "audit" / "folds",
        training=output.folds,
    )
    audit.save(folder / "audit")
    output.show(audit)
    output.show(f"All findings, to read in a browser: {folder / 'audit' / 'report.html'}")
    output.show(
        f"The same again: tagtrace audit {folder / 'index'} --trusted {folder / 'data' / 'dev.conll'} "
        f"--truth {folder / 'data' / 'train_true.conll'} --folds {NUM_FOLDS} --out {folder / 'audit'}"
    )
