"""``tagtrace demo``: the whole path on invented newswire, with nothing to download."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from tagtrace._files import folder_moved_when_whole
from tagtrace.cli.explanation import Case, show_case
from tagtrace.cli.question import make_query
from tagtrace.cli.show import TrainingDisplay, err, out, refit_line, scorecard_table, summary_table
from tagtrace.data import LabelSet, Sentence, read_corpus, summarise
from tagtrace.data.invented import InventedCorpus, generate, write_invented
from tagtrace.index import build_index
from tagtrace.influence import Explainer
from tagtrace.tagger import Tagger, TrainOptions, build_encoder, new_tagger, save_tagger, score_labels, train_tagger

RECIPE = TrainOptions(epochs=6, batch_size=32, schedule="linear")


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
    """Invent newswire with planted label errors, train a tagger on it, evaluate it and explain a misprediction."""
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
    hits = sum((index.sentence(one.chain).id, one.start) in planted for one in found.supporters)
    out.print(f"{hits} of the {len(found.supporters)} supporters are planted errors", highlight=False)
    out.print(
        f"the same again: tagtrace explain {folder / 'index'} --data {folder / 'data' / 'dev.conll'} "
        f"--sentence {case.sentence.id} --segment {case.start}:{case.stop} --score cosine",
        soft_wrap=True, highlight=False,
    )  # fmt: skip


def _first_club_taken_for_a_place(sentences: Sequence[Sentence], predictions: Sequence[tuple[str, ...]]) -> Case | None:
    """The first token that is ORG and predicted LOC."""
    for sentence, predicted in zip(sentences, predictions, strict=True):
        for t, (gold, label) in enumerate(zip(sentence.labels, predicted, strict=True)):
            if gold == "B-ORG" and label == "B-LOC":
                return Case(sentence, predicted, t, t + 1)
    return None
