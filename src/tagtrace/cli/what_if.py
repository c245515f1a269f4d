"""``tagtrace what-if`` and ``tagtrace flip``: a prediction after other training labels, and which labels to change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from tagtrace._checks import DataError, OptionError, at
from tagtrace._files import file_moved_when_whole
from tagtrace.cli.explain import prepared
from tagtrace.cli.explanation import Case, context, show_case
from tagtrace.cli.options import reading_options
from tagtrace.cli.question import find_cases, make_query, open_question, unlabelled_option
from tagtrace.cli.show import err, out
from tagtrace.data import violations
from tagtrace.index import Index
from tagtrace.influence import Edit, Effect, Explainer, Query
from tagtrace.influence.edits.edit_pool import label_ids
from tagtrace.influence.edits.flip import Flip
from tagtrace.influence.edits.flip import flip as find_flip
from tagtrace.influence.edits.what_if import what_if as ask_what_if

NUM_SHOWN = 20
"""Edits that are printed; all are in the JSON."""
MIN_SHOWN = 0.005
"""Labels less likely than this before and after are not printed."""
COLUMNS = {"refine": "predicted after", "verify": "after retraining"}


def _query_options(command: Any) -> Any:
    options = [
        click.argument("folder", metavar="INDEX", type=click.Path(path_type=Path)),
        click.option("--data", "data_file", required=True, metavar="FILE", help="Data with the prediction."),
        click.option("--sentence", required=True, help="Id of the sentence."),
        click.option("--segment", required=True, metavar="START:STOP",
                     help="Tokens of it, as a Python slice: 3:5 is tokens 3 and 4."),
        click.option("--tagger", "tagger_folder", type=click.Path(path_type=Path),
                     help="The index's tagger. [default: where it was when the index was built]"),
        click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write the answer here."),
        unlabelled_option,
        reading_options,
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.command("what-if")
@_query_options
@click.option("--target", default="predicted", show_default=True,
              help="Follow the predicted labels, the gold ones, or a label named here.")  # fmt: skip
@click.option("--remove", "removed", multiple=True, metavar="ID:START:STOP",
              help="Take away the labels of these tokens of a training sentence. May be repeated.")  # fmt: skip
@click.option("--relabel", "relabelled", multiple=True, metavar="ID:START:STOP=LABEL",
              help="Give them others: a type (ORG is B-ORG I-ORG ...), or labels separated by commas. "
              "May be repeated.")  # fmt: skip
@click.option("--from", "edits_file", type=click.Path(path_type=Path), metavar="FILE",
              help='More edits, as JSON lines: {"id": ..., "start": 2, "stop": 4, "labels": [...]}.')  # fmt: skip
@click.option("--verify", is_flag=True, help="Also retrain the head with the edits made.")
def what_if(folder: Path, **values: Any) -> None:
    """Show a prediction as it would be if training labels were taken away or changed, all of them together."""
    index, case, query, explainer = _ask(folder, values, values["target"])
    edits = list(_edits(index, values))
    if not edits:
        raise OptionError("nothing to edit: give --remove, --relabel or --from")
    found = ask_what_if(explainer, query, edits, values["verify"])
    show_case(index, case, {})
    if "refine" not in found.effects:
        err.print("the edits touch too many sentences to predict their effect: the head was retrained")
    _show_edits(index, edits, "edits, made together")
    out.print(_probabilities(index, case, {COLUMNS[rung]: effect for rung, effect in found.effects.items()}))
    for rung, effect in found.effects.items():
        out.print(f"loss of {_explained(index, query)}: {effect.before:.4f}, {COLUMNS[rung]} {effect.after:.4f}")
    effects = {rung: _effect_json(index, effect) for rung, effect in found.effects.items()}
    _write(values["json_file"], index, case, edits, {"explained": _explained(index, query), "effects": effects})


@click.command()
@_query_options
@click.option("--edit", type=click.Choice(["remove", "relabel"]), default="remove", show_default=True,
              help="Take training labels away, or change them into the labels they compete with.")  # fmt: skip
@click.option("--kind", type=click.Choice(["token", "entity", "sentence"]), default="token", show_default=True,
              help="What is taken away at once; of no account for relabel.")  # fmt: skip
@click.option("--most", type=int, default=100, show_default=True, help="Training labels to edit at most.")
@click.option("--to", metavar="LABEL", help="What the prediction should become. [default: anything else]")
@click.option("--max-retrainings", type=int, default=100, show_default=True,
              help="How often the head may be retrained.")  # fmt: skip
def flip(folder: Path, **values: Any) -> None:
    """Find a small set of training labels whose edit changes a prediction, checked by retraining."""
    index, case, query, explainer = _ask(folder, values, "predicted")
    to = None if values["to"] is None else label_ids(values["to"], query.stop - query.start, index.labels, "--to")

    def line(size: int, margin: float, number: int) -> None:
        err.print(f"retraining {number:>3}  {_count(size, 'label')}  margin {margin:+.4f}", highlight=False)

    found = find_flip(
        explainer, query, values["edit"], values["kind"], values["most"], to, values["max_retrainings"], line
    )
    show_case(index, case, {})
    before, after = (" ".join(index.labels.decode(ids)) for ids in (found.labels_before, found.labels_after))
    out.print(_verdict(found, before, after), highlight=False)
    _show_edits(index, found.edits, f"training labels to {values['edit']}, the strongest first")
    out.print(_probabilities(index, case, {COLUMNS["verify"]: found.effect}))
    out.print("probabilities are of single labels, the prediction is the best labelling of all tokens: they may differ")
    _write(values["json_file"], index, case, found.edits, {
        "found": found.found, "is_minimal": found.is_minimal, "num_retrainings": found.num_retrainings,
        "labels_before": before.split(), "labels_after": after.split(),
        "margin_before": found.margin_before, "margin_after": found.margin_after,
        "effects": {"verify": _effect_json(index, found.effect)},
    })  # fmt: skip


def _verdict(found: Flip, before: str, after: str) -> str:
    size, times = _count(len(found.edits), "label"), _count(found.num_retrainings, "retraining")
    if not found.found:
        return (
            f"not found: editing {size}, the most that was tried, leaves the prediction at {after} "
            f"(margin {found.margin_before:.3f} -> {found.margin_after:.3f}; {times})"
        )
    minimal = "none can be left out" if found.is_minimal else "not checked whether each is needed"
    return f"editing {size} turns the best labelling from {before} into {after}; {minimal} ({times})"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _ask(folder: Path, values: dict[str, Any], target: str) -> tuple[Index, Case, Query, Explainer]:
    """What both commands need."""
    index, tagger, corpus = open_question(folder, values)
    (case,) = find_cases(tagger, corpus.sentences, values)
    return index, case, make_query(tagger, case, target), prepared(index, "refine", values)


def _edits(index: Index, values: dict[str, Any]) -> Iterator[Edit]:
    """The edits of all three options."""
    asked: list[tuple[str, str, int, int, str | list[str] | None]] = []
    for text in values["removed"]:
        asked.append((f"--remove {text}", *_place(text, "--remove", "ID:START:STOP"), None))
    for text in values["relabelled"]:
        place, equals, label = text.rpartition("=")
        if not equals or not label:
            raise OptionError(f"--relabel {text!r}: expected ID:START:STOP=LABEL, for example train-3:7:2:4=ORG")
        asked.append((f"--relabel {text}", *_place(place, "--relabel", "ID:START:STOP=LABEL"), label))
    if values["edits_file"] is not None:
        asked += _read_edits(values["edits_file"])
    sentences = _numbers_of(index, {id_ for _, id_, *_ in asked})
    for where, id_, start, stop, labels in asked:
        if id_ not in sentences:
            raise DataError(f"{where}: no training sentence has the id {id_!r}")
        if not 0 <= start < stop <= int(index.lengths[sentences[id_]]):
            last = int(index.lengths[sentences[id_]]) - 1
            raise OptionError(f"{where}: {start}:{stop} is no segment of it; the sentence has tokens 0 to {last}")
        ids = None if labels is None else tuple(label_ids(labels, stop - start, index.labels, where))
        yield Edit(sentences[id_], start, stop, ids)


def _place(text: str, option: str, expected: str) -> tuple[str, int, int]:
    """ID:START:STOP, or ID START:STOP as tables show it; ids may hold colons."""
    found = re.fullmatch(r"(.+)[ :](\d+):(\d+)", text)
    if found is None:
        raise OptionError(f"{option} {text!r}: expected {expected}, for example train-3:7:2:4")
    return found[1], int(found[2]), int(found[3])


def _read_edits(path: Path) -> Iterator[tuple[str, str, int, int, str | list[str] | None]]:
    """The edits of a file of JSON lines."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            edit = json.loads(line)
            start, stop, labels = edit["start"], edit["stop"], edit.get("labels")
            if type(start) is not int or type(stop) is not int or not _is_none_or_names(labels):
                raise ValueError
            yield at(path, number), str(edit["id"]), start, stop, labels
        except (ValueError, TypeError, KeyError, AttributeError):
            raise DataError(
                f'{at(path, number)}: expected {{"id": ..., "start": 2, "stop": 4, "labels": [...] or null}}'
            ) from None


def _is_none_or_names(labels: object) -> bool:
    return labels is None or (isinstance(labels, list) and all(isinstance(label, str) for label in labels))


def _numbers_of(index: Index, wanted: set[str]) -> dict[str, int]:
    """The training sentence of each id that is asked for."""
    found: dict[str, int] = {}
    for number, id_ in enumerate(index.ids()):
        if id_ in found:
            raise DataError(f"{index.folder}: several training sentences have the id {id_!r}; mend the data")
        if id_ in wanted:
            found[id_] = number
    return found


def _show_edits(index: Index, edits: Iterable[Edit], title: str) -> None:
    edits = list(edits)
    table = Table("given", "new", "where", "training sentence", title=title, title_justify="left", expand=True)
    for edit in edits[:NUM_SHOWN]:
        sentence = index.sentence(edit.sentence_number)
        inside = slice(edit.start, edit.stop)
        new = "(removed)" if edit.labels is None else " ".join(index.labels.decode(edit.labels))
        where = f"{sentence.id} {edit.start}:{edit.stop}"
        table.add_row(" ".join(sentence.labels[inside]), new, where, context(sentence, edit.start, edit.stop))
        if edit.labels is not None:
            changed = (*sentence.labels[: edit.start], *index.labels.decode(edit.labels), *sentence.labels[edit.stop :])
            for _, problem in violations(changed, index.labels.scheme)[:1]:
                err.print(f"note: {where}: once edited, {problem}", highlight=False)
    out.print(table)
    if len(edits) > NUM_SHOWN:
        out.print(f"and {len(edits) - NUM_SHOWN} more; all of them with --json", highlight=False)


def _probabilities(index: Index, case: Case, effects: dict[str, Effect]) -> Table:
    """The query's label probabilities before and after, given the labels around the segment."""
    table = Table("token", "label", title="label probabilities of the query", title_justify="left")
    for name in ("before", *effects):
        table.add_column(name, justify="right")
    (first, *_) = effects.values()
    for t, token in enumerate(case.sentence.tokens[case.start : case.stop]):
        columns = [first.probabilities_before[t], *(effect.probabilities_after[t] for effect in effects.values())]
        for c in columns[0].argsort(descending=True).tolist():
            if max(float(column[c]) for column in columns) >= MIN_SHOWN:
                table.add_row(token, index.labels.labels[c], *(f"{float(column[c]):.4f}" for column in columns))
        table.add_section()
    return table


def _explained(index: Index, query: Query) -> str:
    return " ".join(index.labels.decode(query.labels[query.start : query.stop].tolist()))


def _effect_json(index: Index, effect: Effect) -> dict[str, Any]:
    tables = {"probabilities_before": effect.probabilities_before, "probabilities_after": effect.probabilities_after}
    named = {
        name: [dict(zip(index.labels.labels, row, strict=True)) for row in table.tolist()]
        for name, table in tables.items()
    }
    return {"loss_before": effect.before, "loss_after": effect.after, "change": effect.change, **named}


def _write(path: Path | None, index: Index, case: Case, edits: Iterable[Edit], answer: dict[str, Any]) -> None:
    """The answer as JSON; its edits can be given back with --from, one a line."""
    if path is None:
        return
    inside = slice(case.start, case.stop)
    whole = {
        "sentence": case.sentence.id, "start": case.start, "stop": case.stop,
        "tokens": list(case.sentence.tokens[inside]), "predicted": list(case.predicted[inside]),
        "gold": list(case.sentence.labels[inside]) if case.sentence.is_labelled else None,
        **answer,
        "edits": [_edit_json(index, edit) for edit in edits],
    }  # fmt: skip
    with file_moved_when_whole(path) as stream:
        stream.write(json.dumps(whole, ensure_ascii=False, indent=1).encode())


def _edit_json(index: Index, edit: Edit) -> dict[str, Any]:
    sentence = index.sentence(edit.sentence_number)
    return {
        "id": sentence.id, "start": edit.start, "stop": edit.stop,
        "labels": None if edit.labels is None else list(index.labels.decode(edit.labels)),
        "given": list(sentence.labels[edit.start : edit.stop]),
        "tokens": list(sentence.tokens[edit.start : edit.stop]),
        "line": sentence.lines[edit.start] if sentence.lines else None,
    }  # fmt: skip
