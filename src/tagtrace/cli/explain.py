"""``tagtrace explain`` and ``tagtrace verify``: which training segments taught a prediction."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import torch
from rich.table import Table
from rich.text import Text

from tagtrace._checks import DataError, OptionError
from tagtrace._files import file_moved_when_whole
from tagtrace.cli.options import read_options, reading_options
from tagtrace.cli.show import err, out
from tagtrace.data import Sentence, read_corpus, segments
from tagtrace.index import Index, open_index
from tagtrace.influence import Explainer, Query, Ranked
from tagtrace.tagger import Tagger, load_tagger


@dataclass(frozen=True)
class Case:
    """One prediction to explain."""

    sentence: Sentence
    predicted: tuple[str, ...]
    start: int
    stop: int


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
        click.option("--score", type=click.Choice(["influence", "cosine", "neighbour"]), default="influence",
                     show_default=True, help="Curvature-weighted influence, gradient cosine, or nearest features."),
        click.option("--kind", type=click.Choice(["token", "entity", "segment", "chain"]), default="token",
                     show_default=True, help="Training segments to score."),
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
@click.option("--refine", is_flag=True, help="Also the sentence-exact change of the query's loss.")
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


def _answer(folder: Path, rung: str, values: dict[str, Any]) -> None:
    options = read_options(values)
    index = open_index(folder)
    tagger = _tagger_of(index, values["tagger_folder"])
    corpus = read_corpus(values["data_file"], options)
    cases = list(_cases(tagger, corpus.sentences, values))
    explainer = Explainer(index, values["curvature"], values["damping"])
    answers = []
    for case in cases:
        query = make_query(tagger, case, values["target"])
        found = explainer.explain(query, values["score"], values["kind"], values["top"])
        sides = {"supporters": found.supporters, "opposers": found.opposers}
        if rung != "screen":
            step = explainer.refine if rung == "refine" else explainer.verify
            sides = {name: [step(query, ranked) for ranked in side] for name, side in sides.items()}
        show_case(index, case, sides)
        answers.append(_as_json(index, case, sides))
    if values["json_file"]:
        with file_moved_when_whole(values["json_file"]) as stream:
            stream.write(json.dumps(answers, ensure_ascii=False, indent=1).encode())


def _tagger_of(index: Index, folder: Path | None) -> Tagger:
    """The tagger the index was built with, with the index's head."""
    path = folder or index.manifest.tagger["path"]
    if not path:
        raise OptionError(f"{index.folder}: does not say where its tagger is; give it with --tagger")
    tagger = load_tagger(path)
    index.check_tagger(tagger)
    tagger.head = index.head
    return tagger


def _cases(tagger: Tagger, sentences: tuple[Sentence, ...], values: dict[str, Any]) -> Iterator[Case]:
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


def show_case(index: Index, case: Case, sides: dict[str, list[Ranked]]) -> None:
    """Print the query and both sides with their context."""
    gold = f"   gold: {_labels(case.sentence.labels, case)}" if case.sentence.is_labelled else ""
    out.print()
    out.print(_context(case.sentence, case.start, case.stop))
    where = f"{case.sentence.id}  tokens {case.start}:{case.stop}"
    out.print(f"{where}   predicted: {_labels(case.predicted, case)}{gold}", highlight=False)
    for name, ranked in sides.items():
        out.print(_table(index, name, ranked))


MEANING = {
    "supporters": "supporters: without these labels the explained labels would be less likely",
    "opposers": "opposers: without these labels the explained labels would be more likely",
}


def _table(index: Index, name: str, ranked: list[Ranked]) -> Table:
    """One side, with the place of each training segment; the change only where it was asked for."""
    has_change = any(one.change is not None for one in ranked)
    columns = ["score", *(["change of loss"] if has_change else []), "label", "where", "training sentence"]
    table = Table(*columns, title=MEANING[name], title_justify="left", expand=True)
    for one in ranked:
        sentence = index.sentence(one.chain)
        change = [] if not has_change else ["" if one.change is None else f"{one.change:+.4f} ({one.rung})"]
        label = " ".join(sentence.labels[one.start : one.stop])
        where = f"{sentence.id} {one.start}:{one.stop}"
        table.add_row(f"{one.score:+.4g}", *change, label, where, _context(sentence, one.start, one.stop))
    return table


def _labels(labels: tuple[str, ...], case: Case) -> str:
    return " ".join(labels[case.start : case.stop])


def _context(sentence: Sentence, start: int, stop: int, around: int = 8) -> Text:
    """The segment, marked, with a few tokens around it."""
    text = Text("... " if start > around else "")
    for t in range(max(start - around, 0), min(stop + around, len(sentence))):
        is_inside = start <= t < stop
        text.append(f"[{sentence.tokens[t]}]" if is_inside else sentence.tokens[t], "bold reverse" if is_inside else "")
        text.append(" ")
    if stop + around < len(sentence):
        text.append("...")
    return text


def _as_json(index: Index, case: Case, sides: dict[str, list[Ranked]]) -> dict[str, Any]:
    def segment(ranked: Ranked) -> dict[str, Any]:
        sentence = index.sentence(ranked.chain)
        inside = slice(ranked.start, ranked.stop)
        return {
            **asdict(ranked),
            "id": sentence.id,
            "document": sentence.document,
            "line": sentence.lines[ranked.start] if len(sentence.lines) else None,
            "tokens": list(sentence.tokens[inside]),
            "labels": list(sentence.labels[inside]),
        }

    inside = slice(case.start, case.stop)
    return {
        "sentence": case.sentence.id,
        "start": case.start,
        "stop": case.stop,
        "tokens": list(case.sentence.tokens[inside]),
        "predicted": list(case.predicted[inside]),
        "gold": list(case.sentence.labels[inside]) if case.sentence.is_labelled else None,
        **{name: [segment(one) for one in ranked] for name, ranked in sides.items()},
    }
