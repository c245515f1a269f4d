"""``tagtrace explain``, and what it shares with ``tagtrace verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from tagtrace._files import write_json
from tagtrace.cli.options import (
    Command,
    Option,
    device_option,
    json_option,
    parse_slice,
    read_options,
    reading_options,
    tagger_option,
    together,
    unlabelled_option,
)
from tagtrace.cli.places import IndexFolder, Input
from tagtrace.cli.show import counting, note, show
from tagtrace.data import read_corpus
from tagtrace.index import open_index
from tagtrace.influence import Explainer, Filter, RetrainOptions, Score, SegmentKind, make_queries
from tagtrace.influence.curvature.choice import Curvature
from tagtrace.influence.explain import Retraining
from tagtrace.influence.explanation import Rung
from tagtrace.influence.options import check_at_least

explain_options: Option = together(
    click.argument("folder", metavar="INDEX", type=IndexFolder()),
    click.option("--data", "data_file", type=Input(), required=True, metavar="FILE",
                 help="Data with the sentence to explain."),
    click.option("--sentence", metavar="ID", help="Id of the sentence. [default: all sentences]"),
    click.option("--segment", metavar="START:STOP",
                 help="Tokens to explain, counted from 0: 3:5 means tokens 3 and 4. [default: every misprediction]"),
    tagger_option,
    click.option("--target", default="predicted", show_default=True, metavar="LABELS",
                 help="Labels to explain: predicted, gold, or labels that are named here, such as ORG or B-ORG,O."),
    click.option("--score", type=click.Choice(get_args(Score)), metavar="SCORE",
                 help="whole: influence through the encoder and the head. influence: estimated effect of removing the "
                 "label on the head alone. relative: influence, divided by the root of "
                 "the label's influence on itself. cosine: cosine of the loss gradients. neighbour, neighbour-dot: "
                 "cosine or dot product of the features, whatever the labels. neighbour-label: cosine of the features, "
                 "negative where the labels differ. [default: whole if INDEX has it, otherwise influence]"),
    click.option("--kind", type=click.Choice(get_args(SegmentKind)), default="token", show_default=True,
                 help="Training segments to score. entity: labelled entities. segment: all runs of up to --max-length "
                 "tokens."),
    click.option("--max-length", type=int, default=3, show_default=True,
                 help="With --kind segment: maximum number of tokens."),
    click.option("--only", type=click.Choice(["same", "other"]),
                 help="Show only training segments that have the explained label, or only those that do not."),
    click.option("--label", metavar="LABEL",
                 help="Show only training segments with this type or label, such as LOC, B-LOC or O."),
    click.option("--pair", metavar="GIVEN:LIKELY",
                 help="Show only training segments that are labelled GIVEN but that the tagger finds more likely to be "
                 "LIKELY. LOC:ORG: LOC that could be ORG."),
    click.option("--document", metavar="ID", help="Show only training segments of this document."),
    click.option("--curvature", type=click.Choice(get_args(Curvature)), default="auto", show_default=True,
                 help="Curvature for the scores influence and relative. dense: exact Hessian, inverted once. cg: exact "
                 "Hessian, solved by conjugate gradients. kronecker: fast approximation. identity: none. auto: dense "
                 "for small heads, cg for large ones."),
    click.option("--damping", type=float, default=0.0, show_default=True,
                 help="Number that is added to the diagonal of the curvature."),
    click.option("--top", type=int, default=5, show_default=True,
                 help="Maximum number of supporters and of opposers."),
    click.option("--most", type=int, default=5, show_default=True,
                 help="Without --segment: maximum number of mispredictions to explain."),
    device_option,
    json_option,
    unlabelled_option,
    reading_options,
)  # fmt: skip


@click.command(cls=Command)
@explain_options
@click.option(
    "--refine", is_flag=True, help="Also estimate closely how the prediction changes without each segment shown."
)
@click.option("--passes", type=int, default=3, show_default=True,
              help="With --refine: at most this many passes over the training data. 0 is fastest.")  # fmt: skip
def explain(folder: Path, refine: bool, **values: Any) -> None:
    """Show the training segments whose labels support or oppose a prediction.

    Supporters have a positive score: without their labels, the explained labels would be less likely. Opposers have a
    negative one. INDEX is a folder that `tagtrace index` wrote.
    """
    answer(folder, "refine" if refine else "screen", values)


def answer(
    folder: Path,
    rung: Rung,
    values: dict[str, Any],
    retrain: RetrainOptions | None = None,
    retraining: Retraining | None = None,
) -> None:
    """Explain predictions on a rung, and print and write the answers."""
    options = read_options(values)
    check_at_least(1, most=values["most"])
    index = open_index(folder, verify=True, tagger=values["tagger_folder"])
    corpus = read_corpus(values["data_file"], options, require_labels=False)
    queries = make_queries(
        index.tagger(), corpus, values["sentence"], parse_slice(values["segment"]),
        values["target"], values["most"] + 1,
    )  # fmt: skip
    has_more, queries = len(queries) > values["most"], queries[: values["most"]]
    if not queries:
        note("no misprediction was found; name a --sentence and a --segment to explain a correct prediction")
    elif has_more:
        note(f"there are more mispredictions than the {len(queries)} explained; --most sets how many")
    where = Filter(*(values[name] for name in ("only", "label", "pair", "document")))
    with counting("computing the curvature") as progress:
        passes = values.get("passes", 3)
        explainer = Explainer(index, values["curvature"], values["damping"], passes, progress, device=values["device"])
        explainer.prepare(values["score"], rung)
    answers: list[dict[str, Any]] = []
    try:
        for found in explainer.explain_all(
            queries, values["score"], values["kind"], values["top"], rung=rung, max_length=values["max_length"],
            where=where, retrain=retrain, progress=retraining,
        ):  # fmt: skip
            show(found)
            answers.append(found.to_json())
    finally:  # after an error too: write the answers that are complete
        if values["json_file"] and (answers or not queries):
            write_json(values["json_file"], answers)
