"""Detecting the scheme of a file's labels in one pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from tagtrace.data.schemes import Scheme

_PREFIXES = frozenset("BIESLU")


def detect_scheme(sequences: Iterable[Sequence[str]]) -> Scheme:
    """The scheme of these label sequences, one sequence per sentence.

    Labels without prefixes are io if ``O`` occurs, otherwise plain. For labels with prefixes the way most segments
    start and end decides, so a few mistakes do not matter. If all labels are ``O``, the scheme is iob2.

    >>> detect_scheme([["I-PER", "O", "I-PER", "B-PER"]])
    'iob1'
    >>> detect_scheme([["DET", "NOUN"]])
    'plain'
    """
    num_pairs: Counter[tuple[str, str]] = Counter()
    for labels in sequences:
        num_pairs.update(zip(chain(("O",), labels), labels, strict=False))
    num_labels: Counter[str] = Counter()
    for (_, label), count in num_pairs.items():
        num_labels[label] += count
    if not _has_prefixes(num_labels):
        return "io" if "O" in num_labels else "plain"
    return _closed_scheme(num_labels) or _iob_version(num_pairs)


def _prefix(label: str) -> str:
    """The prefix letter, ``O`` for the label ``O``, or an empty string."""
    if label == "O":
        return "O"
    return label[0] if label[1:2] == "-" and label[0] in _PREFIXES else ""


def _num_prefixes(num_labels: Counter[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for label, count in num_labels.items():
        counts[_prefix(label)] += count
    return counts


def _has_prefixes(num_labels: Counter[str]) -> bool:
    """Whether the labels have prefixes: in a file with ``O`` one ``B-`` or ``I-`` is enough, otherwise most must.

    Without ``B-`` and ``I-``, all labels must start with ``S-`` or all with ``U-`` (all segments have one token):
    a lone ``E-mail`` is a type.
    """
    counts = _num_prefixes(num_labels)
    num_outside = counts.pop("O", 0)
    if not counts:
        return True
    if counts["B"] or counts["I"]:
        return num_outside > 0 or 2 * counts[""] <= counts.total()
    return counts.total() in (counts["S"], counts["U"])


def _closed_scheme(num_labels: Counter[str]) -> Scheme | None:
    """bioes or bilou, if at least half of the segments end with the letters of one of them."""
    counts = _num_prefixes(num_labels)
    num_bioes_ends, num_bilou_ends = counts["E"] + counts["S"], counts["L"] + counts["U"]
    num_starts = counts["B"] + counts["S"] + counts["U"]
    num_ends = max(num_bioes_ends, num_bilou_ends)
    if num_ends == 0 or 2 * num_ends < num_starts:
        return None
    return "bioes" if num_ends == num_bioes_ends else "bilou"


def _iob_version(num_pairs: Counter[tuple[str, str]]) -> Scheme:
    """iob2 if segments that do not follow one of their own type mostly start with ``B-``, otherwise iob1."""
    num_starts: Counter[str] = Counter()
    for (previous, label), count in num_pairs.items():
        if previous[2:] != label[2:]:
            num_starts[_prefix(label)] += count
    return "iob2" if num_starts["B"] >= num_starts["I"] else "iob1"
