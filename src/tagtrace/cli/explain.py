"""``tagtrace explain`` and ``tagtrace verify``: which training segments taught a prediction."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
import torch

from tagtrace._checks import DataError, OptionError
from tagtrace._files import file_moved_when_whole
from tagtrace.cli.explanation import Case, case_json, show_case
from tagtrace.cli.options import read_options, reading_options
from tagtrace.cli.show import counting, err
from tagtrace.data import Sentence, read_corpus, segments
from tagtrace.index import Index, open_index
from tagtrace.influence import Explainer, Filter, Kind, Query, Score
from tagtrace.influence.explain import Rung
from tagtrace.tagger import Tagger, load_tagger


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
    """As explain, and retrain the head without each segment: predicted against actual."""
    _answer(folder, "verify", values)


def _answer(folder: Path, rung: Rung, values: dict[str, Any]) -> None:
    options = read_options(values)
    index = open_index(folder)
    tagger = tagger_of(index, values["tagger_folder"])
    corpus = read_corpus(values["data_file"], options)
    cases = list(find_cases(tagger, corpus.sentences, values))
    keep = Filter(*(values[name] for name in ("only", "label", "pair", "document")))
    explainer = prepared(index, rung, values)
    answers = []
    for case in cases:
        query = make_query(tagger, case, values["target"])
        found = explainer.explain(
            query, values["score"], values["kind"], values["top"], max_length=values["max_length"], keep=keep
        )
        sides = {"supporters": found.supporters, "opposers": found.opposers}
        if rung == "refine":
            sides = {name: explainer.refine_all(query, side) for name, side in sides.items()}
        elif rung == "verify":
            sides = {name: [explainer.verify(query, one) for one in side] for name, side in sides.items()}
        explained = index.labels.decode(query.labels[query.start : query.stop].tolist())
        show_case(index, case, sides, explained)
        if found.num_candidates == 0:
            err.print("no training segment is left: ask for another --kind or filter less", highlight=False)
        answers.append(case_json(index, case, sides, explained))
    if values["json_file"]:
        with file_moved_when_whole(values["json_file"]) as stream:
            stream.write(json.dumps(answers, ensure_ascii=False, indent=1).encode())


def prepared(index: Index, rung: Rung, values: dict[str, Any]) -> Explainer:
    """An explainer whose curvature has been worked out, with progress shown."""
    with counting("working out the curvature") as progress:
        options = {name: values[name] for name in ("curvature", "damping") if name in values}
        explainer = Explainer(index, **options, num_passes=values.get("passes", 2), progress=progress)
        explainer.prepare(values.get("score", "influence"), rung)
    return explainer


def tagger_of(index: Index, folder: Path | None) -> Tagger:
    """The tagger the index was built with, with the index's head."""
    path = folder or index.manifest.tagger["path"]
    if not path:
        raise OptionError(f"{index.folder}: does not say where its tagger is; give it with --tagger")
    tagger = load_tagger(path)
    index.check_tagger(tagger)
    tagger.head = index.head
    return tagger


def find_cases(tagger: Tagger, sentences: tuple[Sentence, ...], values: dict[str, Any]) -> Iterator[Case]:
    """The segment asked for, or mispredicted segments, the first ``most`` of them."""
    chains = tagger.chains(sentences)
    if values["sentence"] is not None:
        chains = [chain for chain in chains if chain.id == values["sentence"]]
        if not chains:
            raise DataError(f"{values['data_file']}: no sentence has the id {values['sentence']!r}; see `data check`")
    elif values["segment"] is not None:
        raise OptionError("--segment needs --sentence")
    found = 0
    for chain, predicted in zip(chains, tagger.predict(chains), strict=True):
        if values["segment"] is not None:
            yield Case(chain, predicted, *_slice(values["segment"], len(chain)))
            return
        for start, stop in mispredicted_segments(chain, predicted, tagger.labels.scheme):
            if found == values["most"]:
                err.print(f"the first {found} mispredictions; more with --most", highlight=False)
                return
            found += 1
            yield Case(chain, predicted, start, stop)
    if found == 0:
        err.print("no misprediction there: name a --segment to explain a right prediction", highlight=False)


def mispredicted_segments(sentence: Sentence, predicted: tuple[str, ...], scheme: str) -> list[tuple[int, int]]:
    """Predicted or gold segments that are not both, overlapping ones joined: (start, stop)."""
    if not sentence.is_labelled:
        return []
    wrong = set(segments(sentence.labels, scheme)) ^ set(segments(predicted, scheme))
    joined: list[tuple[int, int]] = []
    for segment in sorted(wrong, key=lambda s: (s.start, s.stop)):
        if joined and segment.start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], segment.stop))
        else:
            joined.append((segment.start, segment.stop))
    return joined


def _slice(text: str, length: int) -> tuple[int, int]:
    try:
        start, stop = (int(part) for part in text.split(":"))
    except ValueError:
        raise OptionError(f"--segment {text!r}: expected START:STOP, for example 3:5") from None
    if not 0 <= start < stop <= length:
        raise OptionError(f"--segment {text}: the sentence has tokens 0 to {length - 1}")
    return start, stop


def make_query(tagger: Tagger, case: Case, target: str) -> Query:
    """The query for one case: its features, and the labels to explain."""
    features = tagger.encode([tagger.prepare(case.sentence)]).double().cpu()
    labels = list(case.sentence.labels if target == "gold" else case.predicted)
    if target == "gold" and not case.sentence.is_labelled:
        raise DataError(f"{case.sentence.path}: --target gold needs labelled data")
    if target not in ("gold", "predicted"):
        labels[case.start : case.stop] = _named(target, case.stop - case.start)
    tagger.labels.check([case.sentence.with_labels(labels)])
    ids = tagger.labels.encode(labels)
    return Query(features.detach(), torch.tensor(ids), case.start, case.stop)


def _named(label: str, length: int) -> list[str]:
    """A type (``ORG``) as B-ORG I-ORG ..., a whole label as it is."""
    if "-" in label or label == "O":
        return [label] * length
    return [f"B-{label}", *[f"I-{label}"] * (length - 1)]
