"""``tagtrace explain``, and what it shares with ``tagtrace verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from tagtrace._files import write_json
from tagtrace.cli.options import (
    json_option,
    parse_slice,
    read_options,
    reading_options,
    tagger_option,
    together,
    unlabelled_option,
)
from tagtrace.cli.show import counting, note, show
from tagtrace.data import read_corpus
from tagtrace.index import open_index
from tagtrace.influence import Explainer, Filter, Score, SegmentKind, make_queries
from tagtrace.influence.curvature.choice import Curvature
from tagtrace.influence.explanation import Rung

explain_options = together(
    click.argument("folder", metavar="INDEX", type=click.Path(path_type=Path)),
    click.option("--data", "data_file", required=True, metavar="FILE", help="Data with the prediction to explain."),
    click.option("--sentence", help="Id of the sentence. [default: all sentences]"),
    click.option("--segment", metavar="START:STOP",
                 help="Tokens of the sentence, as a Python slice: 3:5 is tokens 3 and 4. [default: mispredictions]"),
    tagger_option,
    click.option("--target", default="predicted", show_default=True,
                 help="Explain the predicted labels, the gold ones, or a label named here."),
    click.option("--score", type=click.Choice(get_args(Score)), default="influence", show_default=True,
                 help="influence: weighted by curvature; relative: influence divided by the segment's own weight; "
                 "cosine: of gradients; neighbour, neighbour-dot: cosine or dot product of features; "
                 "neighbour-label: cosine, negative where the label differs."),
    click.option("--kind", type=click.Choice(get_args(SegmentKind)), default="token", show_default=True,
                 help="Training segments to score: tokens, labelled entities, all segments of up to --max-length "
                 "tokens, sentences or documents."),
    click.option("--max-length", type=int, default=3, show_default=True,
                 help="Maximum length of training segments with --kind segment."),
    click.option("--only", type=click.Choice(["same", "other"]),
                 help="Only training segments with the explained label, or only those without."),
    click.option("--label", metavar="TYPE", help="Only training segments with this label: LOC, B-LOC or O."),
    click.option("--pair", metavar="GIVEN:LIKELY",
                 help="Only training segments labelled GIVEN where the model finds LIKELY more probable: LOC:ORG."),
    click.option("--document", metavar="ID", help="Only training segments of this document."),
    click.option("--curvature", type=click.Choice(get_args(Curvature)), default="auto", show_default=True,
                 help="auto: the exact Hessian, dense for small heads, by conjugate gradients for large ones."),
    click.option("--damping", type=float, default=0.0, show_default=True,
                 help="Added to the diagonal of the curvature."),
    click.option("--top", type=int, default=5, show_default=True,
                 help="Maximum number of supporters and of opposers."),
    click.option("--most", type=int, default=5, show_default=True, help="Maximum number of mispredictions."),
    json_option,
    unlabelled_option,
    reading_options,
)  # fmt: skip


@click.command()
@explain_options
@click.option("--refine", is_flag=True, help="Also estimate what happens without each segment's labels.")
@click.option("--passes", type=int, default=2, show_default=True,
              help="Passes over the training data for each refined segment; 0 is fast.")  # fmt: skip
def explain(folder: Path, refine: bool, **values: Any) -> None:
    """Show the training segments that support and oppose a prediction.

    A positive score is a supporter: without its label, the explained label would be less likely.
    """
    answer(folder, "refine" if refine else "screen", values)


def answer(folder: Path, rung: Rung, values: dict[str, Any]) -> None:
    """Explain predictions on a rung, and print and write the answers."""
    options = read_options(values)
    index = open_index(folder, verify=True)
    corpus = read_corpus(values["data_file"], options, require_labels=False)
    queries = make_queries(
        index.tagger(values["tagger_folder"]), corpus, values["sentence"], parse_slice(values["segment"]),
        values["target"], values["most"],
    )  # fmt: skip
    if not queries:
        note("no misprediction was found; name a --segment to explain a correct prediction")
    elif values["segment"] is None and len(queries) == values["most"]:
        note(f"the first {len(queries)} mispredictions are explained (see --most)")
    where = Filter(*(values[name] for name in ("only", "label", "pair", "document")))
    with counting("computing the curvature") as progress:
        passes = values.get("passes", 2)
        explainer = Explainer(index, values["curvature"], values["damping"], passes, progress)
        explainer.prepare(values["score"], rung)
    answers: list[dict[str, Any]] = []
    try:
        for query in queries:
            found = explainer.explain(
                query, values["score"], values["kind"], values["top"], rung=rung, max_length=values["max_length"],
                where=where,
            )  # fmt: skip
            show(found)
            answers.append(found.to_json())
    finally:  # after an error, what was finished
        if values["json_file"] and (answers or not queries):
            write_json(values["json_file"], answers)
