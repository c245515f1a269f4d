"""``tagtrace demo``: the whole path on invented newswire, with nothing to download."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from tagtrace._files import folder_moved_when_whole
from tagtrace.cli.audit import audit_summary, show_audit, show_truth
from tagtrace.cli.explanation import Case, show_case
from tagtrace.cli.question import make_query
from tagtrace.cli.show import TrainingDisplay, err, out, refit_line, scorecard_table, summary_table
from tagtrace.data import LabelSet, Sentence, read_corpus, summarise
from tagtrace.data.invented import InventedCorpus, generate, write_invented
from tagtrace.findings import (
    AuditOptions,
    audit,
    encoder_opinions,
    finding_is_wrong,
    measure,
    read_trusted,
    read_truth,
)
from tagtrace.findings.audit_folder import write_audit
from tagtrace.index import build_index, open_index
from tagtrace.influence import Explainer
from tagtrace.review.project import write_project_file
from tagtrace.tagger import (
    Tagger,
    TrainOptions,
    build_encoder,
    load_tagger,
    new_tagger,
    save_tagger,
    score_labels,
    train_tagger,
)

RECIPE = TrainOptions(epochs=6, batch_size=32, schedule="linear")
NUM_FOLDS = 3


@click.command()
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("tagtrace-demo"),
    show_default=True,
    help="Folder for the invented data and the tagger; replaced if it exists.",
)
@click.option("--seed", type=int, default=0, show_default=True)
def demo(folder: Path, seed: int) -> None:
    """Invent newswire with planted label errors, train a tagger, explain a misprediction and find the errors."""
    start = time.monotonic()
    recipe = replace(RECIPE, seed=seed)
    with folder_moved_when_whole(folder, overwrite=True, marker="data/planted.jsonl") as aside:
        corpus = generate(seed)
        write_invented(corpus, aside / "data")
        files = {split: read_corpus(aside / "data" / f"{split}.conll") for split in ("train", "dev", "test")}
        out.print(summary_table([summarise(file) for file in files.values()]))
        kinds = [error.kind for error in corpus.errors]
        out.print(
            f"planted in train: {kinds.count('systematic')} systematic errors (clubs labelled LOC in one kind of "
            f"report) and {kinds.count('random')} random ones",
            highlight=False,
        )
        labels = LabelSet.from_sentences(files["train"].sentences, files["train"].normalised_scheme)
        tagger = new_tagger(build_encoder("lexical", (), seed), labels, seed=seed)
        err.print("training the offline tagger", highlight=False)
        with TrainingDisplay() as display:
            train_tagger(tagger, files["train"].sentences, files["dev"].sentences, recipe, progress=display)
        for split in ("dev", "test"):
            gold = [sentence.labels for sentence in files[split].sentences]
            card = score_labels(gold, tagger.predict(files[split].sentences), labels.scheme)
            out.print(scorecard_table(card, f"{split} (true labels)"))
        save_tagger(tagger, aside / "tagger")
    explain_one(folder, tagger, corpus)
    audit_training_data(folder)
    make_project(folder)
    out.print(f"everything is in {folder}; {time.monotonic() - start:.0f} s in all", soft_wrap=True, highlight=False)


def explain_one(folder: Path, tagger: Tagger, corpus: InventedCorpus) -> None:
    """Index the training data and show what taught the first club that is predicted to be a place."""
    err.print("indexing the training data (the head is refitted exactly)", highlight=False)
    train, dev = (read_corpus(folder / "data" / f"{split}.conll") for split in ("train", "dev"))
    index = build_index(tagger, train, folder / "index", refit_progress=refit_line, tagger_path=folder / "tagger")
    tagger.head = index.head
    case = _first_club_taken_for_a_place(dev.sentences, tagger.predict(dev.sentences))
    if case is None:
        return
    found = Explainer(index, "identity").explain(make_query(tagger, case, "predicted"), "cosine", top=5)
    show_case(
        index,
        case,
        {"supporters": found.supporters, "opposers": found.opposers},
        case.predicted[case.start : case.stop],
        "cosine",
    )
    planted = {(error.sentence, t) for error in corpus.errors for t in range(error.start, error.stop)}
    hits = sum((index.sentence(one.sentence_number).id, one.start) in planted for one in found.supporters)
    out.print(f"{hits} of the {len(found.supporters)} supporters are planted errors", highlight=False)
    out.print(
        f"the same again: tagtrace explain {folder / 'index'} --data {folder / 'data' / 'dev.conll'} "
        f"--sentence {case.sentence.id} --segment {case.start}:{case.stop} --score cosine",
        soft_wrap=True, highlight=False,
    )  # fmt: skip


def audit_training_data(folder: Path) -> None:
    """Find the planted errors, with the dev data as the trusted ones, and measure how many were found."""
    err.print(f"auditing the training labels: {NUM_FOLDS} taggers, each trained without a part of the documents")
    index, tagger = open_index(folder / "index"), load_tagger(folder / "tagger")
    train, dev, true = (read_corpus(folder / "data" / f"{name}.conll") for name in ("train", "dev", "train_true"))
    opinions = encoder_opinions(tagger, train, folder / "audit" / "folds", dev.sentences, NUM_FOLDS)
    tagger.head = index.head
    options = AuditOptions()
    found = audit(index, opinions, read_trusted(index, tagger, dev.sentences), options)
    truth = read_truth(index, true)
    measured = [measure(options.score, found.scores, truth.wrong)]
    summary = audit_summary(index, dev.sentences, found, options, "encoder")
    write_audit(folder / "audit", index, found, summary, dev.sentences, measured)
    show_audit(found, index)
    show_truth(measured, finding_is_wrong(found.findings, index, truth).is_wrong.tolist())
    out.print(f"the whole list, to read in a browser: {folder / 'audit' / 'report.html'}", soft_wrap=True)
    out.print(
        f"the same again: tagtrace audit {folder / 'index'} --trusted {folder / 'data' / 'dev.conll'} "
        f"--truth {folder / 'data' / 'train_true.conll'} --folds {NUM_FOLDS} "
        f"--out {folder / 'audit'}",
        soft_wrap=True,
    )


def make_project(folder: Path) -> None:
    """Make the folder one that can be reviewed."""
    data = folder / "data"
    write_project_file(
        folder, index=folder / "index", data=data / "train.conll", dev=data / "dev.conll", audit=folder / "audit"
    )
    out.print(f"to decide on the findings in the browser: tagtrace review {folder}", soft_wrap=True)


def _first_club_taken_for_a_place(sentences: Sequence[Sentence], predictions: Sequence[tuple[str, ...]]) -> Case | None:
    """The first token that is ORG and predicted LOC."""
    for sentence, predicted in zip(sentences, predictions, strict=True):
        for t, (gold, label) in enumerate(zip(sentence.labels, predicted, strict=True)):
            if gold == "B-ORG" and label == "B-LOC":
                return Case(sentence, predicted, t, t + 1)
    return None
