"""Conditions: where training segments occur, which a mistake may depend on, counted over a whole index at once.

An *opportunity* for a change of type X is a training segment of type X; for a change of unlabelled tokens, a token
labelled O. Each meets four conditions: how its document begins, its text, the token before it and the token after it.
Words are numbered, so that ``bincount`` can count them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from tagtrace.findings.finding import Finding
from tagtrace.index import Index

ConditionKind = Literal["opening", "form", "before", "after"]
KINDS: tuple[ConditionKind, ...] = get_args(ConditionKind)

Types = tuple[str, ...]
"""The types of segments that a change starts from; empty for unlabelled tokens."""

Codes = dict[ConditionKind, np.ndarray]
"""By kind, the condition that each of n segments meets, as a number, (n,)."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What segments have in common besides their labels.

    ``opening``: the first token of their document. ``form``: their text. ``before``, ``after``: the token next to them,
    empty at the edge of the sentence.
    """

    kind: ConditionKind
    value: str

    def describe(self, has_documents: bool = True) -> str:
        """As the end of "LOC segments ...".

        >>> Condition("opening", "SOCCER").describe(), Condition("before", "").describe()
        ('in documents that begin with SOCCER', 'at the start of a sentence')
        """
        if self.kind == "opening":
            return f"in {'documents' if has_documents else 'sentences'} that begin with {self.value}"
        if self.kind == "form":
            return f'that read "{self.value}"'
        if not self.value:
            return f"at the {'start' if self.kind == 'before' else 'end'} of a sentence"
        return f'right {"after" if self.kind == "before" else "before"} "{self.value}"'


@dataclass(frozen=True)
class Opportunities:
    """n training segments to which one kind of change could be made."""

    starts: np.ndarray
    """Rows of their first tokens, (n,), ascending."""
    stops: np.ndarray
    """(n,)"""
    codes: Codes
    """The conditions that each segment meets, as numbers of strings."""
    strings: dict[ConditionKind, Sequence[str]]
    """By kind, the strings by number."""


class NumberedText:
    """The words, label types and documents of all N tokens of an index, as numbers; decoded once."""

    words: np.ndarray
    edge: int
    vocabulary: list[str]
    labels: np.ndarray
    types: list[str]
    type: np.ndarray
    lengths: np.ndarray
    firsts: np.ndarray
    sentence_number: np.ndarray
    documents: list[str]
    has_documents: bool

    def __init__(self, index: Index) -> None:
        self.index = index
        self.words, words = index.words()  # (N,)
        self.edge = len(words)  # the edge of a sentence
        self.vocabulary = [*words, ""]
        names = index.labels.type_of
        self.labels = index.label_ids.numpy()  # (N,)
        self.types = [*dict.fromkeys(names)]
        self.type = np.array([self.types.index(name) for name in names])[self.labels]  # (N,)
        self.lengths, self.firsts = index.lengths.numpy(), index.starts.numpy()  # (B,)
        self.sentence_number = np.repeat(np.arange(len(self.lengths)), self.lengths)  # (N,)
        self.documents = index.documents
        self.has_documents = any(self.documents)

    @cached_property
    def document(self) -> np.ndarray:
        """The number of each sentence's document, (B,); a sentence without one is a document of its own."""
        numbers: dict[str | int, int] = {}
        found = [numbers.setdefault(name or number, len(numbers)) for number, name in enumerate(self.documents)]
        return np.array(found)

    @cached_property
    def opening(self) -> np.ndarray:
        """The word that the document of each sentence begins with, (B,)."""
        filled = np.flatnonzero(self.lengths)
        documents, first = np.unique(self.document[filled], return_index=True)
        words = np.full(self.document.max() + 1, self.edge)
        words[documents] = self.words[self.firsts[filled[first]]]
        return words[self.document]

    @cached_property
    def before(self) -> np.ndarray:
        """The word before each token, (N,)."""
        moved = np.roll(self.words, 1)
        moved[self.firsts[self.lengths > 0]] = self.edge
        return moved

    @cached_property
    def after(self) -> np.ndarray:
        """The word after each token, (N,)."""
        moved = np.roll(self.words, -1)
        moved[(self.firsts + self.lengths - 1)[self.lengths > 0]] = self.edge
        return moved

    @cached_property
    def continues(self) -> np.ndarray:
        """Whether a token continues the segment, or the run of O, of the token before it, (N,)."""
        scheme, labels = self.index.labels.scheme, self.index.labels.labels
        if scheme == "plain":
            return np.zeros(len(self.words), dtype=bool)
        if scheme == "iob2":
            return np.array([label.startswith("I-") for label in labels])[self.labels]
        same = self.type == np.roll(self.type, 1)
        same[self.firsts[self.lengths > 0]] = False
        return same

    def _number(self, type_: str) -> int:
        return self.types.index(type_) if type_ in self.types else -1

    def rows(self, finding: Finding) -> tuple[int, int]:
        """The rows start:stop of a finding."""
        first = int(self.firsts[finding.sentence_number])
        return first + finding.start, first + finding.stop

    def given_types(self, finding: Finding) -> Types:
        """The types of the segments in a finding."""
        start, stop = self.rows(finding)
        return tuple(sorted({self.types[number] for number in self.type[start:stop]} - {"O"}))

    def opportunities(self, types: Types, findings: Sequence[Finding]) -> Opportunities:
        """The opportunities for changes from ``types``; ``findings`` are needed for the forms of unlabelled tokens."""
        wanted = [self._number(type_) for type_ in types or ("O",)]
        is_wanted = np.isin(self.type, wanted)
        if types:
            starts = np.flatnonzero(is_wanted & ~self.continues)
            ends = np.append(np.flatnonzero(~self.continues), len(self.words))
            stops = ends[np.searchsorted(ends, starts, side="right")]
            forms, strings = self._segment_forms(starts, stops)
        else:
            starts = np.flatnonzero(is_wanted)
            stops = starts + 1
            forms, strings = self._token_forms(starts, is_wanted, findings)
        codes: Codes = {
            "opening": self.opening[self.sentence_number[starts]],
            "form": forms,
            "before": self.before[starts],
            "after": self.after[stops - 1],
        }
        words = self.vocabulary
        return Opportunities(starts, stops, codes, {"opening": words, "form": strings, "before": words, "after": words})

    def _segment_forms(self, starts: np.ndarray, stops: np.ndarray) -> tuple[np.ndarray, list[str]]:
        numbers: dict[tuple[int, ...], int] = {}
        words = self.words.tolist()
        spans = zip(starts.tolist(), stops.tolist(), strict=True)
        codes = [numbers.setdefault(tuple(words[start:stop]), len(numbers)) for start, stop in spans]
        return np.array(codes, dtype=int), [" ".join([self.vocabulary[word] for word in form]) for form in numbers]

    def _token_forms(
        self, starts: np.ndarray, is_wanted: np.ndarray, findings: Sequence[Finding]
    ) -> tuple[np.ndarray, list[str]]:
        """The form of a token is its word, or the text of a finding if that text begins there."""
        strings, places = list(self.vocabulary), np.full(len(self.words), -1)
        places[starts] = self.words[starts]
        texts = {(start, stop): tuple(self.words[start:stop].tolist()) for start, stop in map(self.rows, findings)}
        order = starts[np.argsort(self.words[starts], kind="stable")]
        ordered, codes = self.words[order], dict[tuple[int, ...], int]()
        for text in sorted({text for text in texts.values() if len(text) > 1}, key=lambda text: (len(text), text)):
            first, last = np.searchsorted(ordered, [text[0], text[0] + 1])
            places[self._repeats(text, order[first:last], is_wanted)] = codes[text] = len(strings)
            strings.append(" ".join([self.vocabulary[word] for word in text]))
        for (start, _), text in texts.items():
            places[start] = codes.get(text, text[0])
        return places[starts], strings

    def _repeats(self, text: tuple[int, ...], rows: np.ndarray, is_wanted: np.ndarray) -> np.ndarray:
        """Those of ``rows``, places of the first word, where all of ``text`` is in one sentence and wanted."""
        rows = rows[rows + len(text) <= len(self.words)]
        for shift in range(1, len(text)):
            there = rows + shift
            is_same = (self.words[there] == text[shift]) & is_wanted[there]
            rows = rows[is_same & (self.sentence_number[there] == self.sentence_number[rows])]
        return rows
