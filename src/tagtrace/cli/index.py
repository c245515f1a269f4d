"""``tagtrace index``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tagtrace._files import check_replaceable
from tagtrace.cli.device import device_option, pick_device
from tagtrace.cli.options import read_options, reading_options
from tagtrace.cli.show import counting, err, out, refit_line
from tagtrace.data import read_corpus
from tagtrace.index import Index, IndexOptions, build_index, estimate_size
from tagtrace.index.manifest import MARKER
from tagtrace.index.options import DTYPES
from tagtrace.tagger import load_tagger


@click.command()
@click.argument("tagger_folder", metavar="TAGGER", type=click.Path(path_type=Path))
@click.argument("train_file", metavar="TRAIN")
@click.argument("folder", metavar="OUT", type=click.Path(path_type=Path))
@click.option(
    "--dtype",
    type=click.Choice(list(DTYPES)),
    default="float16",
    show_default=True,
    help="What features are rounded to.",
)
@click.option("--l2", type=float, default=1.0, show_default=True, help="Strength against the sum of losses.")
@click.option("--tolerance", type=float, default=1e-6, show_default=True, help="Refit to this max |gradient|.")
@click.option("--max-steps", type=int, default=100, show_default=True, help="Newton steps of the refit at most.")
@click.option("--no-refit", is_flag=True, help="Keep TAGGER's head, though it is not optimal on the stored features.")
@click.option("--shard-tokens", type=int, default=65_536, show_default=True, help="Tokens in memory and in a file.")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
@click.option("--restart", is_flag=True, help="Forget what an unfinished run left in OUT.building.")
@device_option
@reading_options
def index(tagger_folder: Path, train_file: str, folder: Path, **values: Any) -> None:
    """Store what TAGGER sees in each token of TRAIN as the folder OUT, for influence queries.

    The head is refit on the stored features first: influence is exact theory only at that optimum. A run that was
    stopped goes on where it was when the same command is given again.
    """  # fmt: skip
    reading = read_options(values)
    options = IndexOptions(
        values["dtype"], not values["no_refit"], values["l2"], values["tolerance"],
        values["max_steps"], values["shard_tokens"],
    )  # fmt: skip
    check_replaceable(folder, overwrite=values["overwrite"], marker=MARKER)
    tagger = load_tagger(tagger_folder).to(pick_device(values["device"]))
    corpus = read_corpus(train_file, reading)
    dim, num_labels = tagger.encoder.dim, len(tagger.labels)
    size = estimate_size(corpus.num_tokens, dim, num_labels, options.dtype)
    out.print(f"{corpus.num_tokens:,} tokens x ({dim} features, {num_labels} errors): about {_megabytes(size)}")
    with counting("encoding") as progress:
        built = build_index(
            tagger, corpus, folder, options, progress,
            refit_progress=refit_line, tagger_path=tagger_folder,
            overwrite=values["overwrite"], restart=values["restart"],
        )  # fmt: skip
    _show(built)


def _show(built: Index) -> None:
    fit = built.manifest.fit
    if not fit.refit:
        err.print(
            f"warning: not refit, max |gradient| {fit.max_gradient:.1e}: influence on this index is approximate",
            soft_wrap=True,
        )
    per_token = built.num_bytes / built.num_tokens / 1000
    out.print(
        f"wrote {built.folder}: {_megabytes(built.num_bytes)}, {per_token:.2f} KB a token, "
        f"max |gradient| {fit.max_gradient:.1e}",
        soft_wrap=True,
    )


def _megabytes(num_bytes: int) -> str:
    """A size for people.

    >>> _megabytes(321_400_000)
    '321.4 MB'
    """
    return f"{num_bytes / 1e6:,.1f} MB"
