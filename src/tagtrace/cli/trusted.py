"""Labels that are known to be right, on which ``train`` and ``gain`` end the training."""

from __future__ import annotations

from pathlib import Path

import click

from tagtrace.cli.options import Option
from tagtrace.data import Corpus, ReadOptions, Sentence, read_corpus
from tagtrace.review import decided_sentences

trusted_option: Option = click.option(
    "--trusted", "trusted_file", type=click.Path(path_type=Path), metavar="FILE",
    help="Data whose labels are right: training ends with a few steps on it.",
)  # fmt: skip
decisions_option: Option = click.option(
    "--decisions", "project_folder", type=click.Path(path_type=Path), metavar="PROJECT",
    help="Folder of a review: training ends with a few steps on the labels that were decided on.",
)  # fmt: skip


def trusted_sentences(
    trusted_file: Path | None, project_folder: Path | None, corpus: Corpus, options: ReadOptions
) -> list[Sentence]:
    """The sentences of a file, and those of ``corpus`` that a review decided on."""
    found = [] if trusted_file is None else list(read_corpus(trusted_file, options).sentences)
    return found + ([] if project_folder is None else decided_sentences(project_folder, corpus))
