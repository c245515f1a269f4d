"""The demo: every step on invented news reports with planted label errors; nothing is downloaded."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tagtrace._folders import Product, folder_moved_when_whole
from tagtrace._table import Described, Table
from tagtrace.data import read_corpus, summarise
from tagtrace.data.invented import InventedCorpus, generate, write_invented
from tagtrace.data.summary import summary_table
from tagtrace.findings import AuditOptions, run_audit
from tagtrace.findings.audit import TrainingProgress
from tagtrace.findings.audit_folder import PRODUCT as AUDIT
from tagtrace.index import Index, build_index
from tagtrace.index.manifest import PRODUCT as INDEX
from tagtrace.influence import Explainer, Query, build_whole, make_query
from tagtrace.review.project import write_project_file
from tagtrace.tagger import Tagger, TrainOptions, mispredictions, save_tagger, train
from tagtrace.tagger.convex.refit import RefitProgress
from tagtrace.tagger.folder import PRODUCT as TAGGER

RECIPE = TrainOptions(epochs=6, batch_size=32, schedule="linear")
NUM_FOLDS = 3
NUM_EARLY = 1
"""Taggers that are trained for the score ``whole``; more would be better and take longer."""
PRODUCT = Product(
    "data/planted.jsonl",
    (
        "data/*.conll", "data/planted.jsonl", "project.json", *TAGGER.within("tagger"), *INDEX.within("index"),
        *INDEX.within("index.building"), *AUDIT.within("audit"), "audit/folds/*", "audit/folds/*/*",
        "audit/folds/*/step-*/*",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class DemoOutput:
    """Functions that report results, what the demo is doing, and its progress."""

    show: Callable[[Described | Table | str], None] = print
    note: Callable[[str], None] = print
    training: TrainingProgress | None = None
    refitting: RefitProgress | None = None


@dataclass(frozen=True)
class Demo:
    """What the demo made."""

    folder: Path
    """Contains ``data``, ``tagger``, ``index``, ``audit`` and ``project.json``."""
    query: Query | None
    """The misprediction that was explained; None if no club was predicted to be a place."""
    seconds: float


def run_demo(folder: str | Path, seed: int = 0, output: DemoOutput | None = None) -> Demo:
    """Invent news reports with planted label errors, train a tagger, explain a misprediction and find the errors.

    Everything is written to ``folder``, which is replaced if it is the folder of an earlier demo and nothing
    else is in it: decisions of a review are never deleted.
    """
    output, start, folder = output or DemoOutput(), time.monotonic(), Path(folder)
    corpus = generate(seed)
    with folder_moved_when_whole(folder, overwrite=True, product=PRODUCT) as aside:
        write_invented(corpus, aside / "data")
    tagger = _train(folder, corpus, seed, output)
    output.note("building the index of the training data (the head is refitted exactly)")
    train_data = read_corpus(folder / "data" / "train.conll")
    index = build_index(tagger, train_data, folder / "index", refit_progress=output.refitting)
    output.note("training another tagger for a short time, to explain through the encoder too")
    report = output.training
    training = None if report is None else lambda seed, step: report(f"seed {seed}", step)
    build_whole(index, NUM_EARLY, tagger=tagger, training=training)
    query = _explain(folder, index, corpus, output)
    _audit(folder, index, output)
    data = folder / "data"
    write_project_file(
        folder, index=folder / "index", data=data / "train.conll", dev=data / "dev.conll", audit=folder / "audit"
    )
    return Demo(folder, query, time.monotonic() - start)


def _train(folder: Path, corpus: InventedCorpus, seed: int, output: DemoOutput) -> Tagger:
    """Train a tagger, evaluate it and save it."""
    files = {split: read_corpus(folder / "data" / f"{split}.conll") for split in ("train", "dev", "test")}
    output.show(summary_table([summarise(file) for file in files.values()]))
    kinds = [error.kind for error in corpus.errors]
    output.show(
        f"Planted in train: {kinds.count('systematic')} systematic errors (clubs labelled LOC in one kind of report) "
        f"and {kinds.count('random')} random ones."
    )
    report = output.training
    progress = None if report is None else lambda step: report("the tagger", step)
    tagger = train(files["train"], files["dev"], options=replace(RECIPE, seed=seed), progress=progress)
    for split in ("dev", "test"):
        output.show(tagger.evaluate(files[split]).table(f"{split} (true labels)"))
    save_tagger(tagger, folder / "tagger")
    return tagger


def _explain(folder: Path, index: Index, corpus: InventedCorpus, output: DemoOutput) -> Query | None:
    """Show what taught the first club that is predicted to be a place."""
    query = _first_club_predicted_as_place(folder, index)
    if query is None:
        return None
    found = Explainer(index).explain(query, top=5)
    output.show(found)
    planted = {(error.sentence, t) for error in corpus.errors for t in range(error.start, error.stop)}
    hits = sum((one.sentence.id, one.start) in planted for one in found.supporters)
    output.show(f"{hits} of the {len(found.supporters)} supporters are planted errors.")
    return query


def _first_club_predicted_as_place(folder: Path, index: Index) -> Query | None:
    tagger, dev = index.tagger(), read_corpus(folder / "data" / "dev.conll")
    for one in mispredictions(tagger, dev):
        for t in range(one.start, one.stop):
            if one.sentence.labels[t] == "B-ORG" and one.predicted[t] == "B-LOC":
                return make_query(tagger, one.sentence, t, t + 1)
    return None


def _audit(folder: Path, index: Index, output: DemoOutput) -> None:
    """Find the planted errors, with the dev data as trusted data, and measure how many were found."""
    output.note(f"auditing the training labels: {NUM_FOLDS} taggers, each trained without some of the documents")
    dev, true = (read_corpus(folder / "data" / f"{name}.conll") for name in ("dev", "train_true"))
    audit = run_audit(
        index,
        dev,
        AuditOptions(num_folds=NUM_FOLDS),
        truth=true,
        work=folder / "audit" / "folds",
        training=output.training,
    )
    audit.save(folder / "audit")
    output.show(audit)
    output.show(f"All findings, to read in a browser: {folder / 'audit' / 'report.html'}")
