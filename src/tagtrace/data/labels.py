"""The labels a tagger knows, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tagtrace._checks import DataError, at
from tagtrace.data.schemes import named_scheme, normalise, normalised_scheme
from tagtrace.data.sentence import Sentence

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
        normalise(self.labels, self.scheme)  # raises where a label does not belong to the scheme

    @classmethod
    def from_sentences(cls, sentences: Iterable[Sentence], scheme: str) -> LabelSet:
        """All labels that occur; in iob2 both ``B-X`` and ``I-X`` of every type, whether seen or not."""
        seen: set[str] = set()
        for sentence in sentences:
            seen.update(sentence.labels)
        scheme = normalised_scheme(named_scheme(scheme))
        if scheme == "plain":
            return cls(tuple(sorted(seen)), scheme)
        seen.discard("O")
        if scheme == "io":
            return cls(("O", *sorted(seen)), scheme)
        normalise(sorted(seen), scheme)  # raises where a label does not belong to the scheme
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
        if self.scheme == "iob2":
            return tuple(sorted({label[2:] for label in self.labels if label != "O"}))
        outside = {"O"} if self.scheme == "io" else set()
        return tuple(sorted(set(self.labels) - outside))

    def index(self, label: str) -> int:
        """The place of a label in the set."""
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
        """Raise where a sentence has a label that is not in the set, and say where."""
        for sentence in sentences:
            if self._index.keys() >= set(sentence.labels):
                continue
            place = next(i for i, label in enumerate(sentence.labels) if label not in self._index)
            line = sentence.lines[place] if place < len(sentence.lines) else None
            where = at(sentence.path or sentence.id or "sentence", line)
            raise DataError(f"{where}: {self._unknown(sentence.labels[place])}; train with it or change it")

    def _unknown(self, label: str) -> str:
        return f"unknown label {label!r}; the set knows {_some(self.labels)}"

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
