"""``tagtrace what-if``, and what it shares with ``tagtrace flip`` and ``verify``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from tagtrace._checks import OptionError, TagtraceError
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
from tagtrace.cli.places import IndexFolder, Input, KeptFolder
from tagtrace.cli.show import counting, show
from tagtrace.data import read_corpus
from tagtrace.index import Index, open_index
from tagtrace.influence import Edit, Explainer, Query, RetrainOptions, Score, make_edit, make_queries, read_edits
from tagtrace.influence.edits.seed_effects import usual_processes
from tagtrace.influence.explain import EditRung

query_options: Option = together(
    click.argument("folder", metavar="INDEX", type=IndexFolder()),
    click.option("--data", "data_file", type=Input(), required=True, metavar="FILE", help="Data with the sentence."),
    click.option("--sentence", required=True, metavar="ID", help="Id of the sentence."),
    click.option("--segment", required=True, metavar="START:STOP",
                 help="Tokens of the sentence, counted from 0: 3:5 means tokens 3 and 4."),
    tagger_option,
    device_option,
    json_option,
    unlabelled_option,
    reading_options,
)  # fmt: skip

retrain_options: Option = together(
    click.option("--retrain", is_flag=True,
                 help="Also train the whole tagger again, encoder included, with the edited labels and without."),
    click.option("--seeds", type=int,
                 help="With --retrain: number of trainings with the edits, and without. [default: 3]"),
    click.option("--jobs", type=int,
                 help="With --retrain: trainings at a time. [default: one for each core, 4 on a GPU]"),
    click.option("--work", type=KeptFolder(), metavar="FOLDER",
                 help="With --retrain: folder for finished trainings, so that an interrupted command can resume."),
)  # fmt: skip


def read_retrain(values: dict[str, Any]) -> RetrainOptions | None:
    """How the whole tagger is trained again; None without --retrain."""
    if not values["retrain"]:
        if any(values[name] is not None for name in ("seeds", "jobs", "work")):
            raise OptionError("--seeds, --jobs and --work need --retrain")
        return None
    jobs = usual_processes(values["device"]) if values["jobs"] is None else values["jobs"]
    seeds = 3 if values["seeds"] is None else values["seeds"]
    return RetrainOptions(seeds, jobs, values["work"])


@click.command("what-if", cls=Command)
@query_options
@click.option("--target", default="predicted", show_default=True, metavar="LABELS",
              help="Labels whose loss is followed: predicted, gold, or labels named here, such as ORG.")  # fmt: skip
@click.option("--remove", "removed", multiple=True, metavar="ID:START:STOP",
              help="Remove the labels of these tokens of a training sentence. May be repeated.")  # fmt: skip
@click.option("--relabel", "relabelled", multiple=True, metavar="ID:START:STOP=LABEL",
              help="Change the labels of these tokens to a type (ORG becomes B-ORG I-ORG ...), or to labels separated "
              "by commas. May be repeated.")  # fmt: skip
@click.option("--from", "edits_file", type=Input(), metavar="FILE",
              help='More edits, as JSON lines: {"id": ..., "start": 2, "stop": 4, "labels": [...]}. Without labels, '
              "they are removed.")  # fmt: skip
@click.option(
    "--verify", is_flag=True, help="Also retrain the head with the edited labels, to know the effect on it exactly."
)
@retrain_options
def what_if(folder: Path, **values: Any) -> None:
    """Show how a prediction changes if training labels are removed or changed, all of them together.

    The effect on the head is estimated; --verify also retrains it, and --retrain trains the whole tagger again.
    ID:START:STOP are tokens of a training sentence, as explain shows them: train-3:7:2:4 means tokens 2 and 3 of the
    sentence train-3:7.
    """
    if values["verify"] and values["retrain"]:
        raise OptionError("--verify and --retrain: give one of them")
    rung: EditRung = "verify" if values["verify"] else "retrain" if values["retrain"] else "refine"
    options = read_retrain(values)
    explainer, query = prepare_question(folder, values, values["target"])
    edits = _edits(explainer.index, values)
    if not edits:
        raise OptionError("there are no edits; give --remove, --relabel or --from")
    with counting("training again") as progress:
        found = explainer.what_if(
            query, edits, rung, retrain=options, progress=lambda step: progress(step.done, step.total)
        )
    show(found)
    if values["json_file"]:
        write_json(values["json_file"], found.to_json())


def prepare_question(
    folder: Path, values: dict[str, Any], target: str, score: Score = "influence"
) -> tuple[Explainer, Query]:
    """The explainer of an index, prepared for a score, and the query that the options name."""
    options = read_options(values)
    index = open_index(folder, verify=True, tagger=values["tagger_folder"])
    corpus = read_corpus(values["data_file"], options, require_labels=False)
    segment = parse_slice(values["segment"])
    (query,) = make_queries(index.tagger(), corpus, values["sentence"], segment, target)
    with counting("computing the curvature") as progress:
        explainer = Explainer(index, progress=progress, device=values["device"])
        explainer.prepare(score, "screen" if score == "whole" else "refine")
    return explainer, query


def _edits(index: Index, values: dict[str, Any]) -> list[Edit]:
    """The edits that --remove, --relabel and --from name."""
    found = [_edit(index, text, f"--remove {text}", "ID:START:STOP") for text in values["removed"]]
    for text in values["relabelled"]:
        place, equals, label = text.rpartition("=")
        if not equals or not label:
            raise OptionError(f"--relabel {text!r}: expected ID:START:STOP=LABEL, for example train-3:7:2:4=ORG")
        found.append(_edit(index, place, f"--relabel {text}", "ID:START:STOP=LABEL", label))
    return found if values["edits_file"] is None else [*found, *read_edits(index, values["edits_file"])]


def _edit(index: Index, place: str, option: str, expected: str, labels: str | None = None) -> Edit:
    """The edit at ID:START:STOP, or ID START:STOP as tables show it; ids may contain colons."""
    found = re.fullmatch(r"(.+)[ :](\d+):(\d+)", place)
    if found is None:
        raise OptionError(f"{option}: expected {expected}, for example train-3:7:2:4")
    try:
        return make_edit(index, found[1], int(found[2]), int(found[3]), labels)
    except TagtraceError as error:
        raise OptionError(f"{option}: {error}") from None
