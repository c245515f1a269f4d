"""Whether the first column of a CoNLL file numbers the tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tagtrace.data.columns.fields import DOCUMENT_START, LINE_END, split_fields

RANGE_OR_EMPTY_NODE = re.compile(r"[0-9]+[-.][0-9]+")
"""Numbers of CoNLL-U that are not those of tokens."""

_MAX_DIGITS = 9


@dataclass
class Numbering:
    """What the numbers in the first column do, in the first lines of a file."""

    num_tokens: int = 0
    num_numbers: int = 0
    num_pairs: int = 0
    """Numbers that follow another in their sentence, or start a sentence in another way than the first."""
    num_gaps: int = 0
    """Those of them that are not one more than the number before."""
    first: int | None = None
    last: int = -1
    first_gap: tuple[int, int, int] | None = None
    """Its line, the number there and the one before."""
    num_other_values: int = 0
    """Different values in the second column."""

    @property
    def counts_tokens(self) -> bool:
        """Whether the numbers count: from 0 or 1 without a gap, or mostly so and beside a column that may be tokens.

        >>> numbering(enumerate(["0 The DT O", "1 sea NN O"]), labelled=True).counts_tokens
        True
        >>> numbering(enumerate(["1999 CD O", "2000 CD O"]), labelled=True).counts_tokens
        False
        """
        if self.num_pairs == 0 or self.num_numbers < 0.9 * self.num_tokens:
            return False
        if not self.is_doubtful and self.num_numbers == self.num_tokens:
            return True
        starts_well = self.first in (0, 1) or self.num_pairs >= 10
        return starts_well and 2 * self.num_gaps <= self.num_pairs and self.num_other_values > 1

    @property
    def is_doubtful(self) -> bool:
        """Whether the first column is mostly numbers, but not a count from 0 or 1 without gaps."""
        return self.num_numbers > 0.5 * self.num_tokens and (
            self.num_gaps > 0 or self.first not in (0, 1) or self.num_pairs == 0 or self.num_numbers < self.num_tokens
        )


def numbering(lines: Iterable[tuple[int, str]], *, labelled: bool) -> Numbering:
    """Look at the first column of numbered lines. Lines too short for a number and a token hold no number."""
    found, others, starts_sentence = Numbering(), set[str](), True
    for line, text in lines:
        fields = split_fields(text.rstrip(LINE_END))
        if not fields or DOCUMENT_START in fields[:2]:
            starts_sentence = True
        elif text[0] != "#" and not RANGE_OR_EMPTY_NODE.fullmatch(fields[0]):
            found.num_tokens += 1
            others.update(fields[1:2])
            if len(fields) >= 2 + labelled and fields[0].isdecimal() and len(fields[0]) <= _MAX_DIGITS:
                _note(found, line, int(fields[0]), starts_sentence)
            starts_sentence = False
    found.num_other_values = len(others)
    return found


def _note(found: Numbering, line: int, number: int, starts_sentence: bool) -> None:
    """Count one more number."""
    found.num_numbers += 1
    if found.first is None:
        found.first = number
    elif not (starts_sentence and number in (found.first, found.last + 1)):
        found.num_pairs += 1
        if number != found.last + 1:
            found.num_gaps += 1
            found.first_gap = found.first_gap or (line, number, found.last)
    found.last = number
