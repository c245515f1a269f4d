"""Evidence: the trusted tokens that a finding's labels hurt.

Trusted tokens that the index's head predicts wrongly are queries. A training label whose gradient has a negative cosine
with that of the query (``trusted``, method ``cosine``) pulls the head away from the trusted label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace.data.sentence import Sentence
from tagtrace.findings.finding import Finding
from tagtrace.findings.ranking.trusted import Trusted
from tagtrace.index import Index
from tagtrace.index.shards import Shard
from tagtrace.influence import Candidates
from tagtrace.influence.scoring.norms import dense_gradients
from tagtrace.influence.scoring.token_pass import TokenPass

MAX_QUERIES = 64
"""Maximum number of queries whose gradients are in memory at once."""


@dataclass(frozen=True, slots=True)
class Hurt:
    """A trusted token that a finding's labels oppose."""

    sentence_number: int
    """The number of its sentence in the trusted data, empty sentences left out."""
    place: int
    """Its position in the sentence."""
    gold: int
    predicted: int
    cosine: float
    """The cosine of the gradients, below 0."""


@torch.no_grad()
def hurt_queries(index: Index, trusted: Trusted, findings: Sequence[Finding], most: int = 3) -> dict[int, list[Hurt]]:
    """By rank of a finding, the trusted tokens that its labels oppose most, at most ``most`` of them."""
    if not findings or not len(trusted):
        return {}
    sentences = sorted({one.sentence_number for one in findings})
    some = _gathered(index, sentences)
    first = dict(zip(sentences, (some.lengths.cumsum(0) - some.lengths).tolist(), strict=True))
    rows = torch.tensor(
        [first[one.sentence_number] + t for one in findings for t in range(one.start, one.stop)]
    )  # (n,)
    owner = torch.tensor([number for number, one in enumerate(findings) for _ in range(one.start, one.stop)])  # (n,)
    tokens = TokenPass(index.head, some)
    sizes = tokens.norms()[rows]  # (n,)
    parts: list[Tensor] = []
    for _, gradients in dense_gradients(index.head, trusted.rows, Candidates(trusted.segments), MAX_QUERIES):
        unit = gradients / gradients.norm(dim=1, keepdim=True).clamp(min=1e-300)
        products = tokens.products(unit)[:, rows].double()  # (q, n)
        products = products / sizes.clamp(min=1e-300)
        least = products.new_full((len(products), len(findings)), torch.inf)
        parts.append(least.scatter_reduce(1, owner.expand_as(products), products, "amin"))
    cosines = torch.cat(parts)  # (Q, F)
    values, places = (part[:most] for part in cosines.sort(dim=0, stable=True))  # ties in the order of the trusted data
    return {
        one.rank: [
            _hurt(trusted, int(query), float(value))
            for value, query in zip(values[:, number], places[:, number], strict=True)
            if value < 0
        ]
        for number, one in enumerate(findings)
    }


def hurt_lines(index: Index, hurt: Mapping[int, Sequence[Hurt]], trusted: Sequence[Sentence]) -> dict[int, list[str]]:
    """By rank of a finding, a line for each label of the ``trusted`` sentences that it hurts."""
    names = index.labels.labels
    return {
        rank: [
            f'hurts "{trusted[one.sentence_number].tokens[one.place]}" ({names[one.gold]}, predicted '
            f"{names[one.predicted]}) in {trusted[one.sentence_number].id}:{one.place}, cosine {one.cosine:+.2f}"
            for one in some
        ]
        for rank, some in hurt.items()
        if some
    }


def _gathered(index: Index, sentences: Sequence[int]) -> Shard:
    """Some sentences of an index as a shard of their own."""
    rows = [index.sentence_rows(number) for number in sentences]
    return Shard(
        torch.cat([one.features for one in rows]),
        torch.cat([index.errors(number) for number in sentences]),
        torch.cat([one.labels for one in rows]),
        torch.cat([one.lengths for one in rows]),
        0,
        0,
    )


def _hurt(trusted: Trusted, query: int, cosine: float) -> Hurt:
    number, place, _ = trusted.segments[query].tolist()
    token = trusted.tokens[query]
    return Hurt(number, place, int(trusted.rows.labels[token]), int(trusted.predicted[token]), cosine)
