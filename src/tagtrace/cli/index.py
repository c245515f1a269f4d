"""``tagtrace index``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tagtrace._files import check_replaceable
from tagtrace.cli.options import device_option, overwrite_option, read_options, reading_options
from tagtrace.cli.show import counting, note, refit_line, show
from tagtrace.data import read_corpus
from tagtrace.index import IndexOptions, build_index, estimate_size
from tagtrace.index.manifest import MARKER
from tagtrace.index.options import DTYPES, megabytes
from tagtrace.tagger import load_tagger, pick_device


@click.command()
@click.argument("tagger_folder", metavar="TAGGER", type=click.Path(path_type=Path))
@click.argument("train_file", metavar="TRAIN")
@click.argument("folder", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--dtype", type=click.Choice(list(DTYPES)), default="float16", show_default=True,
              help="Number format in which features are stored.")  # fmt: skip
@click.option("--l2", type=float, default=1.0, show_default=True, help="L2 strength, relative to the sum of losses.")
@click.option("--tolerance", type=float, default=1e-6, show_default=True, help="Refit to this max |gradient|.")
@click.option("--max-steps", type=int, default=100, show_default=True, help="Maximum number of Newton steps.")
@click.option("--no-refit", is_flag=True, help="Keep TAGGER's head, although it is not optimal on these features.")
@click.option("--shard-tokens", type=int, default=65_536, show_default=True,
              help="Tokens that are encoded at once and stored in one file.")  # fmt: skip
@overwrite_option
@click.option("--restart", is_flag=True, help="Ignore what an interrupted run left in OUT.building.")
@device_option
@reading_options
def index(tagger_folder: Path, train_file: str, folder: Path, **values: Any) -> None:
    """Build the index OUT of the training data TRAIN, which the commands below use.

    It stores TAGGER's features of every training token. The head is refitted on them first, because influence is
    exact theory only at that optimum. An interrupted run resumes when the same command is given again.
    """
    reading = read_options(values)
    options = IndexOptions(
        values["dtype"], not values["no_refit"], values["l2"], values["tolerance"],
        values["max_steps"], values["shard_tokens"],
    )  # fmt: skip
    check_replaceable(folder, overwrite=values["overwrite"], marker=MARKER)
    tagger = load_tagger(tagger_folder).to(pick_device(values["device"]))
    corpus = read_corpus(train_file, reading)
    dim, num_labels = tagger.encoder.dim, len(tagger.labels)
    size = megabytes(estimate_size(corpus.num_tokens, dim, num_labels, options.dtype))
    show(f"{corpus.num_tokens:,} tokens x ({dim} features + {num_labels} errors): about {size}")
    with counting("encoding") as progress:
        built = build_index(
            tagger, corpus, folder, options, progress, refit_progress=refit_line, tagger_path=tagger_folder,
            overwrite=values["overwrite"], restart=values["restart"],
        )  # fmt: skip
    if not built.manifest.fit.refit:
        note("warning: the head was not refitted, so influence on this index is approximate")
    show(f"wrote {built}")
