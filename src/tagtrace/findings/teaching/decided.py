"""The labels that a person has decided on, and what they say about findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tagtrace.data.labels import HIDDEN
from tagtrace.data.schemes import normalise
from tagtrace.data.sentence import Sentence
from tagtrace.findings.finding import Finding

Place = tuple[int, int]
"""The number of a sentence and of a token in it."""


@dataclass(frozen=True)
class Decided:
    """Labels that are known to be right, of single tokens: other tokens of their sentences may be unchecked."""

    labels: Mapping[Place, str] = field(default_factory=dict[Place, str])

    @classmethod
    def of(cls, segments: Iterable[tuple[int, int, Iterable[str]]]) -> Decided:
        """From (sentence number, first token, labels) of segments; where they overlap, the last one counts."""
        return cls({(number, start + t): label for number, start, some in segments for t, label in enumerate(some)})

    def __len__(self) -> int:
        return len(self.labels)

    def sentences(self, given: Sequence[Sentence], scheme: str) -> list[Sentence]:
        """The sentences with decided labels, all other labels HIDDEN; ``given`` are those that decisions number.

        Where a decision takes the beginning off a segment, the rest becomes a segment of its own, as in an export.
        """
        known = dict[int, dict[int, str]]()
        for (number, t), label in self.labels.items():
            known.setdefault(number, {})[t] = label
        found = list[Sentence]()
        for number, some in sorted(known.items()):
            whole = normalise([some.get(t, label) for t, label in enumerate(given[number].labels)], scheme)
            found.append(given[number].with_labels([one if t in some else HIDDEN for t, one in enumerate(whole)]))
        return found

    def touches(self, finding: Finding) -> bool:
        """Whether a label of the finding's tokens is decided, or of the token after it, which may continue them."""
        return any((finding.sentence_number, t) in self.labels for t in range(finding.start, finding.stop + 1))

    def outcome(self, finding: Finding) -> tuple[bool | None, bool | None]:
        """Whether the given labels of a finding are wrong, and whether the proposed ones are right; None: not known."""
        places = range(finding.start, finding.stop)
        known = [self.labels.get((finding.sentence_number, t)) for t in places]
        return _differs(known, finding.given), _not(_differs(known, finding.proposed))


def _differs(known: list[str | None], labels: Iterable[str]) -> bool | None:
    """Whether known labels differ from others; None if that depends on labels that are not known.

    >>> _differs(["O", None], ["B-LOC", "O"]), _differs(["O", None], ["O", "O"]), _differs(["O"], ["O"])
    (True, None, False)
    """
    if any(label is not None and label != other for label, other in zip(known, labels, strict=True)):
        return True
    return None if None in known else False


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value
