"""Proposals: the labels that suspicious tokens should have, as findings.

The proposal for a sentence is its likeliest well-formed labelling under the mean opinion, with independent tokens:

    argmax over well-formed y of  sum_t log p(y_t | x)

Where it differs from the given labels, a finding is the stretch of tokens that are connected by segments of either
labelling. If the proposal agrees with the label of a suspicious token, the token gets the likeliest labelling in which
it has another label. Findings are ranked by the largest score of their tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError
from tagtrace.data.labels import LabelSet
from tagtrace.data.schemes import differences
from tagtrace.data.sentence import Sentence
from tagtrace.findings.finding import Finding
from tagtrace.findings.ranking.suspicion import check_believed
from tagtrace.index import Index
from tagtrace.tagger import crf
from tagtrace.tagger.scores import Scores

CONTEXT = 8
"""Number of tokens shown on either side."""
FLOOR = 1e-30
"""Lower probabilities are raised to this."""


def propose(
    index: Index, believed: Tensor, scores: Tensor, most: int = 1000, evidence: dict[str, Tensor] | None = None
) -> list[Finding]:
    """The ``most`` suspicious stretches of labels by ``scores`` (N,), with proposals by ``believed`` (N, C).

    ``evidence`` has further scores of tokens, (N,); each finding records the largest of its tokens. Tokens with a score
    of minus infinity are left out.
    """
    check_believed(index, believed)
    if most < 1:
        raise OptionError(f"most {most}: must be at least 1")
    if scores.shape != (index.num_tokens,) or bool(scores.isnan().any()):
        raise DataError(f"{index.folder}: the scores are not one number for each token; compute them for this index")
    found: list[Finding] = []
    proposals: dict[int, _Proposal] = {}
    taken: set[int] = set()
    for row in map(int, scores.argsort(descending=True, stable=True).numpy()):
        if len(found) == most or scores[row] == -torch.inf:
            break
        if row in taken:
            continue
        number, place = index.locate(row)
        if number not in proposals:
            proposals[number] = _Proposal.of(index, believed, number)
        start, stop, labels = proposals[number].around(place)
        rows = range(row - place + start, row - place + stop)
        is_new = labels != proposals[number].sentence.labels and taken.isdisjoint(rows)
        if is_new:  # an alternative may overlap an earlier finding
            found.append(
                _finding(index, proposals[number], start, stop, labels, scores, evidence or {}, len(found) + 1)
            )
        taken.update(rows if is_new else (row,))
    return found


@dataclass(frozen=True)
class _Proposal:
    """A sentence with its likeliest labelling."""

    sentence_number: int
    first: int
    """The row of its first token."""
    sentence: Sentence
    labels: LabelSet
    believed: Tensor
    """The mean opinion about its tokens, (T, C)."""
    likeliest: tuple[str, ...]

    @classmethod
    def of(cls, index: Index, believed: Tensor, sentence_number: int) -> _Proposal:
        first = int(index.starts[sentence_number])
        some = believed[first : first + int(index.lengths[sentence_number])]
        return cls(
            sentence_number, first, index.sentence(sentence_number), index.labels, some, best_labels(some, index.labels)
        )

    def around(self, place: int) -> tuple[int, int, tuple[str, ...]]:
        """The tokens start:stop around a token whose labels should change, and all labels after the change."""
        for labels in self._labellings(place):
            for start, stop in differences(self.sentence.labels, labels, self.labels.scheme):
                if start <= place < stop:
                    return start, stop, labels
        return place, place + 1, self.sentence.labels  # no other label is possible: there is nothing to propose

    def _labellings(self, place: int) -> Iterator[tuple[str, ...]]:
        yield self.likeliest
        is_given = torch.zeros_like(self.believed, dtype=torch.bool)  # (T, C)
        is_given[place, self.labels.index(self.sentence.labels[place])] = True
        yield best_labels(self.believed, self.labels, is_given) or self.sentence.labels


def best_labels(believed: Tensor, labels: LabelSet, ruled_out: Tensor | None = None) -> tuple[str, ...]:
    """The likeliest well-formed labels of one sentence with probabilities (T, C) of independent tokens.

    Labels ``ruled_out`` (T, C) are not used; returns no labels if nothing well-formed is left.
    """
    emissions = believed.double().clamp(min=FLOOR).log().unsqueeze(0)  # (1, T, C)
    if ruled_out is not None:
        emissions = emissions.masked_fill(ruled_out, -torch.inf)
    forbidden, forbidden_start = (
        torch.as_tensor(mask) for mask in (labels.forbidden_transitions(), labels.forbidden_start())
    )
    transitions = emissions.new_zeros(forbidden.shape).masked_fill(forbidden, -torch.inf)
    start = emissions.new_zeros(len(labels)).masked_fill(forbidden_start, -torch.inf)
    paths, best = crf.viterbi(Scores.of(emissions, transitions, start=start))
    return labels.decode(paths[0]) if bool(best[0].isfinite()) else ()


def _finding(
    index: Index,
    proposal: _Proposal,
    start: int,
    stop: int,
    labels: tuple[str, ...],
    scores: Tensor,
    evidence: dict[str, Tensor],
    rank: int,
) -> Finding:
    sentence, rows = proposal.sentence, slice(proposal.first + start, proposal.first + stop)
    ids = torch.tensor(index.labels.encode(labels[start:stop]))
    return Finding(
        rank=rank,
        sentence=sentence.id,
        document=sentence.document,
        sentence_number=proposal.sentence_number,
        start=start,
        stop=stop,
        line=sentence.lines[start] if sentence.lines else 0,
        tokens=sentence.tokens[start:stop],
        before=sentence.tokens[max(start - CONTEXT, 0) : start],
        after=sentence.tokens[stop : stop + CONTEXT],
        given=sentence.labels[start:stop],
        proposed=labels[start:stop],
        score=float(scores[rows].max()),
        confidence=float(proposal.believed[start:stop].gather(1, ids.unsqueeze(1)).min()),
        scores={name: float(values[rows].max()) for name, values in evidence.items()},
    )
