"""UIMA's CAS as INCEpTION writes it, in whatever syntax: texts with named entities, tokens and sentences.

A text is the string of a *sofa*. Annotations point to their sofa and count its UTF-16 code units, as Java does. Only
those count that are members of its *view*: the others are parts of something else.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from tagtrace._checks import DataError, NoLabelsError, at
from tagtrace.data.marked.marks import Mark, MarkedText
from tagtrace.data.options import ReadOptions
from tagtrace.data.source import shown, stem

ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
TOKEN = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Token"
SENTENCE = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Sentence"
META = "de.tudarmstadt.ukp.dkpro.core.api.metadata.type.DocumentMetaData"
READ = (ENTITY, TOKEN, SENTENCE)

AGAIN = "export the document again"
MAX_ID = 2**31 - 1
_NUMBER = re.compile(r"[0-9]{1,10}")
_TOOLS = re.compile(
    r"uima\.|org\.dkpro\.core\.|de\.tudarmstadt\.ukp\.inception\.|de\.tudarmstadt\.ukp\.clarin\.webanno\."
    r"|de\.tudarmstadt\.ukp\.dkpro\.core\.(?!api\.ner\.type\.)"
)
"""Types that come with every document."""


@dataclass(frozen=True, slots=True)
class Sofa:
    """A text and its number."""

    id: int
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Annotation:
    """A named entity, token or sentence. ``begin`` and ``end`` count UTF-16 code units."""

    id: int
    type: str
    sofa: int
    begin: int
    end: int
    value: str | None = None


@dataclass(slots=True)
class Cas:
    """What one file has."""

    path: Path
    sofas: dict[int, Sofa] = field(default_factory=dict)
    """Those with a text."""
    annotations: list[Annotation] = field(default_factory=list)
    members: dict[int, set[int]] = field(default_factory=dict)
    """By the number of their sofa."""
    views: dict[int, str] = field(default_factory=dict)
    """The names of the views that have them, where views have names."""
    ids: set[int] = field(default_factory=set)
    """The numbers that are taken."""
    titles: dict[int, str] = field(default_factory=dict)
    """Of the documents, by the number of their sofa."""
    layers: Counter[str] = field(default_factory=Counter)
    """How many other annotations somebody made, by their type."""

    def take_id(self, number: int, where: str) -> int:
        """A number that nothing else in the file has."""
        if number in self.ids:
            raise DataError(f"{where}: the id {number} is given twice; {AGAIN}")
        self.ids.add(number)
        return number

    def new_id(self) -> int:
        """A number that is not taken, which is then."""
        taken = self.ids.union(*self.members.values())
        number = max(taken, default=0) + 1
        if number > MAX_ID:
            number = next(each for each in range(1, MAX_ID) if each not in taken)
        self.ids.add(number)
        return number

    def needed(self, number: int, by: str) -> DataError:
        """The error about a named entity that should be removed but that something refers to."""
        return DataError(
            f"{at(self.path)}: the named entity with the id {number} cannot be removed, because {by} refers to it; "
            "remove that first, or keep the label"
        )

    def texts(self) -> list[Sofa]:
        """The texts that are read: those with annotations, or all if none has any."""
        used = {one.sofa for one in self.annotations}
        return [sofa for sofa in self.sofas.values() if sofa.id in used or not used]

    def add_layer(self, name: str) -> None:
        """Count an annotation of a type that is not read."""
        if not is_tools(name):
            self.layers[name] += 1

    def marked_texts(self, options: ReadOptions) -> Iterator[MarkedText]:
        """Each text with its marks, whose keys are the numbers of their annotations."""
        if not self.sofas:
            raise DataError(
                f"{at(self.path)}: has no text (no sofa with a sofaString); export the document with its text"
            )
        layers = tuple(f"its {count} of {name} are kept and not looked at" for name, count in self.layers.items())
        if options.labelled and layers and not any(one.type == ENTITY for one in self.annotations):
            found = ", ".join(f"{name} ({count})" for name, count in self.layers.most_common(5))
            raise NoLabelsError(
                f"{at(self.path)}: has no annotations of {ENTITY}, only of {shown(found, 200)}; copy them to the layer "
                "Named entity, or read the file as unlabelled"
            )
        by_sofa: dict[int, list[Annotation]] = {}
        for one in self.annotations:
            by_sofa.setdefault(one.sofa, []).append(one)
        for number, sofa in enumerate(self.texts()):
            yield _marked(self, sofa, by_sofa.get(sofa.id, []), () if number else layers)


def is_tools(name: str) -> bool:
    """Whether a type comes with the tools; all others are layers that somebody annotated."""
    return _TOOLS.match(name) is not None


def whole_number(text: str) -> int | None:
    """A number of a structure or a character as it is written; None if it is none, or too large for UIMA."""
    return int(text) if _NUMBER.fullmatch(text) and int(text) <= MAX_ID else None


class Units:
    """The UTF-16 code units of a text.

    >>> units = Units("a\\U0001f600b")
    >>> [units.character(place) for place in range(6)], [units.unit(place) for place in range(4)]
    ([0, 1, None, 2, 3, None], [0, 1, 3, 4])
    """

    def __init__(self, text: str) -> None:
        self._pairs = [] if text.isascii() else [place for place, one in enumerate(text) if one > "\uffff"]
        self._units = [place + before for before, place in enumerate(self._pairs)]
        self.length: int = len(text) + len(self._pairs)

    def character(self, unit: int) -> int | None:
        """The character that begins at a unit; None if none does."""
        before = bisect_left(self._units, unit)
        if unit > self.length or (before > 0 and self._units[before - 1] + 1 == unit):
            return None
        return unit - before

    def unit(self, character: int) -> int:
        """The unit at which a character begins."""
        return character + bisect_left(self._pairs, character)


def _marked(cas: Cas, sofa: Sofa, annotations: Sequence[Annotation], layers: Sequence[str]) -> MarkedText:
    units, odd = Units(sofa.text), list(layers)
    members = cas.members.get(sofa.id, set())
    marks, tokens, breaks = list[Mark](), list[tuple[int, int, int]](), set[int]()
    for one in annotations:
        _check_range(one, units, cas.path)
        start, stop = units.character(one.begin), units.character(one.end)
        if one.type == ENTITY:
            reason = _why_odd(one, start, stop, is_member=one.id in members)
            if reason:
                odd.append(f"the named entity with the id {one.id} {reason}; it is kept as it is")
            elif one.value and start is not None and stop is not None:
                marks.append(Mark(start, stop, one.value, one.id))
        elif one.id in members:
            if start is None or stop is None:
                raise DataError(f"{_where(one, cas.path)} begins or ends inside a character; {AGAIN}")
            if one.type == SENTENCE:
                breaks |= {start, stop}
            elif start < stop:
                tokens.append((start, stop, one.id))
    title = cas.titles.get(sofa.id, "").strip() or stem(cas.path)
    return MarkedText(
        sofa.text, tuple(marks), sofa.line, document=title, tokens=_in_order(tokens, cas.path),
        breaks=tuple(sorted(breaks)) or None, odd=tuple(odd),
    )  # fmt: skip


def _why_odd(one: Annotation, start: int | None, stop: int | None, *, is_member: bool) -> str:
    if not is_member:
        return "is in no view of its text"
    if not one.value:
        return "has no value"
    if start is None or stop is None:
        return "begins or ends inside a character"
    return "" if start < stop else "has no characters"


def _check_range(one: Annotation, units: Units, path: Path) -> None:
    if not 0 <= one.begin <= one.end <= units.length:
        raise DataError(
            f"{_where(one, path)} is from {one.begin} to {one.end}, but its text has {units.length} UTF-16 code units; "
            f"{AGAIN}"
        )


def _where(one: Annotation, path: Path) -> str:
    return f"{at(path)}: the {one.type.rpartition('.')[2]} with the id {one.id}"


def _in_order(tokens: list[tuple[int, int, int]], path: Path) -> tuple[tuple[int, int], ...] | None:
    tokens.sort()
    for (_, stop, first), (start, _, second) in pairwise(tokens):
        if start < stop:
            raise DataError(f"{at(path)}: the tokens with the ids {first} and {second} overlap; remove one of them")
    return tuple((start, stop) for start, stop, _ in tokens) or None
