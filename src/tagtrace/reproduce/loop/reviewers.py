"""A simulated reviewer, who knows the true labels and now and then makes a mistake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from tagtrace._checks import DataError, OptionError
from tagtrace.data import Segment, Sentence, normalise, segments
from tagtrace.findings.finding import Finding
from tagtrace.reproduce.experiments.noise_fresh import iob2_labels
from tagtrace.reproduce.loop.places import Place, widened

USUAL_ERRORS = 0.05
"""Share of the decisions in which people err."""


@dataclass(frozen=True, slots=True)
class ReviewerDecision:
    """Labels for tokens ``start:stop`` of a sentence, which fit the labels around them."""

    sentence_number: int
    start: int
    stop: int
    labels: tuple[str, ...]
    is_right: bool
    """Whether these are the true labels."""

    def applied(self, labels: Sequence[str]) -> tuple[str, ...]:
        """The labels of the whole sentence after the decision."""
        return (*labels[: self.start], *self.labels, *labels[self.stop :])


@dataclass
class Reviewer:
    """Decides on places with the true labels, and errs in a share of the decisions.

    The labels that a decision is about are those of the place, and of every true or given segment that the place cuts.
    A mistake is one of: the given labels are taken for right, the proposal is accepted, a segment gets a random type
    (or none, if there is one type only). Where the given labels are right, taking them for right is no mistake.
    """

    true: Sequence[Sentence]
    types: Sequence[str]
    """The types that a mistake may choose from."""
    error_rate: float = 0.0
    seed: int = 0
    num_decisions: int = field(default=0, init=False)
    num_errors: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.error_rate <= 1:
            raise OptionError(f"error_rate {self.error_rate}: must be from 0 to 1")
        self._random = Random(f"reviewer {self.seed}")

    def decide(self, place: Place | Finding, given: Sequence[str]) -> ReviewerDecision:
        """The decision on a place in a sentence that has the labels ``given`` now."""
        true = self.true[place.sentence_number].labels
        if len(given) != len(true) or not 0 <= place.start < place.stop <= len(true):
            raise DataError(
                f"sentence {place.sentence_number} has {len(true)} tokens, not {len(given)} with a place "
                f"{place.start}:{place.stop}; give places and labels of the same data"
            )
        start, stop = widened(place.start, place.stop, true, given)
        right = labels = true[start:stop]
        errs = self._random.random() < self.error_rate
        if errs:
            mistakes = list(self._mistakes(place, given, start, stop))
            labels = self._random.choice([one for one in mistakes if one != right])
        self.num_decisions += 1
        self.num_errors += errs
        return ReviewerDecision(place.sentence_number, start, stop, labels, not errs)

    def _mistakes(
        self, place: Place | Finding, given: Sequence[str], start: int, stop: int
    ) -> Iterator[tuple[str, ...]]:
        """Labels of the tokens ``start:stop`` that a mistake may end in; some may happen to be right."""
        yield tuple(given[start:stop])
        if place.proposed:
            accepted = (*given[: place.start], *place.proposed, *given[place.stop :])
            yield normalise(accepted, "iob2")[start:stop]
        yield self._another_type(place, start, stop)

    def _another_type(self, place: Place | Finding, start: int, stop: int) -> tuple[str, ...]:
        """The true labels, with another type for a segment, or with a segment where there is none."""
        found = segments(self.true[place.sentence_number].labels[start:stop], "iob2")
        if not found:
            made = Segment(place.start - start, place.stop - start, self._random.choice(self.types))
            return tuple(iob2_labels([made], stop - start))
        chosen = self._random.choice(found)
        others = [type_ for type_ in self.types if type_ != chosen.type]
        changed = [replace(chosen, type=self._random.choice(others))] if others else []
        return tuple(iob2_labels([*(one for one in found if one != chosen), *changed], stop - start))
