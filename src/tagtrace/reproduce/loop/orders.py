"""Orders in which a reviewer could look at training labels: the contenders that do not learn from decisions.

``cleanlab``   tokens by cleanlab's label quality (self-confidence), out of sample
``loss``       tokens by their loss -log p(y_t | x), in sample (out of sample, this is cleanlab's order)
``sentences``  whole sentences at random
``audit``      the findings of an audit, in its order

A token stands for its labelled segment, or for itself outside segments.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError
from tagtrace.findings.judges.opinions import averaged
from tagtrace.findings.judges.probabilities import Probabilities, Sample
from tagtrace.findings.patterns.conditions import NumberedText
from tagtrace.findings.ranking.proposals import propose
from tagtrace.findings.ranking.suspicion import suspicion
from tagtrace.findings.ranking.token_scores import token_scores
from tagtrace.index import Index
from tagtrace.reproduce.loop.places import Place, places_of
from tagtrace.reproduce.shared.setting import INSTALL

Order = Callable[[Index, Sequence[Probabilities], int, int], list[Place]]
"""From an index, opinions about its labels, the maximum number of places and a seed."""


def order_places(
    name: str, index: Index, opinions: Sequence[Probabilities], most: int = 1000, seed: int = 0
) -> list[Place]:
    """At most ``most`` places of an index to look at, the first one first, by the order of this name."""
    if name not in ORDERS:
        raise OptionError(f"there is no order {name!r}; expected one of {', '.join(ORDERS)}")
    for opinion in opinions:
        opinion.check_index(index)
    return ORDERS[name](index, opinions, most, seed)


def by_cleanlab(index: Index, opinions: Sequence[Probabilities], most: int, _: int) -> list[Place]:
    opinion = _opinion(opinions, "out-of-sample")
    return _by_scores(index, -cleanlab_scores(opinion.labels, opinion.marginals, opinion.lengths), most)


def by_loss(index: Index, opinions: Sequence[Probabilities], most: int, _: int) -> list[Place]:
    return _by_scores(index, token_scores("marginal-loss", index, _opinion(opinions, "in-sample")), most)


def random_sentences(index: Index, _: Sequence[Probabilities], most: int, seed: int) -> list[Place]:
    numbers = Random(f"order {seed}").sample(range(index.num_sentences), min(most, index.num_sentences))
    return [Place(number, 0, int(index.lengths[number])) for number in numbers]


def by_audit(index: Index, opinions: Sequence[Probabilities], most: int, _: int) -> list[Place]:
    believed = averaged(opinions)
    found = propose(index, believed, suspicion(NumberedText(index), believed), most)
    return [Place(one.sentence_number, one.start, one.stop, one.proposed) for one in found]


ORDERS: dict[str, Order] = {
    "cleanlab": by_cleanlab,
    "loss": by_loss,
    "sentences": random_sentences,
    "audit": by_audit,
}


def cleanlab_scores(labels: Tensor, marginals: Tensor, lengths: Tensor, method: str = "self_confidence") -> Tensor:
    """cleanlab's quality of each given label (N,), from probabilities (N, C) of tokens in sentences of ``lengths``."""
    try:
        rank: Any = importlib.import_module("cleanlab.token_classification.rank")
    except ModuleNotFoundError:
        raise OptionError(f"this order needs cleanlab; {INSTALL}") from None
    ends = lengths.cumsum(0)[:-1].tolist()
    given = [part.tolist() for part in np.split(labels.numpy(), ends)]
    _, scores = rank.get_label_quality_scores(
        given, np.split(marginals.double().numpy(), ends), token_score_method=method
    )
    return torch.from_numpy(np.concatenate([np.asarray(part) for part in scores]))


def _by_scores(index: Index, scores: Tensor, most: int) -> list[Place]:
    sentences = [index.sentence(number) for number in range(index.num_sentences)]
    return places_of(sentences, map(int, scores.argsort(descending=True, stable=True)), most)


def _opinion(opinions: Sequence[Probabilities], sample: Sample) -> Probabilities:
    found = next((one for one in opinions if one.sample == sample), None)
    if found is None:
        raise DataError(f"there is no {sample} opinion; expected one in sample and one out of sample")
    return found
