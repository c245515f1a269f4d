"""Labels that taggers are trained on: training data, and labels known to be right, on which training ends."""

from __future__ import annotations

from pathlib import Path

import click

from tagtrace._checks import DataError
from tagtrace._markup import counted
from tagtrace.cli.options import Option
from tagtrace.cli.places import Input, ProjectFolder
from tagtrace.cli.show import note
from tagtrace.data import Corpus, ReadOptions, Sentence, read_corpus
from tagtrace.review import decided_sentences

trusted_option: Option = click.option(
    "--trusted", "trusted_file", type=Input(), metavar="FILE",
    help="Data whose labels are right: training ends with a few steps on it.",
)  # fmt: skip
decisions_option: Option = click.option(
    "--decisions", "project_folder", type=ProjectFolder(), metavar="PROJECT",
    help="Folder of a review: training ends with a few steps on the labels that were decided on.",
)  # fmt: skip


def trusted_sentences(
    trusted_file: Path | None, project_folder: Path | None, corpus: Corpus, options: ReadOptions
) -> list[Sentence]:
    """The sentences of a file, and those of ``corpus`` that a review decided on."""
    found = [] if trusted_file is None else list(read_corpus(trusted_file, options).sentences)
    if project_folder is not None:
        decided = decided_sentences(project_folder, corpus)
        if not decided:
            raise DataError(f"{project_folder}: nothing was decided in this review; leave --decisions out")
        found += decided
    if found:
        note(f"training ends with {counted(len(found), 'trusted sentence')}")
    return found


def read_training_data(path: str | Path, options: ReadOptions) -> Corpus:
    """The corpus in a file; doubts go to standard error, because a tagger would learn the wrong columns silently."""
    corpus = read_corpus(path, options)
    for doubt in corpus.doubts:
        note(f"{path}: {doubt}")
    return corpus
