"""``tagtrace explain`` and ``tagtrace verify``: which training segments taught a prediction."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path
from typing import Any, get_args

import click

from tagtrace._checks import OptionError, TrainingError
from tagtrace._files import file_moved_when_whole
from tagtrace.cli.explanation import Retrained, Sides, case_json, place, show_case
from tagtrace.cli.options import reading_options
from tagtrace.cli.question import find_cases, make_query, open_question, unlabelled_option
from tagtrace.cli.show import counting, err
from tagtrace.index import Index
from tagtrace.influence import Explainer, Explanation, Filter, Kind, Query, Ranked, Score
from tagtrace.influence.explain import Rung


def _explain_options(command: Any) -> Any:
    options = [
        click.argument("folder", metavar="INDEX", type=click.Path(path_type=Path)),
        click.option("--data", "data_file", required=True, metavar="FILE", help="Data with the prediction to explain."),
        click.option("--sentence", help="Id of the sentence. [default: every misprediction]"),
        click.option("--segment", metavar="START:STOP", help="Tokens of it, as a Python slice: 3:5 is tokens 3 and 4."),
        click.option("--tagger", "tagger_folder", type=click.Path(path_type=Path),
                     help="The index's tagger. [default: where it was when the index was built]"),
        click.option("--target", default="predicted", show_default=True,
                     help="Explain the predicted labels, the gold ones, or a label named here."),
        click.option("--score", type=click.Choice(get_args(Score)), default="influence", show_default=True,
                     help="influence: weighted by curvature; relative: that over the segment's own weight; cosine of "
                     "gradients; neighbour: cosine of features, their dot product, or with its sign turned where the "
                     "label is another."),
        click.option("--kind", type=click.Choice(get_args(Kind)), default="token", show_default=True,
                     help="Training segments to score: tokens, labelled entities, all segments of up to --max-length "
                     "tokens, sentences or documents."),
        click.option("--max-length", type=int, default=3, show_default=True,
                     help="Tokens of the longest training segments, for --kind segment."),
        click.option("--only", type=click.Choice(["same", "other"]),
                     help="Only training segments with the explained label, or with any other."),
        click.option("--label", metavar="TYPE", help="Only training segments labelled so: LOC, or B-LOC, or O."),
        click.option("--pair", metavar="GIVEN:LIKELY",
                     help="Only training segments labelled GIVEN where the model finds LIKELY likelier: LOC:ORG."),
        click.option("--document", metavar="ID", help="Only training segments of this document."),
        click.option("--curvature", type=click.Choice(["auto", "identity", "kronecker", "dense", "cg"]),
                     default="auto", show_default=True,
                     help="auto: the exact Hessian, dense for small heads, by conjugate gradients for large ones."),
        click.option("--damping", type=float, default=0.0, show_default=True, help="Added to the diagonal."),
        click.option("--top", type=int, default=5, show_default=True, help="Supporters and opposers to show."),
        click.option("--most", type=int, default=5, show_default=True, help="Mispredictions to explain at most."),
        click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write the answer here."),
        unlabelled_option,
        reading_options,
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@_explain_options
@click.option("--refine", is_flag=True, help="Also what happens without each segment's labels, nearly as retrained.")
@click.option("--passes", type=int, default=2, show_default=True,
              help="Passes over the training data for each segment that is refined; 0 is quick.")  # fmt: skip
def explain(folder: Path, refine: bool, **values: Any) -> None:
    """Show the training segments that support and oppose a prediction.

    Positive: a supporter; without its label the explained label would be less likely.
    """
    _answer(folder, "refine" if refine else "screen", values)


@click.command()
@_explain_options
def verify(folder: Path, **values: Any) -> None:
    """As explain, and retrain the head without each segment: predicted against actual change."""
    _answer(folder, "verify", values)


def _answer(folder: Path, rung: Rung, values: dict[str, Any]) -> None:
    _check_numbers(values)
    index, tagger, corpus = open_question(folder, values)
    cases = find_cases(tagger, corpus.sentences, values)
    questions = [(case, make_query(tagger, case, values["target"])) for case in cases]
    keep = Filter(*(values[name] for name in ("only", "label", "pair", "document")))
    explainer = prepared(index, rung, values)
    answers: list[dict[str, Any]] = []
    try:
        for case, query in questions:
            found = explainer.explain(
                query, values["score"], values["kind"], values["top"], max_length=values["max_length"], keep=keep
            )
            if found.num_candidates == 0:
                err.print("no training segment is left: ask for another --kind or filter less", highlight=False)
            sides, retrained = _climb(explainer, query, found, rung)
            explained = index.labels.decode(query.labels[query.start : query.stop].tolist())
            show_case(index, case, sides, explained, values["score"], retrained)
            answers.append(case_json(index, case, sides, explained, retrained))
    finally:  # after an error, what was finished
        if values["json_file"] and (answers or not questions):
            with file_moved_when_whole(values["json_file"]) as stream:
                stream.write(json.dumps(answers, ensure_ascii=False, indent=1).encode())


def _check_numbers(values: dict[str, Any]) -> None:
    if values["most"] < 1:
        raise OptionError(f"--most {values['most']}: must be at least 1")
    if not 0.0 <= values["damping"] < inf:
        raise OptionError(f"--damping {values['damping']}: must be a number that is at least 0")


def _climb(explainer: Explainer, query: Query, found: Explanation, rung: Rung) -> tuple[Sides, Retrained]:
    """Both sides as predicted and, for ``verify``, as retrained too."""
    sides = {"supporters": found.supporters, "opposers": found.opposers}
    if rung == "screen":
        return sides, {}
    sides = {name: explainer.refine_all(query, side) for name, side in sides.items()}
    if rung == "verify":
        return sides, {name: [_verified(explainer, query, one) for one in side] for name, side in sides.items()}
    for side in sides.values():
        side[:] = [one if one.effect else _verified(explainer, query, one) or one for one in side]
    return sides, {}


def _verified(explainer: Explainer, query: Query, one: Ranked) -> Ranked | None:
    """The segment with its effect after retraining; None where the optimum was not reached."""
    try:
        return explainer.verify(query, one)
    except TrainingError as error:
        err.print(f"{place(explainer.index, one)}: not reached: {error}", soft_wrap=True)
        return None


def prepared(index: Index, rung: Rung, values: dict[str, Any]) -> Explainer:
    """An explainer whose curvature has been worked out, with progress shown."""
    with counting("working out the curvature") as progress:
        options = {name: values[name] for name in ("curvature", "damping") if name in values}
        explainer = Explainer(index, **options, num_passes=values.get("passes", 2), progress=progress)
        explainer.prepare(values.get("score", "influence"), rung)
    return explainer
