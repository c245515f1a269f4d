"""From scores of tokens to scores of labelled segments, sentences and documents."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError
from tagtrace.index import Index
from tagtrace.influence import Candidates, find_candidates
from tagtrace.tagger.rows import positions

ScoreLevel = Literal["token", "entity", "sentence", "document"]
LevelAggregate = Literal["mean", "max", "top"]
"""The mean of the tokens' scores, the largest, or the mean of the ``top_k`` largest (of all, if there are fewer)."""


@dataclass(frozen=True)
class LevelScores:
    """K tokens, labelled segments, sentences or documents of an index, in the order of the data, with their scores."""

    index: Index
    candidates: Candidates
    """Where they are: ``candidates.parts(number)`` gives (sentence, start, stop)."""
    scores: Tensor
    """(K,) float64"""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """``ID:START:STOP`` of tokens and segments, the ids of sentences, the names of documents."""
        ids = self.index.ids
        candidates = self.candidates
        if candidates.kind == "document":
            # a sentence without a document is a document of its own
            return tuple(
                [name or ids[candidates.parts(number)[0][0]] for number, name in enumerate(candidates.documents)]
            )
        if candidates.kind == "sentence":
            return tuple([ids[sentence_number] for sentence_number, _, _ in candidates.segments.tolist()])
        return tuple([f"{ids[number]}:{start}:{stop}" for number, start, stop in candidates.segments.tolist()])

    def order(self) -> Tensor:
        """Their numbers, the most suspicious first, (K,); equal scores in the order of the data."""
        return self.scores.argsort(descending=True, stable=True)

    def ranked(self, most: int | None = None) -> list[tuple[str, float]]:
        """Names and scores, the most suspicious first."""
        order = self.order()[:most]
        return list(zip([self.names[number] for number in order.tolist()], self.scores[order].tolist(), strict=True))


def at_level(
    index: Index, scores: Tensor, level: ScoreLevel, aggregate: LevelAggregate = "mean", top_k: int = 10
) -> LevelScores:
    """Aggregate scores of tokens (N,). At level ``entity``, tokens outside labelled segments are left out."""
    choices = {"level": (level, get_args(ScoreLevel)), "aggregate": (aggregate, get_args(LevelAggregate))}
    for name, (value, known) in choices.items():
        if value not in known:
            raise OptionError(f"{name} {value!r}: expected one of {', '.join(known)}")
    if top_k < 1:
        raise OptionError(f"top_k {top_k}: must be at least 1")
    if scores.shape != (index.num_tokens,):
        raise DataError(
            f"{index.folder}: has {index.num_tokens} tokens, but the scores have shape {tuple(scores.shape)}"
        )
    if bool(scores.isnan().any()):
        raise DataError(f"{index.folder}: {int(scores.isnan().sum())} of the scores are NaN; compute them again")
    candidates = find_candidates(index, level)
    if level == "token":
        return LevelScores(index, candidates, scores.double())
    tokens, owner = _members(index, candidates)
    return LevelScores(index, candidates, aggregated(scores.double()[tokens], owner, len(candidates), aggregate, top_k))


def aggregated(values: Tensor, owner: Tensor, num_groups: int, aggregate: LevelAggregate, top_k: int) -> Tensor:
    """The aggregate of the values (n,) of each group, (num_groups,); ``owner`` (n,) has the group of each value."""
    if aggregate == "max":
        return values.new_full((num_groups,), -torch.inf).scatter_reduce(0, owner, values, "amax")
    if aggregate == "top":
        order = values.argsort(descending=True, stable=True)
        order = order[owner[order].argsort(stable=True)]  # by group, largest first
        counts = owner.bincount(minlength=num_groups)
        order = order[positions(counts) < top_k]
        values, owner = values[order], owner[order]
    sums = values.new_zeros(num_groups).index_add(0, owner, values)
    return sums / owner.bincount(minlength=num_groups)


def _members(index: Index, candidates: Candidates) -> tuple[Tensor, Tensor]:
    """The tokens of all candidates, (n,), and the candidate of each, (n,)."""
    segments = candidates.segments
    numbers = torch.arange(len(segments)) if candidates.owner is None else candidates.owner
    lengths = segments[:, 2] - segments[:, 1]
    first = index.starts[segments[:, 0]] + segments[:, 1]
    tokens = torch.repeat_interleave(first, lengths) + positions(lengths)
    return tokens, torch.repeat_interleave(numbers, lengths)
