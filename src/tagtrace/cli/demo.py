"""``tagtrace demo``: the whole path on invented newswire, with nothing to download."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import click
import torch

from tagtrace._files import folder_moved_when_whole
from tagtrace.cli.show import TrainingDisplay, err, out, scorecard_table, summary_table
from tagtrace.data import LabelSet, read_corpus, summarise
from tagtrace.data.invented import generate, write_invented
from tagtrace.tagger import TrainOptions, build_encoder, new_tagger, save_tagger, score_labels, train_tagger

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
    """Invent a small corpus of newswire with planted label errors, train a tagger on it and evaluate it."""
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
        torch.manual_seed(seed)
        tagger = new_tagger(build_encoder("lexical", ()), labels)
        err.print("training the offline tagger", highlight=False)
        with TrainingDisplay() as display:
            train_tagger(tagger, files["train"].sentences, files["dev"].sentences, recipe, progress=display)
        for split in ("dev", "test"):
            gold = [sentence.labels for sentence in files[split].sentences]
            card = score_labels(gold, tagger.predict(files[split].sentences), labels.scheme)
            out.print(scorecard_table(card, f"{split} (true labels)"))
        save_tagger(tagger, aside / "tagger")
    out.print(f"data and tagger are in {folder}; {time.monotonic() - start:.0f} s in all", highlight=False)
