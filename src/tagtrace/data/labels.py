"""The labels that a tagger knows, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tagtrace._checks import DataError, OptionError, at
from tagtrace.data.schemes import label_type, named_scheme, normalise, normalised_scheme
from tagtrace.data.sentence import Sentence

HIDDEN = ""
"""In place of a label that training should not learn."""

_NUM_SHOWN = 6


@dataclass(frozen=True)
class LabelSet:
    """Labels in the order of a tagger's outputs; ``scheme`` is normalised: ``iob2``, ``io`` or ``plain``.

    >>> labels = LabelSet(("O", "B-PER", "I-PER"), "iob2")
    >>> labels.encode(["B-PER", "I-PER", "O"])
    [1, 2, 0]
    >>> labels.decode([1, 0])
    ('B-PER', 'O')
    """

    labels: tuple[str, ...]
    scheme: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(self.labels))
        object.__setattr__(self, "scheme", normalised_scheme(named_scheme(self.scheme)))
        if not self.labels:
            raise DataError("a label set needs at least one label; none was found")
        if len(set(self.labels)) < len(self.labels):
            raise DataError(f"a label set needs distinct labels; found {_some(self.labels)}")
        normalise(self.labels, self.scheme)  # raises if a label does not belong to the scheme

    @classmethod
    def from_sentences(cls, sentences: Iterable[Sentence], scheme: str) -> LabelSet:
        """All labels that occur; in iob2 both ``B-X`` and ``I-X`` of every type, even if only one occurs."""
        seen: set[str] = set()
        for sentence in sentences:
            seen.update(sentence.labels)
        scheme = normalised_scheme(named_scheme(scheme))
        if scheme == "plain":
            return cls(tuple(sorted(seen)), scheme)
        seen.discard("O")
        if scheme == "io":
            return cls(("O", *sorted(seen)), scheme)
        normalise(sorted(seen), scheme)  # raises if a label does not belong to the scheme
        types = sorted({label[2:] for label in seen})
        return cls(("O", *(f"{prefix}-{type_}" for type_ in types for prefix in "BI")), scheme)

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {label: index for index, label in enumerate(self.labels)}

    @property
    def types(self) -> tuple[str, ...]:
        """The types of segments, sorted.

        >>> LabelSet(("O", "B-PER", "I-PER"), "iob2").types
        ('PER',)
        """
        outside = set() if self.scheme == "plain" else {"O"}
        return tuple(sorted(set(self.type_of) - outside))

    @cached_property
    def type_of(self) -> tuple[str, ...]:
        """The type of each label, ``O`` for the label outside segments.

        >>> LabelSet(("O", "B-PER", "I-PER"), "iob2").type_of
        ('O', 'PER', 'PER')
        """
        return tuple([label_type(label, self.scheme) for label in self.labels])

    def mask(self, name: str) -> np.ndarray:
        """(C,) bool: the labels that a type or a label names.

        >>> LabelSet(("O", "B-PER", "I-PER"), "iob2").mask("PER")
        array([False,  True,  True])
        """
        found = np.array([name in (label, type_) for label, type_ in zip(self.labels, self.type_of, strict=True)])
        if not found.any():
            raise OptionError(f"unknown label {name!r}; expected one of {_some(sorted(set(self.type_of)))}")
        return found

    def pair_masks(self, pair: str, expected: str = "GOLD:PREDICTED") -> tuple[np.ndarray, np.ndarray]:
        """The labels that each side of a pair such as ``ORG:LOC`` names, (C,) bool each; the two must not overlap."""
        if pair.count(":") != 1:
            raise OptionError(f"pair {pair!r}: expected {expected}, for example ORG:LOC")
        first, second = (self.mask(name) for name in pair.split(":"))
        if (first & second).any():
            raise OptionError(f"pair {pair!r}: expected two different labels")
        return first, second

    def spell(self, type_: str, length: int) -> list[int]:
        """The label numbers of a segment of ``length`` tokens of a type: B-X I-X ..., X X ... or O O ...

        >>> LabelSet(("O", "B-PER", "I-PER"), "iob2").spell("PER", 3)
        [1, 2, 2]
        """
        if self.scheme == "iob2" and type_ != "O":
            return self.encode([f"B-{type_}", *[f"I-{type_}"] * (length - 1)])
        return self.encode([type_] * length)

    def parse(self, given: str | Sequence[str], length: int) -> list[int]:
        """The label numbers that a user means for ``length`` tokens.

        ``given`` is one label for all of them, a type (``ORG`` is B-ORG I-ORG ... where the scheme has prefixes), or
        a label for each token, as a list or separated by commas.
        """
        if isinstance(given, str):
            if given in self._index:
                return self.encode([given] * length)
            if given in self.types:
                return self.spell(given, length)
        try:
            ids = self.encode(given.split(",") if isinstance(given, str) else given)
        except DataError as error:
            raise OptionError(str(error)) from None
        if len(ids) != length:
            raise OptionError(f"{len(ids)} labels for {length} tokens; give one label for each token, or a type")
        return ids

    def index(self, label: str) -> int:
        """The number of a label."""
        try:
            return self._index[label]
        except KeyError:
            raise DataError(self._unknown(label)) from None

    def encode(self, labels: Sequence[str]) -> list[int]:
        """Labels as numbers."""
        try:
            return [self._index[label] for label in labels]
        except KeyError as error:
            raise DataError(self._unknown(error.args[0])) from None

    def decode(self, ids: Iterable[int]) -> tuple[str, ...]:
        """Numbers as labels."""
        return tuple([self.labels[index] for index in ids])

    def check(self, sentences: Iterable[Sentence]) -> None:
        """Raise if a sentence has a label that is not in the set; the error names the place."""
        for sentence in sentences:
            if self._index.keys() >= set(sentence.labels):
                continue
            place = next(i for i, label in enumerate(sentence.labels) if label not in self._index)
            line = sentence.lines[place] if place < len(sentence.lines) else None
            where = at(sentence.path or sentence.id or "sentence", line)
            raise DataError(f"{where}: {self._unknown(sentence.labels[place])}; change it, or train with it")

    def _unknown(self, label: str) -> str:
        known = f"the known labels are {_some(self.labels)}"
        if label[:2] in ("S-", "E-", "L-", "U-") and label[2:] in self.types:
            known = f"labels are B- and I- here, whatever the scheme of the file; give {label[2:]} or B-{label[2:]}"
        return f"unknown label {label!r}; {known}"

    def forbidden_transitions(self) -> np.ndarray:
        """(C, C) bool, ``[from, to]``: True where ``to`` cannot follow ``from`` in valid iob2.

        >>> LabelSet(("O", "B-PER", "I-PER"), "iob2").forbidden_transitions()[0]
        array([False, False,  True])
        """
        if self.scheme != "iob2":
            return np.zeros((len(self), len(self)), dtype=bool)
        types = np.array([label[2:] for label in self.labels])  # (C,)
        return self.forbidden_start()[None, :] & (types[:, None] != types[None, :])  # (C, C)

    def forbidden_start(self) -> np.ndarray:
        """(C,) bool: True where a label cannot start a sentence in valid iob2."""
        is_iob2 = self.scheme == "iob2"
        return np.array([is_iob2 and label.startswith("I-") for label in self.labels], dtype=bool)

    def to_json(self) -> dict[str, Any]:
        """A dictionary for JSON, read back by ``from_json``."""
        return {"scheme": self.scheme, "labels": list(self.labels)}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> LabelSet:
        """The label set that ``to_json`` described."""
        try:
            labels, scheme = saved["labels"], saved["scheme"]
        except (KeyError, TypeError):
            raise DataError("a saved label set needs the keys labels and scheme") from None
        if not isinstance(scheme, str) or not isinstance(labels, list | tuple):
            raise DataError("a saved label set needs a list of labels and the name of a scheme")
        return cls(tuple(map(str, labels)), scheme)


def _some(labels: Sequence[str]) -> str:
    """A handful of labels for a message.

    >>> _some(["A", "B", "C", "D", "E", "F", "G", "H"])
    'A, B, C, D, E, F and 2 more'
    """
    shown = ", ".join(labels[:_NUM_SHOWN])
    return shown if len(labels) <= _NUM_SHOWN else f"{shown} and {len(labels) - _NUM_SHOWN} more"
