"""Questions about predictions: the sentence, its features, and the labels that are asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError
from tagtrace.data import LabelSet, Sentence
from tagtrace.influence import Query
from tagtrace.influence.edits.edit_pool import label_ids
from tagtrace.tagger import Head, crf

Origin = Literal["dev", "train"]


@dataclass(frozen=True)
class Asked:
    """A sentence (or document) whose prediction is asked about."""

    sentence: Sentence
    features: Tensor
    """(T, D) float64"""
    predicted: tuple[str, ...]
    origin: Origin


@torch.no_grad()
def likeliest(head: Head, labels: LabelSet, features: Tensor, lengths: Tensor) -> list[tuple[str, ...]]:
    """The likeliest well-formed labels of each sentence, from features (N, D)."""
    scores = head(features.to(head.weight), lengths, constrained=True)
    return [labels.decode(path) for path in crf.viterbi(scores)[0]]


def make_query(asked: Asked, labels: LabelSet, head: Head, start: int, stop: int, target: str) -> Query:
    """The query for tokens ``start:stop``; ``target`` is ``predicted``, ``gold``, a type, a label or one a token."""
    sentence = asked.sentence
    if not 0 <= start < stop <= len(sentence):
        raise OptionError(f"{start}:{stop} is no segment of {sentence.id}, which has {len(sentence)} tokens")
    if target == "gold" and not sentence.is_labelled:
        raise DataError(f"{sentence.id} has no labels, so there are no gold ones to ask about; name a label instead")
    ids = labels.encode(sentence.labels if target == "gold" else asked.predicted)
    if target not in ("gold", "predicted"):
        ids[start:stop] = label_ids(target, stop - start, labels, "target")
    query = Query(asked.features, torch.tensor(ids), start, stop)
    if not bool(query.loss(head).isfinite()):
        wanted = " ".join(labels.decode(ids[start:stop]))
        raise OptionError(f"target {target}: the tagger's constraints forbid {wanted} there; ask for a whole segment")
    return query
