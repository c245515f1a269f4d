"""Label schemes: how the labels of tokens encode segments.

Conventions
-----------
- ``iob1``: ``I-X`` inside a segment; ``B-X`` only where a segment directly follows another of its type.
- ``iob2``: ``B-X`` starts every segment, ``I-X`` continues it.
- ``bioes``: as iob2, but the last token is ``E-X`` and a segment of one token is ``S-X``.
- ``bilou``: bioes with the letters ``L`` and ``U`` for ``E`` and ``S``.
- ``io``: the bare type, and ``O`` outside; a segment is a maximal run of one type.
- ``plain``: one label per token, such as a part of speech; each token is a segment of its own.

The first four are *normalised* to valid iob2; io and plain labels stay as they are. Labels that break
their scheme are read as conlleval reads them: a stray ``I-X`` starts a segment. A label is split at its
first hyphen only, so types may contain hyphens.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Literal, get_args

from tagtrace._checks import DataError, OptionError
from tagtrace.data.sentence import Segment

Scheme = Literal["iob1", "iob2", "bioes", "bilou", "io", "plain"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)

_ALIASES: dict[str, Scheme] = {"biluo": "bilou", "iobes": "bioes", "bio": "iob2"}

ROLES: dict[str, dict[str, str]] = {
    "iob1": {"B": "B", "I": "I"},
    "iob2": {"B": "B", "I": "I"},
    "bioes": {"B": "B", "I": "I", "E": "E", "S": "S"},
    "bilou": {"B": "B", "I": "I", "L": "E", "U": "S"},
}
"""The meaning of each prefix of a scheme, in the letters of bioes. Schemes without prefixes are absent."""

_OUTSIDE = ("O", "")


class LabelError(DataError):
    """A label that does not belong to its scheme; ``index`` is the token that has it."""

    index: int = 0


def named_scheme(name: str) -> Scheme:
    """The scheme that a user names: its name or an alias, in upper or lower case.

    >>> named_scheme("BILUO")
    'bilou'
    """
    lowered = name.lower()
    for scheme in SCHEMES:
        if scheme == _ALIASES.get(lowered, lowered):
            return scheme
    raise OptionError(f"unknown label scheme {name!r}; choose auto or one of {', '.join(SCHEMES)}")


def normalised_scheme(scheme: str) -> str:
    """The scheme that labels have once normalised: ``iob2`` for all schemes with prefixes.

    >>> normalised_scheme("bioes"), normalised_scheme("plain")
    ('iob2', 'plain')
    """
    return "iob2" if scheme in ROLES else scheme


@lru_cache(maxsize=4096)
def _parse(label: str, scheme: str) -> tuple[str, str]:
    """The role (B, I, E, S or O) and the type of a label."""
    if label == "O":
        return _OUTSIDE
    prefix, hyphen, type_ = label.partition("-")
    role = ROLES[scheme].get(prefix)
    if role and type_:
        return role, type_
    wanted = ", ".join(f"{prefix}-TYPE" for prefix in ROLES[scheme])
    problem = "has no type" if role and hyphen else f"does not belong to the scheme {scheme}"
    raise LabelError(f"label {label!r} {problem}; expected O, {wanted}; fix it or choose another scheme")


def _parse_all(labels: Sequence[str], scheme: str) -> Iterator[tuple[str, str]]:
    for index, label in enumerate(labels):
        try:
            yield _parse(label, scheme)
        except LabelError as error:
            error.index = index
            raise


@lru_cache(maxsize=4096)
def _spell(prefix: str, type_: str) -> str:
    return sys.intern(f"{prefix}-{type_}")


def _starts_segment(previous: tuple[str, str], current: tuple[str, str]) -> bool:
    """conlleval's rule, for a ``current`` label that is not ``O``."""
    return current[0] in "BS" or previous[0] in "OES" or previous[1] != current[1]


def normalise(labels: Sequence[str], scheme: str) -> tuple[str, ...]:
    """Labels of a file's own ``scheme`` as valid iob2; io and plain labels are unchanged.

    >>> normalise(["I-PER", "B-PER", "O", "I-LOC"], "iob1")
    ('B-PER', 'B-PER', 'O', 'B-LOC')
    >>> normalise(["B-creative-work", "L-creative-work"], "bilou")
    ('B-creative-work', 'I-creative-work')
    """
    if scheme not in ROLES or _all_outside(labels):
        return tuple(labels)
    written: list[str] = []
    previous = _OUTSIDE
    for current in _parse_all(labels, scheme):
        if current is _OUTSIDE:
            written.append("O")
        else:
            written.append(_spell("B" if _starts_segment(previous, current) else "I", current[1]))
        previous = current
    return tuple(written)


def label_type(label: str, scheme: str) -> str:
    """The type of a normalised label; ``O`` outside segments.

    >>> label_type("B-PER", "iob2"), label_type("O", "iob2"), label_type("NOUN", "plain")
    ('PER', 'O', 'NOUN')
    """
    return label[2:] if scheme == "iob2" and label != "O" else label


def _all_outside(labels: Sequence[str]) -> bool:
    return labels.count("O") == len(labels)


def segments(labels: Sequence[str], scheme: str) -> list[Segment]:
    """The segments that labels encode, in order.

    >>> segments(["B-ORG", "I-ORG", "O"], "iob2")
    [Segment(start=0, stop=2, type='ORG')]
    >>> segments(["POP", "INT", "INT"], "io")
    [Segment(start=0, stop=1, type='POP'), Segment(start=1, stop=3, type='INT')]
    """
    if scheme == "plain":
        return [Segment(index, index + 1, label) for index, label in enumerate(labels)]
    if _all_outside(labels):
        return []
    return list(_runs(labels) if scheme == "io" else _iob2_segments(normalise(labels, scheme)))


def spelled(labels: Sequence[str]) -> str:
    """The types of the segments that normalised labels encode, in order; ``O`` if there are none.

    >>> spelled(["B-ORG", "I-ORG", "O", "B-LOC"]), spelled(["O"]), spelled(["I-PER"])
    ('ORG+LOC', 'O', 'PER')
    """
    has_prefixes = any(label[:2] in ("B-", "I-") for label in labels)
    found = [segment.type for segment in segments(labels, "iob2" if has_prefixes else "io")]
    return "+".join(dict.fromkeys(found)) or "O"


def differences(first: Sequence[str], second: Sequence[str], scheme: str) -> list[tuple[int, int]]:
    """Where two labellings differ: (start, stop) of segments that are not in both, joined where they overlap.

    >>> differences(("B-LOC", "I-LOC", "O", "O"), ("B-LOC", "O", "O", "B-PER"), "iob2")
    [(0, 2), (3, 4)]
    """
    changed = set(segments(first, scheme)) ^ set(segments(second, scheme))
    joined: list[tuple[int, int]] = []
    for start, stop in sorted((segment.start, segment.stop) for segment in changed):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], stop))
        else:
            joined.append((start, stop))
    return joined


def _runs(labels: Sequence[str]) -> Iterator[Segment]:
    start = 0
    for label, run in groupby(labels):
        stop = start + sum(1 for _ in run)
        if label != "O":
            yield Segment(start, stop, label)
        start = stop


def _iob2_segments(labels: Sequence[str]) -> Iterator[Segment]:
    start: int | None = None
    for index, label in enumerate([*labels, "O"]):
        if start is not None and not label.startswith("I-"):
            yield Segment(start, index, labels[start][2:])
            start = None
        if label.startswith("B-"):
            start = index


def denormalise(labels: Sequence[str], scheme: str) -> tuple[str, ...]:
    """Normalised labels as labels of a file's own ``scheme``.

    >>> denormalise(["B-PER", "B-PER", "I-PER"], "iob1")
    ('I-PER', 'B-PER', 'I-PER')
    >>> denormalise(["B-PER", "B-PER", "I-PER"], "bioes")
    ('S-PER', 'B-PER', 'E-PER')
    """
    if scheme not in ROLES:
        return tuple(labels)
    prefix_of = {role: prefix for prefix, role in ROLES[scheme].items()}
    written = ["O"] * len(labels)
    previous = Segment(-1, -1, "")
    for segment in segments(labels, "iob2"):
        follows_same_type = previous.stop == segment.start and previous.type == segment.type
        roles = _roles(segment.stop - segment.start, scheme, follows_same_type)
        written[segment.start : segment.stop] = [_spell(prefix_of[role], segment.type) for role in roles]
        previous = segment
    return tuple(written)


def _roles(length: int, scheme: str, follows_same_type: bool) -> str:
    """The role of each token of one segment."""
    if scheme == "iob1":
        return ("B" if follows_same_type else "I") + "I" * (length - 1)
    if scheme == "iob2":
        return "B" + "I" * (length - 1)
    return "S" if length == 1 else "B" + "I" * (length - 2) + "E"


def violations(labels: Sequence[str], scheme: str) -> list[tuple[int, str]]:
    """The places where labels break their scheme: the token's index and the problem.

    >>> violations(["O", "I-PER"], "iob2")
    [(1, 'I-PER starts a segment; iob2 requires B-PER')]
    """
    if scheme not in ROLES or _all_outside(labels):
        return []
    parsed = [_OUTSIDE, *_parse_all(labels, scheme), _OUTSIDE]
    written = ["O", *labels, "O"]
    complaints = {"iob1": _iob1_complaints, "iob2": _iob2_complaints}.get(scheme, _closed_complaints)
    return [
        (index + shift, message)
        for index, (previous, current) in enumerate(pairwise(parsed))
        for shift, message in complaints(previous, current, written[index : index + 2], scheme)
    ]


def _iob1_complaints(previous: tuple[str, str], current: tuple[str, str], written: list[str], _: str):
    if current[0] == "B" and previous[1] != current[1]:
        yield 0, f"{written[1]} does not follow a segment of its type; iob1 requires I-{current[1]}"


def _iob2_complaints(previous: tuple[str, str], current: tuple[str, str], written: list[str], _: str):
    if current[0] == "I" and previous[1] != current[1]:
        yield 0, f"{written[1]} starts a segment; iob2 requires B-{current[1]}"


def _closed_complaints(previous: tuple[str, str], current: tuple[str, str], written: list[str], scheme: str):
    """bioes and bilou: every segment that is opened must be closed, and only an open one is continued."""
    is_open, continues = previous[0] in "BI", current[0] in "IE"
    if is_open and continues and previous[1] == current[1]:
        return
    if is_open:
        yield -1, f"the segment of {written[0]} is not closed, as {scheme} requires"
    if continues:
        yield 0, f"{written[1]} does not continue a segment of its type"
