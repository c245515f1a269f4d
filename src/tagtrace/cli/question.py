"""The prediction a question is about: its sentence, found in a data file, and the labels that are asked about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import torch

from tagtrace._checks import DataError, OptionError
from tagtrace.cli.explanation import Case
from tagtrace.cli.options import read_options
from tagtrace.cli.show import err
from tagtrace.cli.tagger import read_to_label
from tagtrace.data import Corpus, Sentence, differences
from tagtrace.index import Index, open_index, tagger_of
from tagtrace.influence import Query
from tagtrace.influence.edits.edit_pool import label_ids
from tagtrace.tagger import Tagger

unlabelled_option = click.option("--unlabelled", is_flag=True, help="FILE has no labels. [default: found out]")


def open_question(folder: Path, values: dict[str, Any]) -> tuple[Index, Tagger, Corpus]:
    """The index, found undamaged; its tagger; and the data, with its labels where it has any."""
    options = read_options(values, labelled=not values["unlabelled"])
    index = open_index(folder, verify=True)
    tagger = tagger_of(index, values["tagger_folder"])
    corpus = read_to_label(values["data_file"], options)
    tagger.encoder.check_corpus(corpus)
    return index, tagger, corpus


def find_cases(tagger: Tagger, sentences: Sequence[Sentence], values: dict[str, Any]) -> Iterator[Case]:
    """The segment asked for, or mispredicted segments, the first ``most`` of them."""
    asked = _sentences_asked_for(tagger.joined(sentences), values)
    if values["segment"] is None and not any(sentence.is_labelled for sentence in asked):
        raise DataError(
            f"{values['data_file']}: no labels there, so no mispredictions; name a prediction with --sentence "
            "and --segment"
        )
    found = 0
    for sentence, predicted in zip(asked, tagger.predict(asked), strict=True):
        if values["segment"] is not None:
            yield Case(sentence, predicted, *_slice(values["segment"], len(sentence)))
            return
        for start, stop in mispredicted_segments(sentence, predicted, tagger.labels.scheme):
            if found == values["most"]:
                err.print(f"the first {found} mispredictions; more with --most", highlight=False)
                return
            found += 1
            yield Case(sentence, predicted, start, stop)
    if found == 0:
        err.print("no misprediction there: name a --segment to explain a right prediction", highlight=False)


def _sentences_asked_for(sentences: list[Sentence], values: dict[str, Any]) -> list[Sentence]:
    """The sentence with the id that ``--sentence`` names, or all."""
    id_, file = values["sentence"], values["data_file"]
    if id_ is None:
        if values["segment"] is not None:
            raise OptionError("--segment needs --sentence")
        return sentences
    found = [sentence for sentence in sentences if sentence.id == id_]
    if not found:
        raise DataError(f"{file}: no sentence has the id {id_!r}; ids there are {_some_ids(sentences)}")
    if len(found) > 1:
        raise DataError(f"{file}: several sentences have the id {id_!r}; mend the data")
    return found


def _some_ids(sentences: Sequence[Sentence]) -> str:
    ids = [repr(sentence.id) for sentence in sentences]
    return ", ".join(ids) if len(ids) < 4 else f"{ids[0]}, {ids[1]} ... {ids[-1]}"


def mispredicted_segments(sentence: Sentence, predicted: tuple[str, ...], scheme: str) -> list[tuple[int, int]]:
    """Predicted or gold segments that are not both, overlapping ones joined: (start, stop)."""
    if not sentence.is_labelled:
        return []
    return differences(sentence.labels, predicted, scheme)


def _slice(text: str, length: int) -> tuple[int, int]:
    try:
        start, stop = (int(part) for part in text.split(":"))
    except ValueError:
        raise OptionError(f"--segment {text!r}: expected START:STOP, for example 3:5") from None
    if not 0 <= start < stop <= length:
        raise OptionError(f"--segment {text}: no segment of tokens 0 to {length - 1}; STOP is the token after the last")
    return start, stop


def make_query(tagger: Tagger, case: Case, target: str) -> Query:
    """The query for one case: its features, and the labels to explain."""
    sentence = case.sentence
    features = tagger.encode([tagger.prepare(sentence.with_labels(()))]).double().cpu()
    if target == "gold":
        if not sentence.is_labelled:
            raise DataError(f"{sentence.path}: no labels there, so no --target gold; name a label instead")
        tagger.labels.check([sentence])
    ids = tagger.labels.encode(sentence.labels if target == "gold" else case.predicted)
    if target not in ("gold", "predicted"):
        ids[case.start : case.stop] = label_ids(target, case.stop - case.start, tagger.labels, "--target")
    query = Query(features.detach(), torch.tensor(ids), case.start, case.stop)
    if not bool(query.loss(tagger.head).isfinite()):
        asked = " ".join(tagger.labels.decode(ids[case.start : case.stop]))
        raise OptionError(f"--target {target}: the tagger's constraints forbid {asked} there; ask for a whole segment")
    return query
