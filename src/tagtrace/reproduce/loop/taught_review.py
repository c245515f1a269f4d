"""A simulated review in which decisions teach, and what it leaves after so many decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace.data import Sentence, normalise
from tagtrace.findings.finding import Finding
from tagtrace.findings.ranking.truth import average_precision
from tagtrace.findings.teaching.asking import next_questions
from tagtrace.findings.teaching.auto import Auto, choose_auto
from tagtrace.findings.teaching.decided import Decided
from tagtrace.findings.teaching.errors_left import Draws, ErrorsLeft, errors_left, expected_wrong
from tagtrace.findings.teaching.teach import Taught, teach
from tagtrace.reproduce.loop.curves import ReviewState, SimulatedReview
from tagtrace.reproduce.loop.places import Place
from tagtrace.reproduce.loop.reviewers import Reviewer

NUM_BINS = 10
"""Of the expected calibration error."""


@dataclass(frozen=True)
class TaughtState:
    """A review after some decisions."""

    state: ReviewState
    decided: Decided
    taught: Taught
    left: ErrorsLeft
    auto: Auto

    def fixed(self) -> list[Sentence]:
        """The training sentences with the decisions, and with what is applied without asking."""
        found = list(self.state.sentences)
        for one in self.auto.findings:
            labels = found[one.sentence_number].labels
            new = (*labels[: one.start], *one.proposed, *labels[one.stop :])
            found[one.sentence_number] = found[one.sentence_number].with_labels(normalise(new, "iob2"))
        return found

    def trusted(self) -> list[Sentence]:
        """The sentences with decisions, with the labels of all other tokens hidden."""
        return self.decided.sentences(self.state.sentences, "iob2")


def taught_states(
    given: Sequence[Sentence],
    findings: Sequence[Finding],
    reviewer: Reviewer,
    counts: Sequence[int],
    *,
    batch: int = 10,
    seed: int = 0,
    openings: Mapping[int, str] | None = None,
    features: Tensor | None = None,
) -> list[TaughtState]:
    """The states after each of these numbers of decisions; what is believed is computed anew after every ``batch``."""
    review, labels, checked = SimulatedReview(given, reviewer), dict[tuple[int, int], str](), dict[int, int]()
    states, draws = list[TaughtState](), None
    for count in sorted(counts):
        while True:
            taught = teach(findings, Decided(dict(labels)), openings, features)
            expected = expected_wrong(findings, taught.wrong.apart.tolist())
            draws = draws or Draws.of([len(one) for one in given], expected, seed)
            asked = next_questions(
                taught, draws, checked, min(batch, count - review.num_decisions), review.num_decisions
            )
            if not asked:
                break
            for one in asked:
                place = one.finding or Place(one.sentence_number, 0, len(given[one.sentence_number]))
                decision = review.look(place)
                if decision is not None:
                    labels |= {
                        (decision.sentence_number, decision.start + t): label for t, label in enumerate(decision.labels)
                    }
                if one.finding is None:
                    checked[one.sentence_number] = _num_wrong(given, labels, one.sentence_number)
        num_fixed = sum(given[number].labels[t] != label for (number, t), label in labels.items())
        left = errors_left(draws, checked, expected, num_fixed)
        states.append(TaughtState(review.state(), Decided(dict(labels)), taught, left, choose_auto(taught)))
    return states


def _num_wrong(given: Sequence[Sentence], labels: Mapping[tuple[int, int], str], number: int) -> int:
    """How many given labels of a checked sentence the reviewer changed."""
    return sum(labels.get((number, t), label) != label for t, label in enumerate(given[number].labels))


def token_ap(state: TaughtState, suspicion: Tensor, starts: Tensor, wrong: Tensor) -> float:
    """AP of all tokens that are not decided: by the probability of their finding, or else by ``suspicion`` (N,).

    With p that the given labels of a finding are wrong and r that the proposed ones are right, a label that would
    change is wrong with about r + (p - r) / 2, one that would stay with (p - r) / 2.
    """
    scores, is_open = suspicion.double() - suspicion.double().max() - 1.0, torch.ones(len(wrong), dtype=torch.bool)
    for one in state.taught.findings:
        row, rest = int(starts[one.sentence_number]) + one.start, 0.5 * max(one.score - one.confidence, 0.0)
        for t, (given, proposed) in enumerate(zip(one.given, one.proposed, strict=True)):
            scores[row + t] = max(float(scores[row + t]), rest + (one.confidence if given != proposed else 0.0))
    for number, t in state.decided.labels:
        is_open[int(starts[number]) + t] = False
    return average_precision(scores[is_open], wrong[is_open])


def calibration_error(state: TaughtState, true: Sequence[Sentence]) -> float:
    """The expected calibration error of the confidence of findings that nobody has decided on."""
    open_ones = [
        one for one, is_decided in zip(state.taught.findings, state.taught.is_decided, strict=True) if not is_decided
    ]
    said = torch.tensor([one.confidence for one in open_ones], dtype=torch.float64)
    right = torch.tensor(
        [true[one.sentence_number].labels[one.start : one.stop] == one.proposed for one in open_ones]
    ).double()
    bins = (said * NUM_BINS).long().clamp(max=NUM_BINS - 1)
    gaps = [(said[bins == b] - right[bins == b]).sum().abs() for b in range(NUM_BINS)]
    return float(torch.stack(gaps).sum() / max(len(open_ones), 1))
