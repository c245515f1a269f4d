"""Questions about predictions: the sentence, its features, and the labels that are asked about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError
from tagtrace.data import LabelSet, Sentence, segments
from tagtrace.index import Index
from tagtrace.influence import Query
from tagtrace.influence.relabellings import spell
from tagtrace.tagger import Head, Tagger, crf, load_tagger

Origin = Literal["dev", "train"]


@dataclass(frozen=True)
class Asked:
    """A sentence (or document) whose prediction is asked about."""

    sentence: Sentence
    features: Tensor
    """(T, D) float64"""
    predicted: tuple[str, ...]
    origin: Origin


def tagger_of(index: Index, folder: Path | None = None) -> Tagger:
    """The tagger an index was built with, where the index says it is or in ``folder``, with the index's head."""
    tagger = load_tagger(folder or _tagger_path(index))
    index.check_tagger(tagger)
    tagger.head = index.head
    return tagger


def _tagger_path(index: Index) -> Path:
    saved = index.manifest.tagger
    if not saved["path"]:
        raise OptionError(f"{index.folder}: does not say where its tagger is; give it with --tagger")
    places = [index.folder / saved["from_index"]] if saved.get("from_index") else []
    for place in (*places, Path(saved["path"])):
        if place.exists():
            return place
    raise OptionError(f"{index.folder}: its tagger was at {saved['path']} and is not there; give it with --tagger")


@torch.no_grad()
def likeliest(head: Head, labels: LabelSet, features: Tensor, lengths: Tensor) -> list[tuple[str, ...]]:
    """The likeliest well-formed labels of each chain, from features (N, D)."""
    scores = head(features.to(head.weight), lengths, constrained=True)
    return [labels.decode(path) for path in crf.viterbi(scores)[0]]


def mispredicted(gold: Sequence[str], predicted: Sequence[str], scheme: str) -> list[tuple[int, int]]:
    """Predicted or gold segments that are not both, overlapping ones joined: (start, stop).

    >>> mispredicted(["B-X", "I-X", "O"], ["B-X", "O", "O"], "iob2")
    [(0, 2)]
    """
    wrong = set(segments(gold, scheme)) ^ set(segments(predicted, scheme))
    joined: list[tuple[int, int]] = []
    for one in sorted(wrong, key=lambda each: (each.start, each.stop)):
        if joined and one.start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], one.stop))
        else:
            joined.append((one.start, one.stop))
    return joined


def make_query(asked: Asked, labels: LabelSet, head: Head, start: int, stop: int, target: str) -> Query:
    """The query for tokens ``start:stop``; ``target`` is ``predicted``, ``gold``, a type, a label or one a token."""
    sentence = asked.sentence
    if not 0 <= start < stop <= len(sentence):
        raise OptionError(f"{start}:{stop} is no segment of {sentence.id}, which has {len(sentence)} tokens")
    if target == "gold" and not sentence.is_labelled:
        raise DataError(f"{sentence.id} has no labels, so there are no gold ones to ask about; name a label instead")
    ids = labels.encode(sentence.labels if target == "gold" else asked.predicted)
    if target not in ("gold", "predicted"):
        ids[start:stop] = _label_ids(target, stop - start, labels)
    query = Query(asked.features, torch.tensor(ids), start, stop)
    if not bool(query.loss(head).isfinite()):
        wanted = " ".join(labels.decode(ids[start:stop]))
        raise OptionError(f"target {target}: the tagger's constraints forbid {wanted} there; ask for a whole segment")
    return query


def _label_ids(given: str, length: int, labels: LabelSet) -> list[int]:
    """What a user calls the labels of ``length`` tokens."""
    if given in labels.labels:
        return labels.encode([given] * length)
    if given in labels.types:
        return spell(given, length, labels)
    try:
        ids = labels.encode(given.split(","))
    except DataError as error:
        raise OptionError(f"target: {error}") from None
    if len(ids) != length:
        raise OptionError(f"target: {len(ids)} labels for {length} tokens; give one for each, or a type")
    return ids
